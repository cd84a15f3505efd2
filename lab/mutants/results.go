package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Verdicts.
const (
	caught   = "caught"
	hung     = "hung" // which is caught
	survived = "survived"
)

// result is what became of a mutant.
type result struct {
	verdict string
	by      string // package and test
}

// readResults reads a file of results, by hash. A file that is not there has none.
func readResults(path string) (map[string]result, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return map[string]result{}, nil
	}
	if err != nil {
		return nil, err
	}
	results := map[string]result{}
	for line := range strings.Lines(string(raw)) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(fields) < 2 {
			return nil, fmt.Errorf("read %s: the line %q has no verdict", path, line)
		}
		r := result{verdict: fields[1]}
		if len(fields) == 3 {
			r.by = fields[2]
		}
		results[fields[0]] = r
	}
	return results, nil
}

// writeResults writes those of mutants that still exist.
func writeResults(path string, p plan, results map[string]result) error {
	var lines []string
	for _, m := range p.mutants {
		if r, is := results[m.hash]; is {
			lines = append(lines, strings.TrimSpace(m.hash+" "+r.verdict+" "+r.by)+"\n")
		}
	}
	slices.Sort(lines)
	next := path + ".next"
	if err := os.WriteFile(next, []byte(strings.Join(lines, "")), 0o644); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// survivor is a line of survivors.txt: mutants that may survive.
type survivor struct{ pattern, reason string }

// readSurvivors reads the file: lines that begin with # are the reason for the lines after them, up to an empty one. A
// star stands for any text.
func readSurvivors(path string) ([]survivor, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []survivor
	var reason []string
	patterns := false
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		text, isReason := strings.CutPrefix(line, "#")
		switch {
		case line == "" || isReason && patterns:
			reason, patterns = nil, false
		}
		switch {
		case isReason:
			reason = append(reason, strings.TrimSpace(text))
		case line != "":
			if len(reason) == 0 {
				return nil, fmt.Errorf("%s: %q has no reason; write it on a line with # before it", path, line)
			}
			patterns = true
			all = append(all, survivor{line, strings.Join(reason, " ")})
		}
	}
	return all, nil
}

// fits tells whether a mutant is one of those.
func (s survivor) fits(m mutant) bool {
	parts := strings.Split(s.pattern, "*")
	text, found := strings.CutPrefix(m.id(), parts[0])
	if !found || len(parts) == 1 {
		return found && text == ""
	}
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}

// reasonFor is why a mutant may survive, or nothing.
func reasonFor(all []survivor, m mutant) string {
	for _, s := range all {
		if s.fits(m) {
			return s.reason
		}
	}
	return ""
}

// stale are the lines that fit no mutant, or only such as a test catches.
func stale(all []survivor, p plan, results map[string]result) error {
	var problems []error
	for _, s := range all {
		fitting, needed := 0, false
		for _, m := range p.mutants {
			if s.fits(m) {
				fitting++
				r, tried := results[m.hash]
				needed = needed || !tried || r.verdict == survived
			}
		}
		switch {
		case fitting == 0:
			problems = append(problems, fmt.Errorf("survivors.txt: no place is like %q any more: remove the line", s.pattern))
		case !needed:
			problems = append(problems, fmt.Errorf("survivors.txt: a test catches %q: remove the line", s.pattern))
		}
	}
	return errors.Join(problems...)
}

// kind is what is taken away.
type kind string

// Kinds.
const (
	earlyReturn kind = "early return" // an if that leaves: its body is never run
	never       kind = "condition never"
	always      kind = "condition always"
	errorCheck  kind = "error check" // `if err != nil`: the error is ignored
	conjunct    kind = "conjunct"    // an operand of && or AND is true
	disjunct    kind = "disjunct"    // an operand of || or OR is false
	caseGone    kind = "case"
	comparison  kind = "comparison" // a value is negated
	boundary    kind = "boundary"   // < becomes <=
	schema      kind = "schema"     // a trigger, a unique index or a reference is left out
)

// mutant is one change of the product.
type mutant struct {
	number int    // in this build, from 1
	where  string // the package's directory, or the file with the statement
	in     string // the function, statement, table or database function
	kind   kind
	text   string // what is taken away, on one line
	nth    int    // among those of one place that look the same, from 1
	key    string // a short name: the hash of the id
	hash   string // of the id, and of the whole function or statement
	line   string // file and line, for people
}

// id names a mutant for people, and in survivors.txt. It survives changes of other places.
func (m mutant) id() string {
	id := fmt.Sprintf("%s %s: %s: %s", m.where, m.in, m.kind, m.text)
	if m.nth > 1 {
		id += fmt.Sprintf(" (%d)", m.nth)
	}
	return id
}

func ofSchema(m mutant) bool { return strings.HasPrefix(m.where, "db/migrations/") }

// catalogue collects the mutants of a build.
type catalogue struct {
	all  []mutant
	seen map[string]int
}

// add registers a mutant and returns its number. whole is the source of the function or statement.
func (c *catalogue) add(m mutant, whole string) int {
	m.text = oneLine(m.text)
	m.number = len(c.all) + 1
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	m.nth = 1
	c.seen[m.id()]++
	m.nth = c.seen[m.id()]
	m.key, m.hash = shortHash(m.id()), shortHash(m.id()+"\x00"+oneLine(whole))
	c.all = append(c.all, m)
	return m.number
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// oneLine is a text without its line breaks and indentation.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// edit replaces a part of a text. What is put around nodes are insertions: start and end are equal.
type edit struct {
	start, end int
	text       string
	closing    bool // it ends a node
}
