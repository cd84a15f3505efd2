package lessons

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// claimsPage says where each claim of the sources is shown.
const claimsPage = "docs/claims.md"

// claims is how many the sources make.
const claims = 144

// kindsOfClaims are the ways in which a claim is shown, and what a place of each looks like.
func kindsOfClaims() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"tour":      regexp.MustCompile(`^README\.md$`),
		"lesson":    regexp.MustCompile(`^course/lessons/\d\d-[a-z-]+\.md$`),
		"run":       regexp.MustCompile(`\.(md|yaml|yml|json)$`),
		"test":      regexp.MustCompile(`_test\.go$`),
		"told":      regexp.MustCompile(`\.(md|go|sql|yaml|html)$`),
		"otherwise": regexp.MustCompile(`\.(md|go|sql|yaml)$`),
		"nowhere":   regexp.MustCompile(`^$`),
	}
}

var (
	claimRow = regexp.MustCompile(`(?m)^\| (\d+) \| ([^|]+) \| ([A-D]+(?:, [A-D]+)*) \| ([a-z]+) \| ([^|]*) \|$`)
	countRow = regexp.MustCompile(`(?m)^\| ([a-z]+) \| [^|]+ \| (\d+) \|$`)
	placeOf  = regexp.MustCompile("\\[[^\\]]+\\]\\(([^)#]+)(?:#[^)]*)?\\): `([^`]+)`")
)

// wrongClaims says what is wrong with the page. read gives the text of a file of the project.
func wrongClaims(page string, read func(path string) (string, error)) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	kinds, counted := kindsOfClaims(), map[string]int{}
	rows := claimRow.FindAllStringSubmatch(page, -1)
	if len(rows) != claims {
		say("the page has %d rows, want %d", len(rows), claims)
	}
	for i, row := range rows {
		number, kind, where := row[1], row[4], row[5]
		if number != strconv.Itoa(i+1) {
			say("row %d has the number %s", i+1, number)
		}
		form, known := kinds[kind]
		if !known {
			say("claim %s has the kind %q, want one of %v", number, kind, slices.Sorted(maps.Keys(kinds)))
			continue
		}
		counted[kind]++
		places := placeOf.FindAllStringSubmatch(where, -1)
		if kind == "nowhere" || len(places) == 0 || strings.Count(where, "](") != len(places) {
			say("claim %s: each place is [name](file): `what to look for`, and there is at least one", number)
		}
		for j, place := range places {
			path := filepath.Join("docs", place[1])
			if j == 0 && !form.MatchString(path) {
				say("claim %s is of the kind %s, and %s is no place for it", number, kind, path)
			}
			text, err := read(path)
			switch {
			case err != nil:
				say("claim %s: %v", number, err)
			case strings.HasSuffix(path, "_test.go") && !strings.Contains(text, "func "+place[2]+"("):
				say("claim %s: %s has no test %s", number, path, place[2])
			case !strings.Contains(oneLine(text), place[2]):
				say("claim %s: %s does not have %q", number, path, place[2])
			}
		}
	}
	for _, row := range countRow.FindAllStringSubmatch(page, -1) {
		if row[2] != strconv.Itoa(counted[row[1]]) {
			say("the page counts %s claims of the kind %s, and has %d", row[2], row[1], counted[row[1]])
		}
		delete(kinds, row[1])
	}
	if len(kinds) > 0 {
		say("the page does not count %v", slices.Sorted(maps.Keys(kinds)))
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
		"another number":    {edit(`^\| 1 `, "| 7 "), "row 1 has the number 7"},
		"no such kind":      {edit(`\| [a-z]+ \| \[`, "| shown | ["), `the kind "shown"`},
		"shown nowhere":     {edit(`\| [a-z]+ \| \[.*$`, "| nowhere |  |"), "claim 1: each place"},
		"no place":          {edit(`\[.*$`, "somewhere |"), "claim 1: each place"},
		"no such file":      {edit(`\]\([^)#]+`, "](../no/such.md"), "no such file"},
		"nothing there":     {edit("`[^`]+`", "`words that no page has`"), "does not have"},
		"another kind":      {edit(`\| [a-z]+ \| \[`, "| test | ["), "no place for it"},
		"counted wrongly":   {countRow.ReplaceAllString(page, "| $1 | … | 99 |"), "the page counts 99"},
		"not counted":       {countRow.ReplaceAllString(page, ""), "does not count"},
		"a place unchecked": {edit(` \|$`, " [more](claims.md) |"), "claim 1: each place"},
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
