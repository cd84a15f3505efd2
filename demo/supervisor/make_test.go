package supervisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// script writes a program into a directory of its own, and gives its path.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "go")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// An old Go says that it cannot read go.mod, in one of several ways, which tell a newcomer little.
func TestMakeSaysInOneLineWhichGoItNeeds(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("needs make")
	}
	old := script(t,
		`case $1 in version) echo "go version go1.9.7 linux/amd64" ;; *) echo "go: errors parsing go.mod" >&2; exit 1 ;; esac`)
	broken := script(t, `echo "no such thing" >&2; exit 1`)
	other := script(t,
		`case $1 in version) echo "go version go1.26.1 linux/amd64" ;; *) echo "go: cannot find main module" >&2; exit 1 ;; esac`)
	for _, c := range []struct{ target, command, want string }{
		{"demo", "/nowhere/go",
			`^Payonce needs Go 1\.26 or newer, and there is no command "/nowhere/go": https://go\.dev/dl, then make again\n`},
		{"test", "/nowhere/go", `^Payonce needs Go 1\.26 or newer, and there is no command`},
		{"demo", old, `^Payonce needs Go 1\.26 or newer, and "` + old + `" is Go 1\.9\.7: `},
		{"test", old, `^Payonce needs Go 1\.26 or newer, and "` + old + `" is Go 1\.9\.7: `},
		{"demo", broken, `^Payonce needs Go 1\.26 or newer, and "` + broken + `" does not work as one: `},
		{"demo", other, `^go: cannot find main module\n`}, // it is new enough, and something else is wrong
	} {
		cmd := exec.CommandContext(t.Context(), "make", "-C", "../..", "--no-print-directory", c.target, "GO="+
			c.command)
		// the tests may have been started by make
		cmd.Env = append(os.Environ(), "MAKELEVEL=0", "MAKEFLAGS=", "MFLAGS=")
		out, err := cmd.CombinedOutput()
		if err == nil || !regexp.MustCompile(c.want+`make: \*\*\* .*\n$|`+c.want+`.*\nmake: \*\*\* .*\n$`).Match(out) {
			t.Errorf("make %s GO=%s: %v\n%s", c.target, c.command, err, out)
		}
	}
}

func TestBuildThatTakesLongSaysHowFarItIs(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "go on")
	if out, err := exec.CommandContext(t.Context(), "mkfifo", fifo).CombinedOutput(); err != nil {
		t.Skipf("needs mkfifo: %v %s", err, out)
	}
	compiler := script(t, `case $1 in env) ;; list) printf -- '-\n-\n-\n' ;; *) echo one/of/them >&2; read -r _ <"`+fifo+`"
		echo two/of/them >&2; echo "go: downloading x v1" >&2; echo "x.go:1: it is wrong" >&2; exit 3 ;; esac`)
	// The build ends when it has been seen that its packages are counted.
	slow := exec.CommandContext(t.Context(), "sh", "-c", `{ tools/build "$0" build ./x 2>&1; echo "ended with $?"; } |
		while read -r line; do echo "$line"; case $line in *"1 of 4 packages"*) echo >"$1" ;; esac; done`, compiler, fifo)
	slow.Dir, slow.Env = "../..", append(os.Environ(), "BUILD_FIRST_WORD=1", "BUILD_NEXT_WORD=1")
	out, err := slow.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "building; the first time takes a minute or two …\nbuilding, ") ||
		!strings.Contains(string(out), " 1 of 4 packages, for ") ||
		!strings.HasSuffix(string(out), "…\nx.go:1: it is wrong\nended with 3\n") {
		t.Errorf("a slow build: %v\n%s", err, out)
	}
	quick := exec.CommandContext(t.Context(), "tools/build", "sh", "-c", "echo built; exit 3")
	quick.Dir = "../.."
	if out, err := quick.CombinedOutput(); quick.ProcessState.ExitCode() != 3 || string(out) != "built\n" {
		t.Errorf("a quick build: %v\n%s", err, out)
	}
}

// A folder that may not be written is found before minutes of building, and not after them.
func TestBuildIsNotBegunWhereNothingMayBeWritten(t *testing.T) {
	t.Parallel()
	build, err := filepath.Abs("../../tools/build")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir() // Root may write into any folder, but not into one that is not there.
	if err := os.Symlink(filepath.Join(folder, "nowhere", "bin"), filepath.Join(folder, "bin")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), build, "sh", "-c", "echo built")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err == nil || !regexp.MustCompile(
		`^the folder .* may not be written: .*clone Payonce into a folder of yours\n$`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestGradeWithoutATargetSaysSo(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("needs make")
	}
	cmd := exec.CommandContext(t.Context(), "make", "-C", "../..", "--no-print-directory", "grade", "PROFILE=plain")
	cmd.Env = append(os.Environ(), "MAKELEVEL=0", "MAKEFLAGS=", "MFLAGS=", "TARGET=")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out),
		"PROFILE=plain is for a server of yours: make grade TARGET=./my-server PROFILE=plain (docs/grade.md)\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
