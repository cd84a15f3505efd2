package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"payonce/lab/grade/judge"
)

// The program alone grades a server in a folder where nothing of ours is, without Go. The starters are servers that the
// grader understands, and that charge too often.
func TestProgramAloneGradesTheStarters(t *testing.T) {
	skipShort(t)
	t.Parallel()
	program := filepath.Join(t.TempDir(), "grade")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the grader: %v\n%s", err, out)
	}
	path := withoutGo()
	for interpreter, file := range map[string]string{"python3": "python/server.py", "node": "node/server.mjs"} {
		t.Run(interpreter, func(t *testing.T) {
			t.Parallel()
			if !slices.ContainsFunc(path, func(dir string) bool { return isThere(dir, interpreter) }) {
				t.Skip(interpreter + " is not installed, or only where Go is")
			}
			dir := t.TempDir()
			raw, err := os.ReadFile(filepath.Join("../../course/starters", file))
			if err != nil {
				t.Fatal(err)
			}
			server := filepath.Base(file)
			if err := os.WriteFile(filepath.Join(dir, server), raw, 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), program, "--json", "--profile", "plain", "--level", "1,2",
				"./"+server)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+strings.Join(path, string(os.PathListSeparator)))
			var said strings.Builder
			cmd.Stderr = &said
			out, err := cmd.Output()
			if cmd.ProcessState.ExitCode() != exitBelow {
				t.Fatalf("%v\n%s", err, said.String())
			}
			var r report
			if err := json.Unmarshal(out, &r); err != nil || r.First == nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if r.First.Invariant != judge.Once || r.First.Why != "charged 2 times" || r.Marks == 0 {
				t.Errorf("%d of %d marks, first: %+v", r.Marks, r.Of, r.First)
			}
			page, err := os.ReadFile(filepath.Join(dir, r.First.HTML))
			if err != nil || !strings.Contains(string(page), "lessons/00-three-charges.md</code> of the project") {
				t.Errorf("the page: %v\n%s", err, page)
			}
		})
	}
}

// withoutGo are the folders of PATH that have no Go.
func withoutGo() []string {
	return slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(dir string) bool { return isThere(dir, "go") })
}

func isThere(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}
