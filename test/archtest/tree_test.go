package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestTreeKeepsItsRules(t *testing.T) {
	t.Parallel()
	sources, err := parseTree(os.DirFS(moduleRoot(t)))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(sources, func(s source) bool { return s.path == "test/archtest/tree.go" }) {
		t.Fatal("the walk has not even found this package")
	}

	for _, rule := range []struct {
		name  string
		check func([]source) []breach
	}{
		{"imports", importBreaches},
		{"rings", ringBreaches},
		{"core length", coreLengthBreaches},
		{"table owners", tableOwnerBreaches},
		{"places", placeBreaches},
		{"file length", fileLengthBreaches},
		{"function length", functionLengthBreaches},
		{"package size", packageSizeBreaches},
		{"prose", proseBreaches},
		{"sleep", sleepBreaches},
	} {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			report(t, rule.check(sources))
		})
	}
}

func TestTrackedFilesCarryNoTraces(t *testing.T) {
	t.Parallel()
	root, names := tracked(t)
	if !slices.Contains(names, "test/archtest/traces.go") {
		t.Fatal("the list has not even this package")
	}
	breaches, err := traceBreaches(root, names)
	if err != nil {
		t.Fatal(err)
	}
	report(t, breaches)
}

// tracked is the tree, and its files.
func tracked(t *testing.T) (root fs.FS, names []string) {
	t.Helper()
	dir := moduleRoot(t)
	root = os.DirFS(dir)
	names, err := trackedFiles(t.Context(), dir, root)
	if err != nil {
		t.Fatal(err)
	}
	return root, names
}

func report(t *testing.T, breaches []breach) {
	t.Helper()
	for _, breach := range breaches {
		t.Error(breach)
	}
}

// moduleRoot climbs from the package's directory, where go test runs.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), "module "+modulePath+"\n") {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.mod of ours above the working directory")
	return ""
}

// parse makes a synthetic tree. A file is named by its path and holds the
// text given, behind a package clause unless it brings its own.
func parse(t *testing.T, files map[string]string) []source {
	t.Helper()
	root := fstest.MapFS{}
	for name, text := range files {
		if !strings.Contains(text, "package ") {
			text = "package p\n" + text
		}
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	sources, err := parseTree(root)
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

func wantBreach(t *testing.T, breaches []breach, where string) {
	t.Helper()
	if len(breaches) != 1 || breaches[0].where != where {
		t.Errorf("breaches are %v, want one at %s", breaches, where)
	}
}

func wantNone(t *testing.T, breaches []breach) {
	t.Helper()
	if len(breaches) != 0 {
		t.Errorf("breaches are %v, want none", breaches)
	}
}

func TestLinesAreOfBoundedWidth(t *testing.T) {
	t.Parallel()
	root, names := tracked(t)
	breaches, err := columnBreaches(root, names)
	if err != nil {
		t.Fatal(err)
	}
	report(t, breaches)
}

func TestNoPageHasACurlThatRetriesIntoNothing(t *testing.T) {
	t.Parallel()
	root, names := tracked(t)
	breaches, err := retryBreaches(root, names)
	if err != nil {
		t.Fatal(err)
	}
	report(t, breaches)
}

func TestGivenUpWordsAreNotSpoken(t *testing.T) {
	t.Parallel()
	dir := moduleRoot(t)
	root := os.DirFS(dir)
	sources, err := parseTree(root)
	if err != nil {
		t.Fatal(err)
	}
	names, err := trackedFiles(t.Context(), dir, root)
	if err != nil {
		t.Fatal(err)
	}
	phrases, err := phraseBreaches(root, names)
	if err != nil {
		t.Fatal(err)
	}
	report(t, append(wordBreaches(sources), phrases...))
}
