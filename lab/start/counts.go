package main

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
)

// The kinds of files that are copied.
const (
	core       = "core"
	operations = "operations"
	support    = "support"
	other      = "other" // no Go
)

// counts are lines of Go that somebody has written, by kind, and those of generated code and of tests.
type counts struct {
	written          map[string]int
	generated, tests int
	files            int
}

var generatedMark = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func (c *counts) add(kind, name string, content []byte) {
	c.files++
	if path.Ext(name) != ".go" {
		return
	}
	lines := bytes.Count(content, []byte("\n"))
	switch {
	case generatedMark.Match(content):
		c.generated += lines
	case strings.HasSuffix(name, "_test.go"):
		c.tests += lines
	default:
		if c.written == nil {
			c.written = map[string]int{}
		}
		c.written[kind] += lines
	}
}

// all are the lines that somebody has written, without tests.
func (c *counts) all() (sum int) {
	for _, n := range c.written {
		sum += n
	}
	return sum
}

func (c *counts) write(stdout io.Writer, w wish) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s now\n", w.dir, w.module)
	for _, line := range []struct {
		lines int
		what  string
	}{
		{c.written[core], "the core"},
		{c.written[operations], "operations: the console, events, statements, Stripe"},
		{c.written[support], "support of the tests: a mock PSP, the finder of PostgreSQL, cmd/local"},
		{c.generated, "generated from db/queries"},
		{c.tests, "tests"},
	} {
		if line.lines > 0 {
			fmt.Fprintf(&b, "%8d  lines of Go  %s\n", line.lines, line.what)
		}
	}
	fmt.Fprintf(&b, `%8d  files
next:
  cd %s
  git init -b main && git add . && git commit -m 'Begin with a copy of Payonce' && git branch payonce
  make test     # its tests, each on a database of its own
  make grade    # it charges once, whatever fails
  make run      # look around
docs/start.md says what to change first, and what never to change.
`, c.files, quoted(w.dir))
	_, err := io.WriteString(stdout, b.String())
	return err
}

// quoted is a path as a shell takes it for one word.
func quoted(path string) string {
	if regexp.MustCompile(`^[\w@%+=:,./-]+$`).MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
