package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// bug is one planted bug.
type bug struct {
	name    string // of the file, without its ending
	what    string // the first line
	removed string // the guard
	changes []change
	catches []catch // what is tried
}

// change replaces lines of one declaration.
type change struct {
	place    string // a declaration, with its directory before it if another one has the same name
	old, new []string
}

// catch is one run that may find the bug: a lab, or one test. only is what it plays, or settings that it needs, as
// "SERVERS=3". Of a test, it is the package and the name.
type catch struct{ lab, only string }

// setting reports whether the run has settings of its own. Not every machine has what they need, so such a bug is
// planted only by its name.
func (c catch) setting() bool { return strings.Contains(c.only, "=") }

func (c catch) String() string { return strings.TrimSpace(c.lab + " " + c.only) }

const (
	removedMark = "Removed: "
	catchMark   = "Catch: "
	placeMark   = "in "
)

// readBugs reads all of a directory, in the order of their names.
func readBugs(dir string) ([]bug, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("there are no bugs in %s", dir)
	}
	var bugs []bug
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		b, err := parseBug(string(raw))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Base(path), err)
		}
		b.name = strings.TrimSuffix(filepath.Base(path), ".txt")
		bugs = append(bugs, b)
	}
	return bugs, nil
}

func parseBug(text string) (bug, error) {
	prose, changes, _ := strings.Cut(text, "\n\n")
	var b bug
	b.what, _, _ = strings.Cut(prose, "\n")
	for line := range strings.Lines(prose) {
		line = strings.TrimSpace(line)
		if rest, is := strings.CutPrefix(line, removedMark); is {
			b.removed = rest
		}
		if rest, is := strings.CutPrefix(line, catchMark); is {
			lab, only, _ := strings.Cut(rest, " ")
			b.catches = append(b.catches, catch{lab, strings.TrimSpace(only)})
		}
	}
	for part := range strings.SplitSeq(changes, "\n\n") {
		c, err := parseChange(part)
		if err != nil {
			return b, err
		}
		b.changes = append(b.changes, c)
	}
	unknown := slices.ContainsFunc(b.catches, func(c catch) bool {
		return !slices.Contains([]string{"matrix", "chaos", "test"}, c.lab) ||
			c.lab == "test" && len(strings.Fields(c.only)) < 2
	})
	switch {
	case b.what == "" || b.removed == "":
		return b, errors.New(`it does not say what the bug is, or which guard it removes ("Removed: …")`)
	case len(b.catches) == 0 || unknown:
		return b, errors.New(`it does not say what catches it ("Catch: matrix …", "Catch: chaos" or "Catch: test …")`)
	}
	return b, nil
}

func parseChange(text string) (c change, err error) {
	place, lines, _ := strings.Cut(strings.TrimSpace(text), "\n")
	c.place, _ = strings.CutPrefix(place, placeMark)
	for line := range strings.SplitSeq(lines, "\n") {
		switch {
		case strings.HasPrefix(line, "-"):
			c.old = append(c.old, line[1:])
		case strings.HasPrefix(line, "+"):
			c.new = append(c.new, line[1:])
		default:
			return c, fmt.Errorf("the line %q begins with neither - nor +", line)
		}
	}
	if c.place == place || len(c.old) == 0 {
		return c, fmt.Errorf(`%q is no change: "in" and a declaration, then lines with - and lines with +`, place)
	}
	return c, nil
}

// apply writes changed copies below dir, and tells which copy stands for which file of the tree. It is strict: the
// lines of a change must be in its declaration, once. Where the declaration is, and how a line is indented, does not
// matter.
func (b bug) apply(t *tree, dir string) (map[string]string, error) {
	type edit struct {
		change
		at int // the first of its old lines
	}
	edits, files := map[string][]edit{}, map[string][]string{}
	for _, c := range b.changes {
		p, err := t.find(c.place)
		if err != nil {
			return nil, fmt.Errorf("%s no longer applies: %w", b.name, err)
		}
		at, err := c.findIn(t.lines[p.file], p)
		if err != nil {
			return nil, fmt.Errorf("%s no longer applies: %w", b.name, err)
		}
		edits[p.file] = append(edits[p.file], edit{c, at})
	}
	for name, all := range edits {
		files[name] = slices.Clone(t.lines[name])
		slices.SortFunc(all, func(x, y edit) int { return y.at - x.at }) // the last first, so none moves another
		for _, e := range all {
			files[name] = slices.Replace(files[name], e.at, e.at+len(e.old), e.new...)
		}
	}
	overlay := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		copied := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(copied), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(copied, []byte(strings.Join(files[name], "\n")), 0o600); err != nil {
			return nil, err
		}
		overlay[name] = copied
	}
	return overlay, nil
}

// findIn is the first of the old lines of a change, which are in its declaration once.
func (c change) findIn(lines []string, p place) (at int, err error) {
	same := func(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }
	found := 0
	for i := p.begin; i+len(c.old) <= p.end; i++ {
		if slices.EqualFunc(lines[i:i+len(c.old)], c.old, same) {
			at = i
			found++
		}
	}
	if found != 1 {
		return 0, fmt.Errorf("%s has %d times, and not once:\n%s", c.place, found, strings.Join(c.old, "\n"))
	}
	return at, nil
}
