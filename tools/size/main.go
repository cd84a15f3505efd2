// Command size counts what a person who picks this tree up has to carry: hand-written lines of Go by part of the tree,
// tests, files, words of prose, settings and statements. It enforces nothing. It only goes down, or the change says
// what it has bought:
//
//	make size
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// parts of the tree, by the beginnings of their paths.
var parts = []struct {
	name string
	dirs []string
}{
	{"product: internal, cmd/api, cmd/reconciler", []string{"internal/", "cmd/api/", "cmd/reconciler/"}},
	{"demo, cmd/demo, cmd/mockpsp", []string{"demo/", "cmd/demo/", "cmd/mockpsp/"}},
	{"lab", []string{"lab/"}},
	{"client, course, deploy, db, test, tools", []string{""}},
}

func main() {
	if err := run(".."); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

var (
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	setting   = regexp.MustCompile("`env:\"[A-Z]")
	statement = regexp.MustCompile(`(?m)^-- name: `)
)

func run(root string) error {
	listed, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		return fmt.Errorf("list the tracked files: %w", err)
	}
	lines := make([]int, len(parts))
	var tests, files, words, settings, statements int
	for name := range strings.SplitSeq(strings.Trim(string(listed), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // deleted, and not committed yet
		}
		if !strings.Contains(name, "testdata/fuzz/") {
			files++
		}
		switch n := bytes.Count(content, []byte("\n")); {
		case path.Ext(name) == ".md":
			words += len(strings.Fields(string(content)))
		case strings.HasPrefix(name, "db/queries/"):
			statements += len(statement.FindAll(content, -1))
		case path.Ext(name) != ".go" || generated.Match(content):
		case strings.HasSuffix(name, "_test.go"):
			tests += n
		default:
			at := partOf(name)
			lines[at] += n
			if at == 0 {
				settings += len(setting.FindAll(content, -1))
			}
		}
	}
	for i, p := range parts {
		fmt.Printf("%8d  lines of Go  %s\n", lines[i], p.name)
	}
	fmt.Printf("%8d  lines of Go  tests\n", tests)
	fmt.Printf("%8d  files, without testdata/fuzz\n", files)
	fmt.Printf("%8d  words of Markdown\n", words)
	fmt.Printf("%8d  settings of the product\n", settings)
	fmt.Printf("%8d  statements of db/queries\n", statements)
	return nil
}

func partOf(name string) int {
	for i, p := range parts {
		for _, dir := range p.dirs {
			if strings.HasPrefix(name, dir) {
				return i
			}
		}
	}
	return len(parts) - 1
}
