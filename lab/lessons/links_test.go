package lessons

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A link to lines of code has their first line, or its beginning, as its title:
//
//	[`reply.go`](../../internal/judge/reply.go#L19-L50 "func (e Reply) judge(s Seen)")
//
// The title is how a link finds its code when lines above it come or go, or when the code moves to another file.
var (
	link     = regexp.MustCompile(`(\[[^\[\]]*)?\]\(([^)\s]+)(?: "([^"]*)")?\)`)
	lines    = regexp.MustCompile(`^L([0-9]+)(?:-L([0-9]+))?$`)
	inPhrase = regexp.MustCompile(`\blines?\s+[0-9]+(?:\s+to\s+[0-9]+)?`)
)

const (
	maxLinkedLines = 60 // of code that is to be read in one go
	maxTitle       = 40
)

// coursePages are the pages whose links are checked.
func coursePages(t *testing.T) (pages []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), "course", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".md" {
			pages = append(pages, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const sources = "docs/sources.md"
	if _, err := os.Stat(filepath.Join(root, sources)); err == nil {
		pages = append(pages, sources)
	}
	return pages
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	read := func(name string) (string, error) {
		content, err := os.ReadFile(filepath.Join(root, name))
		return string(content), err
	}
	for _, page := range coursePages(t) {
		if *update {
			rewrite(t, page, func(now string) string { return moveLinks(page, now, read, codeFiles(t)) })
		}
		for _, wrong := range linksWrong(page, readFile(t, page), read) {
			t.Errorf("%s: %s", page, wrong)
		}
	}
}

// codeFiles are the files to which linked code may move.
func codeFiles(t *testing.T) (files []string) {
	t.Helper()
	for _, dir := range []string{"internal", "db", "client", "course", "lab"} {
		err := fs.WalkDir(os.DirFS(root), dir, func(name string, _ fs.DirEntry, err error) error {
			if ext := path.Ext(name); (ext == ".go" || ext == ".sql") && !strings.Contains(name, "dbsqlc") {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// target is where a link of a page leads, if it leads to a file of ours.
func target(page, link string) (file, anchor string, ours bool) {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return "", "", false
	}
	file, anchor, _ = strings.Cut(link, "#")
	if file == "" {
		return page, anchor, true
	}
	return path.Join(path.Dir(page), file), anchor, true
}

// linksWrong says which links of a page lead nowhere, or not to the code that they name.
func linksWrong(page, text string, read func(string) (string, error)) (wrong []string) {
	for _, found := range link.FindAllStringSubmatch(outsideOfBlocks(text), -1) {
		file, anchor, ours := target(page, found[2])
		if !ours {
			continue
		}
		say := func(what string) { wrong = append(wrong, found[2]+": "+what) }
		if info, err := os.Stat(filepath.Join(root, file)); err == nil && info.IsDir() {
			continue
		}
		content, err := read(file)
		span := lines.FindStringSubmatch(anchor)
		switch {
		case err != nil:
			say("there is no such file")
		case anchor == "":
		case span != nil:
			what := spanWrong(strings.Split(content, "\n"), span, found[3])
			told := strings.Join(strings.Fields(inPhrase.FindString(found[1])), " ")
			if what == "" && told != "" && told != phrase(spanOf(span)) {
				what = "the page says " + told
			}
			if what != "" {
				say(what)
			}
		case path.Ext(file) == ".md" && !hasHeading(content, anchor):
			say("the page has no such heading")
		case path.Ext(file) != ".md":
			say("lines are linked as #L10-L30, or #L10")
		}
	}
	return wrong
}

// spanOf are the first and the last of the linked lines.
func spanOf(anchor []string) (from, to int) {
	from, to = number(anchor[1]), number(anchor[2])
	if anchor[2] == "" {
		to = from
	}
	return from, to
}

// spanWrong says what is wrong with linked lines.
func spanWrong(content []string, span []string, title string) string {
	from, to := spanOf(span)
	switch n := to - from + 1; {
	case from < 1 || n < 1 || to > len(content):
		return "there are no such lines"
	case n > maxLinkedLines:
		return fmt.Sprintf("%d lines are linked, of %d at most", n, maxLinkedLines)
	case title == "" || !strings.HasPrefix(strings.TrimSpace(content[from-1]), title):
		return fmt.Sprintf("the first line is %q, and the link's title %q; make links",
			content[from-1], title)
	}
	return ""
}

// moveLinks has each link to lines lead to where its first line is now, and gives a title to one that has none. If the
// line is not in its file, it is looked for in the others. If it is nowhere, or there twice, the link stays.
func moveLinks(page, text string, read func(string) (string, error), files []string) string {
	return link.ReplaceAllStringFunc(text, func(whole string) string {
		found := link.FindStringSubmatch(whole)
		file, anchor, ours := target(page, found[2])
		span := lines.FindStringSubmatch(anchor)
		if !ours || span == nil {
			return whole
		}
		content, _ := read(file) // A file that is not there has nothing.
		code := strings.Split(content, "\n")
		from, to := spanOf(span)
		title := found[3]
		if title == "" && from >= 1 && to <= len(code) {
			for from < to && newTitle(code[from-1]) == "" {
				from++ // a link does not begin with an empty line
			}
			title = newTitle(code[from-1])
		}
		base, _, _ := strings.Cut(found[2], "#")
		now := findLine(code, title, from)
		if now == 0 {
			var elsewhere string
			if elsewhere, now = findFile(files, title, read); now == 0 {
				return whole
			}
			found[1] = strings.Replace(found[1], path.Base(file), path.Base(elsewhere), 1)
			base, _ = filepath.Rel(path.Dir(page), elsewhere)
		}
		last := now + to - from
		moved := fmt.Sprintf("L%d-L%d", now, last)
		if now == last {
			moved = fmt.Sprintf("L%d", now)
		}
		return fmt.Sprintf(`%s](%s#%s "%s")`, retell(found[1], now, last), base, moved, title)
	})
}

// findLine is the number of the line that begins with the title: the one where it was, or else the only one. 0: it is
// not there, or there twice.
func findLine(code []string, title string, before int) int {
	found := linesWith(code, title)
	switch {
	case slices.Contains(found, before):
		return before
	case len(found) == 1:
		return found[0]
	}
	return 0
}

// linesWith are the numbers of the lines that begin with the title.
func linesWith(code []string, title string) (found []int) {
	for i, line := range code {
		if title != "" && strings.HasPrefix(strings.TrimSpace(line), title) {
			found = append(found, i+1)
		}
	}
	return found
}

// findFile is the only file with a line that begins with the title, and the number of that line, or 0.
func findFile(files []string, title string, read func(string) (string, error)) (file string, now int) {
	for _, name := range files {
		content, _ := read(name)
		if !strings.Contains(content, title) {
			continue
		}
		for _, line := range linesWith(strings.Split(content, "\n"), title) {
			if now > 0 {
				return "", 0
			}
			file, now = name, line
		}
	}
	return file, now
}

// retell changes the numbers in the text of a link, and keeps the line ends: a page's lines are as long as they were.
func retell(text string, from, to int) string {
	return inPhrase.ReplaceAllStringFunc(text, func(told string) string {
		words := strings.Fields(phrase(from, to))
		if len(words) != len(strings.Fields(told)) {
			return phrase(from, to)
		}
		return regexp.MustCompile(`\S+`).ReplaceAllStringFunc(told, func(string) string {
			word := words[0]
			words = words[1:]
			return word
		})
	})
}

// phrase is how a page tells lines to a reader who does not follow the link.
func phrase(from, to int) string {
	if from == to {
		return fmt.Sprintf("line %d", from)
	}
	return fmt.Sprintf("lines %d to %d", from, to)
}

// newTitle is the beginning of a line: whole words, as many as a title may have.
func newTitle(line string) string {
	line, _, _ = strings.Cut(strings.TrimSpace(line), `"`)
	if len(line) > maxTitle {
		line = line[:maxTitle]
		line = line[:max(strings.LastIndex(line, " "), 1)]
	}
	return strings.TrimSpace(line)
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits) // digits by the expression; a number that is too large is no line
	return n
}

// hasHeading looks for a heading by its anchor, as the usual readers of Markdown make it.
func hasHeading(page, anchor string) bool {
	for line := range strings.Lines(outsideOfBlocks(page)) {
		heading, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !is || !strings.HasPrefix(line, "#") {
			continue
		}
		made := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
				return r
			}
			return -1
		}, strings.ToLower(strings.TrimSpace(heading)))
		if made == anchor {
			return true
		}
	}
	return false
}

func TestLinksMoveWithTheirCode(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a/b.go": "package b\n\nfunc f(\"x\") {\n\treturn\n}\n\nfunc g() {\n}\n", "a/c.md": "# What it is\n",
		"d/e.go": "package d\n\nfunc moved() {\n}\n"}
	read := func(name string) (string, error) {
		content, known := files[name]
		if !known {
			return "", fs.ErrNotExist
		}
		return content, nil
	}
	const page = "course/lessons/01-x.md"
	all := []string{"a/b.go", "d/e.go"}
	for _, c := range []struct{ before, after string }{
		{`[f](../../a/b.go#L3-L5 "func f(")`, `[f](../../a/b.go#L3-L5 "func f(")`},
		{`[f](../../a/b.go#L1-L3 "func f(")`, `[f](../../a/b.go#L3-L5 "func f(")`},
		{`[f](../../a/b.go#L3-L5)`, `[f](../../a/b.go#L3-L5 "func f(")`},
		{`[g](../../a/b.go#L1-L2 "func g() {"), [f](../../a/b.go#L3-L4)`,
			`[g](../../a/b.go#L7-L8 "func g() {"), [f](../../a/b.go#L3-L4 "func f(")`},
		{`[f](../../a/b.go#L2-L5)`, `[f](../../a/b.go#L3-L5 "func f(")`},
		{"[`f`, lines 1 to 3](../../a/b.go#L1-L3 \"func f(\")",
			"[`f`, lines 3 to 5](../../a/b.go#L3-L5 \"func f(\")"},
		{"[`f`, lines 1\n  to 3](../../a/b.go#L1-L3 \"func f(\")",
			"[`f`, lines 3\n  to 5](../../a/b.go#L3-L5 \"func f(\")"},
		{`[f](../../a/b.go#L4)`, `[f](../../a/b.go#L4 "return")`},
		{"[`b.go`, line 3](../../a/b.go#L3-L4 \"func moved(\")",
			"[`e.go`, lines 3 to 4](../../d/e.go#L3-L4 \"func moved(\")"},
		{`[m](../../a/gone.go#L3-L4 "func moved(")`, `[m](../../d/e.go#L3-L4 "func moved(")`},
		{`[c](../../a/c.md#what-it-is)`, `[c](../../a/c.md#what-it-is)`},
		{`[web](https://example.test/a.go#L1-L2)`, `[web](https://example.test/a.go#L1-L2)`},
	} {
		if got := moveLinks(page, c.before, read, all); got != c.after || len(linksWrong(page, got, read)) > 0 {
			t.Errorf("%s becomes %s, want %s: %q", c.before, got, c.after, linksWrong(page, got, read))
		}
	}
	for _, bad := range []string{`[f](../../a/b.go#L3-L5)`, `[f](../../a/b.go#L3-L5 "func h(")`, `[f](../../a/no.go)`,
		`[f](../../a/b.go#L3-L90 "func f(")`, `[f](../../a/b.go#L3)`, `[f](../../a/b.go#f)`,
		`[f, line 3](../../a/b.go#L3-L5 "func f(")`, `[c](../../a/c.md#why)`,
		`[f](../../a/b.go#L5-L3 "}")`} {
		if wrong := linksWrong(page, bad, read); len(wrong) != 1 {
			t.Errorf("%s: %q", bad, wrong)
		}
	}
	// A line that is there twice is not guessed.
	if ambiguous := `[f](../../a/b.go#L1-L2 "func ")`; moveLinks(page, ambiguous, read, all) != ambiguous {
		t.Error("one of two lines was chosen")
	}
	if second := `[f](../../a/b.go#L7-L8 "func ")`; moveLinks(page, second, read, all) != second {
		t.Error("a link that is right was moved")
	}
}
