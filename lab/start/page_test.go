package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"payonce/lab/world"
	"payonce/test/archtest"
)

// table is one of the tables of docs/start.md, between its comment and the next one.
func table(t *testing.T, root, comment string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "start.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "<!-- "+comment+" -->")
	rows, _, ended := strings.Cut(rest, "<!-- end -->")
	if !found || !ended {
		t.Fatalf("docs/start.md has no table between %q and its end", comment)
	}
	return rows
}

// A person who has a copy looks for the files in it.
func TestFilesOfThePageAreInTheCore(t *testing.T) {
	t.Parallel()
	root, err := world.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").
		FindAllStringSubmatch(table(t, root, "the files of a field"), -1)
	if len(rows) < 10 {
		t.Errorf("the page has %d files", len(rows))
	}
	for _, row := range rows {
		_, err := os.Stat(filepath.Join(root, row[1]))
		if (wish{}).kindOf(row[1], row[1]) == "" || err != nil {
			t.Errorf("%s is not in the core: %v", row[1], err)
		}
	}
}

func TestTestsOfThePageAreInTheCore(t *testing.T) {
	t.Parallel()
	root, err := world.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| .* \\| `([^`]+)` `(Test\\w+)` \\|$").
		FindAllStringSubmatch(table(t, root, "the tests of the rules"), -1)
	if len(rows) < 10 {
		t.Errorf("the page has %d tests", len(rows))
	}
	for _, row := range rows {
		files, err := filepath.Glob(filepath.Join(root, row[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		held := false
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := filepath.Rel(root, file)
			held = held || archtest.RingOf(filepath.ToSlash(name)) == 0 &&
				strings.Contains(string(content), "func "+row[2]+"(")
		}
		if !held {
			t.Errorf("no test of the core in %s is called %s", row[1], row[2])
		}
	}
}
