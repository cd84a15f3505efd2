package archtest

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

// maxColumns is how wide a line of Go, SQL or prose may be, with a tab as four. Two files fit beside each other then.
const maxColumns = 120

// columnBreaches leaves alone what cannot be broken, or would be harder to read: generated code, tables, links, lines
// of River's own migrations, and a line whose one long token is what makes it long.
func columnBreaches(root fs.FS, names []string) ([]breach, error) {
	var breaches []breach
	for _, name := range names {
		if !wrapped(name) {
			continue
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, fmt.Errorf("measure lines: %w", err)
		}
		if bytes.Contains(content, []byte("DO NOT EDIT.\n")) {
			continue
		}
		long := unbreakable(name, content)
		fenced, number := false, 0
		for line := range strings.Lines(string(content)) {
			number++
			fenced = fenced != strings.HasPrefix(strings.TrimSpace(line), "```")
			n := columns(strings.TrimSuffix(line, "\n"))
			if n <= maxColumns || long[number] || path.Ext(name) == ".md" && (fenced || isTable(line)) || isLink(line) {
				continue
			}
			breaches = append(breaches, breach{fmt.Sprintf("%s:%d", name, number),
				fmt.Sprintf("has %d columns, of %d at most", n, maxColumns)})
		}
	}
	return breaches, nil
}

func wrapped(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md":
		return !strings.Contains(name, "/testdata/")
	case ".sql":
		return !strings.Contains(name, "_river_")
	}
	return false
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}

func isTable(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "|") }

// isLink: hardly more than an address.
func isLink(line string) bool {
	i := strings.Index(line, "://")
	return i >= 0 && len(strings.Fields(line[i:])[0]) > maxColumns/2
}

// unbreakable are the lines of a Go file with a raw string of several lines on them, or with a literal that does not
// fit beside its indentation: a row of a table of tests, mostly.
func unbreakable(name string, content []byte) map[int]bool {
	lines := map[int]bool{}
	if path.Ext(name) != ".go" {
		return lines
	}
	files := token.NewFileSet()
	file := files.AddFile(name, files.Base(), len(content))
	var s scanner.Scanner
	s.Init(file, content, nil, 0)
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return lines
		}
		first := file.Line(pos)
		for i := range strings.Count(literal, "\n") + 1 {
			if tok == token.STRING && (strings.Contains(literal, "\n") || len(literal) > maxColumns/2) {
				lines[first+i] = true
			}
		}
	}
}
