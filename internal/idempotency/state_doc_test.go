package idempotency

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	statePage  = "../../docs/state_machine.md"
	keyQueries = "../../db/queries/idempotency.sql"
	// notHereYet marks lines of the page whose writer is no request.
	notHereYet = "reconciler"
)

// documented is a line of the page's table of edges.
type documented struct {
	edge   Edge
	writer string
}

func readPage(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(statePage)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func documentedEdges(t *testing.T) []documented {
	t.Helper()
	_, table, found := strings.Cut(readPage(t), "| from | to | who | guard | writer |\n|---|---|---|---|---|\n")
	if !found {
		t.Fatal("the page has no table of edges")
	}
	var lines []documented
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 {
			t.Fatalf("not five cells: %s", line)
		}
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
			if cells[i] == "" {
				t.Fatalf("an empty cell: %s", line)
			}
		}
		lines = append(lines, documented{Edge{statusNamed(t, cells[0]), statusNamed(t, cells[1])}, cells[4]})
	}
	return lines
}

// statusNamed reads a status as the page and the queries write it.
func statusNamed(t *testing.T, name string) Status {
	t.Helper()
	if name == "none" || name == "[*]" {
		return ""
	}
	if !slices.Contains(statuses(), Status(name)) {
		t.Fatalf("there is no status %q", name)
	}
	return Status(name)
}

func sorted(edges []Edge) []Edge {
	edges = slices.Clone(edges)
	slices.SortFunc(edges, func(a, b Edge) int { return strings.Compare(string(a.From+a.To), string(b.From+b.To)) })
	return slices.Compact(edges)
}

func TestPageListsTheEdgesAndNoOther(t *testing.T) {
	t.Parallel()
	var inTable []Edge
	for _, line := range documentedEdges(t) {
		inTable = append(inTable, line.edge)
	}
	if diff := cmp.Diff(sorted(Edges()), sorted(inTable)); diff != "" {
		t.Errorf("the table differs (-Edges +page):\n%s", diff)
	}
	if len(sorted(Edges())) != len(Edges()) {
		t.Error("Edges lists an edge twice")
	}
	var drawn []Edge
	for _, arrow := range regexp.MustCompile(`(?m)^ +(\S+) --> (\S+):`).FindAllStringSubmatch(readPage(t), -1) {
		drawn = append(drawn, Edge{statusNamed(t, arrow[1]), statusNamed(t, arrow[2])})
	}
	if diff := cmp.Diff(sorted(Edges()), sorted(drawn)); diff != "" || len(drawn) != len(Edges()) {
		t.Errorf("the diagram differs (-Edges +page):\n%s", diff)
	}
}

// Each query that makes a transition says so in its first line: "-- from -> to, …". The page names it beside the same edge.
func TestPageNamesTheQueryOfEachEdge(t *testing.T) {
	t.Parallel()
	queries, err := os.ReadFile(keyQueries)
	if err != nil {
		t.Fatal(err)
	}
	inCode := map[string]Edge{}
	for _, q := range regexp.MustCompile(`-- name: (\w+) :\w+\n-- (\w+) -> (\w+)\b`).FindAllStringSubmatch(string(queries), -1) {
		inCode[q[1]] = Edge{statusNamed(t, q[2]), statusNamed(t, q[3])}
	}
	onPage := map[string]Edge{}
	for _, line := range documentedEdges(t) {
		if line.writer != notHereYet {
			onPage[line.writer] = line.edge
		}
	}
	if diff := cmp.Diff(inCode, onPage); diff != "" {
		t.Errorf("-queries +page:\n%s", diff)
	}
	if len(inCode) != strings.Count(string(queries), " -> ") {
		t.Error("a query does not name its edge in its first line")
	}
}

func TestPageNamesEveryConstraintOfTheTrigger(t *testing.T) {
	t.Parallel()
	page := readPage(t)
	b := setup(t)
	var source string
	if err := b.pool.QueryRow(t.Context(), "SELECT prosrc FROM pg_proc WHERE proname = 'idempotency_keys_guard'").Scan(&source); err != nil {
		t.Fatal(err)
	}
	raised := regexp.MustCompile(`CONSTRAINT = '(\w+)'`).FindAllStringSubmatch(source, -1)
	if len(raised) == 0 {
		t.Fatal("the trigger raises nothing")
	}
	for _, c := range raised {
		if !strings.Contains(page, "`"+c[1]+"`") {
			t.Errorf("the page does not explain %s", c[1])
		}
	}
}
