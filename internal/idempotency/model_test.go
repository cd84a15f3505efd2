package idempotency

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

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
