package main

import (
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
