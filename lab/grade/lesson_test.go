package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"payonce/lab/world"
)

// `make check` fails in words while a copy is wrong, and passes when it is right. FROM is a step of the course here, or
// a folder with a space in its name, so that a reader's own copy is left alone.
func TestMakeCheckSaysWhatIsLeft(t *testing.T) {
	skipShort(t)
	t.Parallel()
	root, err := world.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	course := filepath.Join(t.TempDir(), "my course")
	if err := os.CopyFS(course, os.DirFS(filepath.Join(root, "course"))); err != nil {
		t.Fatal(err)
	}
	wrong, right := filepath.Join(course, "steps", "01"), "course/steps/02"
	for from, said := range map[string][]string{
		wrong: {"wrong  once", "right  bytes", "The first that is wrong: once, when ", ": charged ", "drawn in "},
		right: {"right  once", "Lesson 2 is done.\n"}, // without a diff of the folder with itself
	} {
		check := exec.CommandContext(t.Context(), "make", "-s", "check", "LESSON=2", "FROM="+from)
		check.Dir, check.Env = root, append(os.Environ(), "OUT="+t.TempDir())
		out, err := check.CombinedOutput()
		if (err == nil) != (from == right) {
			t.Errorf("%s: %v", from, err)
		}
		for _, text := range said {
			if !strings.Contains(string(out), text) {
				t.Errorf("%s: it does not say %q:\n%s", from, text, out)
			}
		}
	}
}

// The first check of a lesson makes the copy, and no later one touches it. What does not build is shown as the compiler
// says it.
func TestFirstCheckCopiesTheStep(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("course/go.mod", "module course\n\ngo 1.26\n")
	write("course/steps/01/main.go", "package main\n\nfunc main() {}\n")
	build := func() (string, error) {
		t.Helper()
		e, err := exerciseOf("2", "", t.Output())
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		_, err = e.build(t.Context(), os.Getenv, &said)
		return said.String(), err
	}
	// A copying that fails leaves nothing behind that would be taken for the whole copy later.
	pipe := filepath.Join("course", "steps", "01", "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil { // it comes after main.go, and cannot be copied
		t.Fatal(err)
	}
	if _, err := build(); err == nil {
		t.Error("what cannot be copied is copied")
	}
	if left, err := os.ReadDir("course/mine"); len(left) > 0 {
		t.Errorf("half a copy stays: %v, %v", left, err)
	}
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	if said, err := build(); err != nil || !strings.Contains(said, "course/mine/02 is your copy of step 01 now") {
		t.Errorf("the first time it says %q, %v", said, err)
	}
	write("course/mine/02/main.go", "package main\n\nfunc main() { return 1 }\n")
	if said, err := build(); err == nil || !strings.Contains(said, "too many return values") {
		t.Errorf("of a copy that does not build it says %q, %v", said, err)
	}
	if _, err := os.Stat("course/mine/02/main.go"); err != nil {
		t.Error(err)
	}
}

// Each lesson that has a step says so, with the same step, and no other one does.
func TestLessonsNameTheirChecks(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../course/lessons/*.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := map[int]int{}
	for _, e := range exercises() {
		steps[e.lesson] = e.step
	}
	for number, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		step, has := steps[number]
		check := fmt.Sprintf("`make check LESSON=%d` copies step %02d of ", number, step)
		named := strings.Contains(string(text), check)
		if named != has || has != strings.Contains(string(text), "## Check yourself") {
			t.Errorf("%s: it has a step: %t, and names its check: %t", page, has, named)
		}
	}
}

func TestLessonWithoutAStepSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for lesson, fails := range map[string]bool{"list": false, "8": true, "x": true} {
		var said strings.Builder
		e, err := exerciseOf(lesson, "", &said)
		if e != nil || (err != nil) != fails || !strings.Contains(said.String(), "make check LESSON=11") ||
			!strings.Contains(said.String(), `"Break it"`) {
			t.Errorf("%s: %v, %v\n%s", lesson, e, err, said.String())
		}
	}
}
