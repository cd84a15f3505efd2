package console

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"payonce/internal/deadletters"
)

// The page of a dead letter and the documentation say the same of each kind.
func TestEachKindIsExplainedAsInTheDocumentation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reconciliation.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\[[^\]]*\]\(([^)]*)\)`)
	plain := func(cell string) string {
		return strings.ReplaceAll(link.ReplaceAllString(cell, "docs/$1"), "`", "")
	}
	same := func(said, cell string) bool {
		return strings.EqualFold(strings.TrimSuffix(said, "."), strings.TrimSuffix(plain(cell), "."))
	}
	for _, kind := range deadletters.Kinds() {
		row := regexp.MustCompile("(?m)^\\| `" + string(kind) + "` \\| (.*) \\| (.*) \\|$").FindSubmatch(page)
		if row == nil {
			t.Errorf("%s has no row in the table of dead letters", kind)
			continue
		}
		if v := kindOf(kind); !same(v.Found, string(row[1])) || !same(v.Ends, string(row[2])) {
			t.Errorf("%s:\n%s\n%s\nthe table says\n%s\n%s", kind, v.Found, v.Ends, plain(string(row[1])), plain(string(row[2])))
		}
	}
}
