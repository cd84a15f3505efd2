package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// modules are one with tests that end in each way, and another below it.
var modules = map[string]string{
	"go.mod":             "module payonce\n\ngo 1.26\n",
	"lab/go.mod":         "module payonce/lab\n\ngo 1.26\n",
	"lab/also/a_test.go": "package also\nimport \"testing\"\nfunc TestF(*testing.T) {}\n",
	"well/a_test.go":     "package well\nimport \"testing\"\nfunc TestA(t *testing.T) { t.Log(\"chatter\"); t.Run(\"sub\", func(*testing.T) {}) }\nfunc TestB(t *testing.T) { t.Skip() }\n",
	"untested/a.go":      "package untested\n",
	"failing/a_test.go":  "package failing\nimport \"testing\"\nfunc TestC(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Error(\"the reason\") }) }\nfunc TestD(*testing.T) {}\n",
	"unbuilt/a_test.go":  "package unbuilt\nvar x int = missing\n",
	"panicked/a_test.go": "package panicked\nimport \"testing\"\nfunc TestE(*testing.T) { panic(\"out of order\") }\n",
}

func runOn(t *testing.T, dirs []string, packages ...string) (code int, lines []string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range modules {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	var out strings.Builder
	code, err := run(t.Context(), "go", dirs, packages, &out, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return code, strings.Split(strings.TrimSuffix(regexp.MustCompile(`\d+(\.\d+)? s\b`).ReplaceAllString(out.String(),
		"N s"), "\n"), "\n")
}

//nolint:paralleltest // it changes the directory
func TestWhatIsWellIsALineForEachPackage(t *testing.T) {
	code, lines := runOn(t, []string{"."}, "./well")
	want := []string{"1/1 packages, N s: ok well (N s)", "1 passed, 0 failed, 1 skipped in 1 of 1 packages, N s"}
	if code != 0 || !slices.Equal(lines, want) {
		t.Errorf("exit %d, and\n%s", code, strings.Join(lines, "\n"))
	}
}

//nolint:paralleltest // it changes the directory
func TestEachPackageThatIsNamedIsRun(t *testing.T) {
	_, lines := runOn(t, []string{"."}, "-short", "./well", "./failing", "./untested")
	if last := lines[len(lines)-1]; last != "2 passed, 1 failed, 1 skipped in 2 of 2 packages, N s" {
		t.Errorf("the last line is %q", last)
	}
}

//nolint:paralleltest // it changes the directory
func TestFailuresAreToldWholeAtTheEnd(t *testing.T) {
	code, lines := runOn(t, []string{"."}, "./...")
	if last := lines[len(lines)-1]; code != 1 || last != "2 passed, 3 failed, 1 skipped in 4 of 4 packages, N s" {
		t.Errorf("exit %d, and the last line is %q", code, last)
	}
	all := strings.Join(lines, "\n")
	progress, failures, _ := strings.Cut(all, "=== FAILED")
	for _, part := range []string{" ok well (", " FAILED failing (", " FAILED unbuilt (", " FAILED panicked ("} {
		if !strings.Contains(progress, part) {
			t.Errorf("no %q in\n%s", part, progress)
		}
	}
	for _, part := range []string{"payonce/failing TestC/sub\n", "the reason", "undefined: missing",
		"panic: out of order"} {
		if strings.Count(failures, part) != 1 {
			t.Errorf("not once %q in\n%s", part, failures)
		}
	}
	if strings.Contains(all, "chatter") {
		t.Errorf("what is well is not quiet:\n%s", all)
	}
}

//nolint:paralleltest // it changes the directory
func TestModulesAreCountedAsOne(t *testing.T) {
	code, lines := runOn(t, []string{".", "lab"}, "./...")
	if last := lines[len(lines)-1]; code != 1 || last != "3 passed, 3 failed, 1 skipped in 5 of 5 packages, N s" {
		t.Errorf("exit %d, and the last line is %q", code, last)
	}
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasSuffix(line, ": ok lab/also (N s)") }) {
		t.Errorf("the module beside one that fails is not run:\n%s", strings.Join(lines, "\n"))
	}
	if closings := strings.Count(strings.Join(lines, "\n"), " passed, "); closings != 1 {
		t.Errorf("there are %d closing lines", closings)
	}
}

//nolint:paralleltest // it changes the directory
func TestPackageWithTheMostTestsBeginsFirst(t *testing.T) {
	runOn(t, []string{"."}, "./well")
	names, err := tested(t.Context(), "go", ".", []string{"./..."}, map[string]bool{})
	want := []string{"payonce/well", "payonce/failing", "payonce/panicked", "payonce/unbuilt"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("the order is %q, want %q: %v", names, want, err)
	}
}

func TestRaceDetectorIsForPackagesBelowOnePath(t *testing.T) {
	t.Parallel()
	shares := map[string]bool{"m/in/a": true, "m/in": true, "m/b": true}
	got := apart([]string{"m/in/a", "m/inner", "m/in", "m/b", "m/in/pure"}, shares, "m/in", []string{"-short"})
	want := [][]string{
		{"-race=true", "-short", "m/in/a", "m/in"}, {"-race=false", "-short", "m/inner", "m/b", "m/in/pure"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got = apart([]string{"lab/a"}, shares, "m/in", nil); len(got) != 1 {
		t.Errorf("a run of no packages: %q", got)
	}
}

func TestPackagesThatShareAreThoseThatImportSync(t *testing.T) {
	t.Parallel()
	shares := map[string]bool{}
	_, err := tested(t.Context(), "go", "../..", []string{"./internal/judge", "./internal/postgres"}, shares)
	if want := map[string]bool{"payonce/internal/judge": false, "payonce/internal/postgres": true}; err != nil ||
		!maps.Equal(shares, want) {
		t.Errorf("%v, want %v: %v", shares, want, err)
	}
}

func TestSilenceIsBrokenNowAndThen(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	now := time.Now()
	r := newReport(3, &out, func() time.Time { return now })
	speaks := func(after time.Duration, want string) {
		t.Helper()
		out.Reset()
		now = now.Add(after)
		r.stillRunning()
		if out.String() != want {
			t.Errorf("it says %q, want %q", out.String(), want)
		}
	}
	speaks(silence, "0/3 packages, 15 s: … building\n")
	r.add(event{Action: "start", Package: "payonce/slow"})
	r.add(event{Action: "start", Package: "payonce/quick"})
	speaks(silence, "0/3 packages, 30 s: … quick, slow\n")
	r.add(event{Action: "pass", Package: "payonce/quick", Elapsed: 1})
	speaks(silence-1, "")
	speaks(1, "1/3 packages, 45 s: … slow\n")
}
