package lessons

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// claimsPage says where each claim of the sources is shown.
const claimsPage = "docs/claims.md"

// claims is how many the sources make.
const claims = 144

var (
	claimRow = regexp.MustCompile(`(?m)^\| ([^|]+) \| [A-D](?:, [A-D])* \| ([^|]*) \|$`)
	placeOf  = regexp.MustCompile("^(?:otherwise, )?\\[[^\\]]+\\]\\(([^)#]+)(?:#[^)]*)?\\): `([^`]+)`$")
)

// wrongClaims says what is wrong with the page. read gives the text of a file of the project.
func wrongClaims(page string, read func(path string) (string, error)) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	rows := claimRow.FindAllStringSubmatch(page, -1)
	if len(rows) != claims {
		say("the page has %d rows, want %d", len(rows), claims)
	}
	for _, row := range rows {
		place := placeOf.FindStringSubmatch(row[2])
		if place == nil {
			say("%q: its place is [name](file): `what to look for`", row[1])
			continue
		}
		path := filepath.Join("docs", place[1])
		text, err := read(path)
		switch {
		case err != nil:
			say("%q: %v", row[1], err)
		case strings.HasSuffix(path, "_test.go") && !strings.Contains(text, "func "+place[2]+"("):
			say("%q: %s has no test %s", row[1], path, place[2])
		case !strings.Contains(oneLine(text), place[2]):
			say("%q: %s does not have %q", row[1], path, place[2])
		}
	}
	return wrong
}

// oneLine lets a phrase be found that is broken over two lines.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func readClaimed(path string) (string, error) {
	raw, err := os.ReadFile(filepath.Join("..", "..", path))
	return string(raw), err
}

func TestEachClaimOfTheSourcesIsShownWhereThePageSays(t *testing.T) {
	t.Parallel()
	page, err := readClaimed(claimsPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range wrongClaims(page, readClaimed) {
		t.Error(wrong)
	}
}

// Each of these mistakes in the page is found.
func TestMistakesInTheClaimsAreFound(t *testing.T) {
	t.Parallel()
	page, err := readClaimed(claimsPage)
	if err != nil {
		t.Fatal(err)
	}
	first := claimRow.FindString(page)
	edit := func(pattern, by string) string {
		return strings.Replace(page, first, regexp.MustCompile(pattern).ReplaceAllString(first, by), 1)
	}
	for name, c := range map[string]struct{ page, want string }{
		"a row too few":     {strings.Replace(page, first+"\n", "", 1), "143 rows"},
		"a row twice":       {strings.Replace(page, first, first+"\n"+first, 1), "145 rows"},
		"no place":          {edit(`\[.*$`, "somewhere |"), "its place is"},
		"no such file":      {edit(`\]\([^)#]+`, "](../no/such.md"), "no such file"},
		"nothing there":     {edit("`[^`]+`", "`words that no page has`"), "does not have"},
		"a place unchecked": {edit(` \|$`, " [more](claims.md) |"), "its place is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.page == page {
				t.Fatal("the page was not changed")
			}
			if wrong := strings.Join(wrongClaims(c.page, readClaimed), "\n"); !strings.Contains(wrong, c.want) {
				t.Errorf("found %q, want %q", wrong, c.want)
			}
		})
	}
}
