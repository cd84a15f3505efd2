// Package steps_test builds the seven programs and limits their sizes. A long step is read by nobody, and a diff that
// does not fit a few screens explains nothing. What the programs do is the business of the grader.
package steps_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the numbers in README.md")

const (
	// maxCode is for the last step, in lines of Go and SQL that are neither blank nor comments.
	maxCode = 600
	// maxChanged is how many lines a step may remove and add.
	maxChanged = 190
)

// steps are the directories, in their order.
func steps(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("0?")
	if err != nil || len(dirs) != 7 {
		t.Fatalf("found %v (%v), want seven steps", dirs, err)
	}
	return dirs
}

func TestEveryStepBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it builds every step")
	}
	t.Parallel()
	if out, err := exec.Command("go", "build", "./...").CombinedOutput(); err != nil {
		t.Errorf("build the steps: %v\n%s", err, out)
	}
}

func TestSizesAreSmallAndThoseOfTheTable(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	right := readme
	before := ""
	for _, dir := range steps(t) {
		lines, code := sizes(t, dir)
		change := changed(t, before, dir)
		if change > maxChanged {
			t.Errorf("step %s changes %d lines, of %d at most", dir, change, maxChanged)
		}
		if dir == "07" && code > maxCode {
			t.Errorf("step %s has %d lines of code, of %d at most", dir, code, maxCode)
		}
		row := regexp.MustCompile(`(?m)^(\| \[` + dir + `\].*?)\| \d+ \| \d+ \| \d+ \|$`)
		if !row.Match(right) {
			t.Fatalf("README.md has no row with the numbers of step %s", dir)
		}
		right = row.ReplaceAll(right, fmt.Appendf(nil, "${1}| %d | %d | %d |", lines, code, change))
		before = dir
	}
	switch {
	case bytes.Equal(right, readme):
	case *update:
		if err := os.WriteFile("README.md", right, 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("the numbers in README.md are out of date; to do: go test ./steps -update")
	}
}

// sizes counts the lines of all files of a step.
func sizes(t *testing.T, dir string) (lines, code int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			lines++
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "//") && !strings.HasPrefix(line, "--") {
				code++
			}
		}
	}
	return lines, code
}

// changed counts the lines that diff removes and adds between two steps. Nothing changes before the first one.
func changed(t *testing.T, before, dir string) int {
	t.Helper()
	if before == "" {
		return 0
	}
	out, err := exec.Command("git", "diff", "--no-index", "--numstat", before, dir).Output()
	if exit := new(exec.ExitError); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Skipf("git cannot compare directories here: %v", err)
	}
	total := 0
	for line := range strings.Lines(string(out)) {
		for _, number := range strings.Fields(line)[:2] {
			n, err := strconv.Atoi(number)
			if err != nil {
				t.Fatalf("git diff printed %q", line)
			}
			total += n
		}
	}
	return total
}
