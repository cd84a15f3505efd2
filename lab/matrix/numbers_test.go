package main

import (
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// windowsIn lists the numbers that Go files below a directory bear, with how often each is there.
func windowsIn(t *testing.T, dir string, mark *regexp.Regexp, wanted func(path string) bool) map[int]int {
	t.Helper()
	found := map[int]int{}
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || !wanted(path) {
			return err
		}
		source, err := fs.ReadFile(root, path)
		for _, number := range mark.FindAllSubmatch(source, -1) {
			n, convErr := strconv.Atoi(string(number[1]))
			if convErr != nil {
				return convErr
			}
			found[n]++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestWindowsOfTheMatrixAreThoseThatTheCodeIsMarkedWith(t *testing.T) {
	t.Parallel()
	inCode := windowsIn(t, "../../internal", regexp.MustCompile(`// Crash window (\d+): `),
		func(path string) bool { return !strings.HasSuffix(path, "_test.go") })
	inMatrix := map[int]int{}
	for _, f := range flows() {
		for _, r := range f.rows {
			inMatrix[r.window] = 1
		}
	}
	for n, times := range inCode {
		if times != 1 {
			t.Errorf("crash window %d is marked %d times", n, times)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(inMatrix)), slices.Sorted(maps.Keys(inCode))); diff != "" {
		t.Errorf("the matrix and the code have other windows (-matrix +code):\n%s", diff)
	}
	for i, n := range slices.Sorted(maps.Keys(inCode)) {
		if n != i+1 {
			t.Fatalf("the windows do not count from 1: %d is in place %d", n, i+1)
		}
	}
}

// The page names, for each window, the flows that are held there, in their order. Scenes have a course of their own:
// the page names those that its text tells about.
func TestPageNamesTheRowsOfEachWindow(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/crash_windows.md")
	if err != nil {
		t.Fatal(err)
	}
	inMatrix, onPage := map[string][]string{}, map[string][]string{}
	for _, f := range flows() {
		for _, r := range f.rows {
			n := strconv.Itoa(r.window)
			if name := f.name + "/" + n; r.script == nil && !slices.Contains(inMatrix[n], name) {
				inMatrix[n] = append(inMatrix[n], name)
			}
		}
	}
	names := regexp.MustCompile("`([a-z-]+/\\d+)`")
	row := regexp.MustCompile("(?m)^\\| (\\d+) \\|(?: [^|]+ \\|){3} (`[^|]+) \\|$")
	for _, r := range row.FindAllSubmatch(page, -1) {
		for _, name := range names.FindAllSubmatch(r[2], -1) {
			onPage[string(r[1])] = append(onPage[string(r[1])], string(name[1]))
		}
	}
	if diff := cmp.Diff(inMatrix, onPage); diff != "" {
		t.Errorf("docs/crash_windows.md names other rows than the matrix has (-matrix +page):\n%s", diff)
	}
}

func TestFirstFourWindowsHaveTestsInTheProcess(t *testing.T) {
	t.Parallel()
	tests := windowsIn(t, "../../test/e2e", regexp.MustCompile(`func TestCrashWindow(\d+)`),
		func(path string) bool { return path == "crash_test.go" })
	if diff := cmp.Diff(map[int]int{1: 1, 2: 1, 3: 1, 4: 1}, tests); diff != "" {
		t.Error(diff)
	}
}
