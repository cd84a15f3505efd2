package console

import (
	"html"
	"html/template"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

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
	words := func(text string) string {
		text = link.ReplaceAllString(text, "docs/$1")
		text = regexp.MustCompile("<[^>]*>|`").ReplaceAllString(text, "")
		return strings.ToLower(strings.Join(strings.Fields(strings.ReplaceAll(text, ".", " ")), " "))
	}
	pages := template.Must(template.New("").Funcs(functions(time.Now)).ParseFS(files, "templates/*.html"))
	for _, kind := range deadletters.Kinds() {
		row := regexp.MustCompile("(?m)^\\| `" + string(kind) + "` \\| (.*) \\| (.*) \\|$").FindSubmatch(page)
		if row == nil {
			t.Errorf("%s has no row in the table of dead letters", kind)
			continue
		}
		var said strings.Builder
		if err := pages.ExecuteTemplate(&said, "kind", string(kind)); err != nil {
			t.Fatal(err)
		}
		want := words(string(row[1]) + " <b>How it usually ends:</b> " + string(row[2]))
		if got := words(html.UnescapeString(said.String())); got != want {
			t.Errorf("of %s, the page says\n%s\nand the table\n%s", kind, got, want)
		}
	}
}
