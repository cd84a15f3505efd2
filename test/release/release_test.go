// Package release has the test of tools/release: the same commit gives the same bytes in any folder, and each program
// tells that commit. So anybody can see that a release has nothing but this code. It knows nothing of what the programs
// do.
package release

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// root is the folder of the repository, as seen from here.
const root = "../.."

func TestSameBytesFromAnotherFolder(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it links two programs, and compiles what is in them without paths")
	}
	t.Parallel()
	programs := []string{"mockpsp"}
	if os.Getenv("RELEASE") == "all" { // as make proof-all has it: the others compile for a minute
		programs = []string{"api", "reconciler", "mockpsp", "grade"}
	}
	revision := git(t, root, "rev-parse", "HEAD")
	other := filepath.Join(t.TempDir(), "another", "clone")
	git(t, root, "clone", "--quiet", "--shared", ".", other)
	git(t, other, "checkout", "--quiet", "--detach", revision)
	here, there := build(t, root, programs), build(t, other, programs)
	sums := read(t, filepath.Join(here, "SHA256SUMS"))
	if others := read(t, filepath.Join(there, "SHA256SUMS")); sums != others {
		t.Errorf("from this folder:\n%s\nfrom another one:\n%s", sums, others)
	}
	for _, program := range programs {
		name := program + "-" + runtime.GOOS + "-" + runtime.GOARCH
		if !strings.Contains(sums, "  "+name+"\n") {
			t.Errorf("SHA256SUMS does not name %s:\n%s", name, sums)
		}
		said, err := exec.CommandContext(t.Context(), filepath.Join(here, name), "--version").CombinedOutput()
		line := string(said)
		wanted := strings.HasPrefix(line, program+" v") && strings.Contains(line, ", revision "+revision[:12]+",")
		if err != nil || !wanted {
			t.Errorf("%s --version: %v, %q, want a version and revision %s, without changes", name, err, line, revision)
		}
	}
}

// A release has its own programs alone, also in the folder of the one before, and may be made twice of one tag. The
// compiler is a script that only makes the file.
func TestReleaseHasOnlyItself(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	clone, out, compiler := filepath.Join(folder, "clone"), filepath.Join(folder, "out"), filepath.Join(folder, "go")
	git(t, root, "clone", "--quiet", "--shared", ".", clone)
	git(t, clone, "tag", "v999.0.0")
	git(t, clone, "tag", "lab/v999.0.0")
	write(t, filepath.Join(clone, "tools/release"), read(t, filepath.Join(root, "tools/release")))
	write(t, compiler, "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\necho made >\"$2\"\n")
	write(t, filepath.Join(out, "api-plan9-mips"), "of the release before")
	run(t, clone, []string{"SYSTEMS=linux/amd64", "PROGRAMS=api"}, "tools/release", compiler, out)
	if sums := read(t, filepath.Join(out, "SHA256SUMS")); !strings.HasSuffix(sums, "  api-linux-amd64\n") ||
		strings.Count(sums, "\n") != 1 {
		t.Errorf("the release has\n%s\nwant api-linux-amd64 alone", sums)
	}
	if _, err := os.Stat(filepath.Join(out, "api-plan9-mips")); err == nil {
		t.Error("a program of the release before is still there")
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o700))
	if err != nil {
		t.Fatal(err)
	}
}

// build makes the release for this system alone, and returns where it is.
func build(t *testing.T, from string, programs []string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "dist")
	env := []string{"SYSTEMS=" + runtime.GOOS + "/" + runtime.GOARCH, "PROGRAMS=" + strings.Join(programs, " ")}
	run(t, from, env, "tools/release", "go", out)
	return out
}

func git(t *testing.T, in string, args ...string) string {
	t.Helper()
	look := exec.CommandContext(t.Context(), "git", "-C", root, "rev-parse", "--verify", "--quiet", "HEAD")
	if err := look.Run(); err != nil {
		t.Skip("this folder has no commit that git can read: ", err)
	}
	return run(t, in, nil, "git", args...)
}

func run(t *testing.T, in string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = in, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
