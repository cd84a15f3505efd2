package judge

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payonce/test/golden"
)

const (
	tableBegins = "<!-- The tables are written by the tests of package judge: go test ./internal/judge -run TestTables -update -->\n"
	tableEnds   = "<!-- End of the tables. -->\n"
)

func TestTablesOfThePageAreWhatJudgeSays(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, table := range tables() {
		fmt.Fprintf(&b, "\n### %s\n\n| evidence | the key | what it does |\n|---|---|---|\n", table.title)
		for _, r := range table.rows {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", r.evidence, r.key, inWords(r.seen, judged(r.seen, r.e)))
		}
	}
	b.WriteString("\n")
	path := filepath.Join("..", "..", "docs", "reconciliation.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), tableBegins)
	_, after, ended := strings.Cut(rest, tableEnds)
	if !found || !ended {
		t.Fatalf("%s has no place for the tables", path)
	}
	golden.File(t, path, before+tableBegins+b.String()+tableEnds+after)
}
