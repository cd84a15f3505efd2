package idempotency

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payonce/test/pgtest"
)

const (
	statePage  = "../../docs/state_machine.md"
	keyQueries = "../../db/queries/idempotency.sql"
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

// edgesOfQueries reads the first line of each query that makes a transition: "-- from | from -> to, …".
func edgesOfQueries(t *testing.T) map[string][]Edge {
	t.Helper()
	queries, err := os.ReadFile(keyQueries)
	if err != nil {
		t.Fatal(err)
	}
	inCode := map[string][]Edge{}
	for _, q := range regexp.MustCompile(`-- name: (\w+) :\w+\n-- (\w+(?: \| \w+)*) -> (\w+)\b`).FindAllStringSubmatch(
		string(queries), -1) {
		for from := range strings.SplitSeq(q[2], " | ") {
			inCode[q[1]] = append(inCode[q[1]], Edge{statusNamed(t, from), statusNamed(t, q[3])})
		}
		inCode[q[1]] = sorted(inCode[q[1]])
	}
	if len(inCode) != strings.Count(string(queries), " -> ") {
		t.Error("a query does not name its edge in its first line")
	}
	return inCode
}

// The page names the query of each edge. A query that touches a key without moving it makes no edge. Such a query
// is explained in the text.
func TestPageNamesTheQueryOfEachEdge(t *testing.T) {
	t.Parallel()
	page := readPage(t)
	inCode := edgesOfQueries(t)
	for query, edges := range inCode {
		if len(edges) == 1 && edges[0].From == edges[0].To {
			delete(inCode, query)
			if edges[0].From != UnknownStatus || !strings.Contains(page, "`"+query+"`") {
				t.Errorf("%s touches a key that stays %s, and the page does not explain it", query, edges[0].From)
			}
		}
	}
	onPage := map[string][]Edge{}
	for _, line := range documentedEdges(t) {
		if slices.Contains(onPage[line.writer], line.edge) {
			t.Errorf("the page has two lines for %s from %s to %s", line.writer, line.edge.From, line.edge.To)
		}
		onPage[line.writer] = sorted(append(onPage[line.writer], line.edge))
	}
	if diff := cmp.Diff(inCode, onPage); diff != "" {
		t.Errorf("-queries +page:\n%s", diff)
	}
}

// What the triggers raise, and the CHECKs that have a name of their own.
func TestPageExplainsEveryConstraint(t *testing.T) {
	t.Parallel()
	page := readPage(t)
	b := setup(t)
	names := pgtest.Values[string](t, b.pool, `
		SELECT (regexp_matches(p.prosrc, 'CONSTRAINT = ''(\w+)''', 'g'))[1] FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
		WHERE t.tgrelid IN ('idempotency_keys'::regclass, 'idempotency_key_events'::regclass) AND NOT t.tgisinternal
		UNION
		SELECT conname FROM pg_constraint WHERE conrelid = 'idempotency_keys'::regclass AND contype = 'c' AND conname NOT LIKE '%\_check'`)
	for _, known := range []string{
		"idempotency_keys_edge_is_legal", "idempotency_keys_dead_lettered_stay", "history_is_append_only",
		"idempotency_keys_fits_its_status",
	} {
		if !slices.Contains(names, known) {
			t.Errorf("%s has not been found in the database, only %v", known, names)
		}
	}
	for _, name := range names {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the page does not explain %s", name)
		}
	}
}

// modelEdges is how the models of lab/model move a key.
const modelEdges = "../../lab/model/edges.pml"

var update = flag.Bool("update", false, "write the edges of the models")

// The models have no way to move a key but these: one for each query that makes a transition. So an edge of a model is
// an edge of the page, and Spin says which of them no run takes.
func TestModelsMoveAKeyByTheEdgesOfThePage(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`/*
 * How a key moves: each query of db/queries/idempotency.sql, and the edges along which it moves a key. This is the table of
 * docs/state_machine.md: go test ./internal/idempotency -run TestModels -update writes it. TOOK and NOT_LISTED are in claims.pml.
 */
`)
	lines := documentedEdges(t)
	var written []string
	for _, line := range lines {
		if slices.Contains(written, line.writer) {
			continue
		}
		written = append(written, line.writer)
		fmt.Fprintf(&b, "\ninline %s(key) {\n    if\n", line.writer)
		for _, other := range lines {
			if other.writer == line.writer {
				fmt.Fprintf(&b, "    :: key == %[1]s -> key = %[2]s; TOOK(\"%[3]s: %[1]s -> %[2]s\")\n",
					inModel(other.edge.From), inModel(other.edge.To), line.writer)
			}
		}
		fmt.Fprintf(&b, "    :: else -> NOT_LISTED; key = %s\n    fi\n}\n", inModel(line.edge.To))
	}
	if *update {
		if err := os.WriteFile(modelEdges, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	file, err := os.ReadFile(modelEdges)
	if err != nil {
		t.Fatal(err)
	}
	if string(file) != b.String() {
		t.Errorf("%s differs from the table of %s: -update writes it", modelEdges, statePage)
	}
}

// inModel names a status as the models do.
func inModel(s Status) string {
	if s == "" {
		return "none"
	}
	return string(s)
}
