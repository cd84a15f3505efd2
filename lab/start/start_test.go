package main

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"payonce/internal/cli"
	"payonce/lab/world"
)

const module = "example.com/shop/pay"

// What a copy of the core may cost those who carry it: lines of Go without tests and generated code.
const (
	mostCore  = 19_000
	mostWhole = 30_000
)

// asked is a wish as the command line makes it, in a checkout.
func asked(t *testing.T, rings string, args ...string) (wish, error) {
	t.Helper()
	root, err := world.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return readWish(t.Context(), append([]string{"--from", root}, args...),
		func(name string) string { return map[string]string{"RINGS": rings}[name] })
}

// copied makes a copy in a temporary folder.
func copied(t *testing.T, rings string) (string, counts) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pay")
	return dir, copiedTo(t, rings, dir)
}

func copiedTo(t *testing.T, rings, dir string) counts {
	t.Helper()
	w, err := asked(t, rings, dir, module)
	if err != nil {
		t.Fatal(err)
	}
	counted, err := w.make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return counted
}

// in runs a program in a copy, without a proxy: all modules are those of Payonce.
func in(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off", "GO"+"PROXY=off")
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, time.Minute
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestWrongWishesAreRefused(t *testing.T) {
	t.Parallel()
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "a"), nil, fileMode); err != nil {
		t.Fatal(err)
	}
	root, err := world.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	link, nowhere := filepath.Join(t.TempDir(), "link"), filepath.Join(t.TempDir(), "nowhere")
	if err := errors.Join(os.Symlink(root, link), os.Symlink(filepath.Join(full, "gone"), nowhere)); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	for says, c := range map[string]struct {
		rings string
		args  []string
	}{
		"name a folder and a module":                   {"", []string{empty}},
		`argument "more" is not known`:                 {"", []string{empty, module, "more"}},
		`RINGS is "stage", must be`:                    {"stage", []string{empty, module}},
		"is not empty":                                 {"", []string{full, module}},
		"is a link to nothing":                         {"", []string{nowhere, module}},
		"DIR is no folder":                             {"", []string{filepath.Join(full, "a"), module}},
		"new is inside of Payonce":                     {"", []string{filepath.Join(root, "new"), module}},
		"deep is inside of Payonce":                    {"", []string{filepath.Join(link, "new", "deep"), module}},
		`MODULE is "pay", must be a domain`:            {"", []string{empty, "pay"}},
		`MODULE is "https://example.com/pay"`:          {"", []string{empty, "https://example.com/pay"}},
		`MODULE is "example.com/pay/"`:                 {"", []string{empty, "example.com/pay/"}},
		`MODULE is "example.com/../pay"`:               {"", []string{empty, "example.com/../pay"}},
		"MODULE is \"example.com/pay\\nrequire a v1\"": {"", []string{empty, "example.com/pay\nrequire a v1"}},
	} {
		_, err := asked(t, c.rings, c.args...)
		if cli.Code(err) != 2 || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

func TestRightWishesAreTaken(t *testing.T) {
	t.Parallel()
	root, err := world.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "not", "there"),
		filepath.Join(root, "bin", "pay")} { // Git ignores bin.
		for _, path := range []string{module, "github.com/Some-One/pay_2/v3", "shop.example/pay"} {
			if _, err := asked(t, "core,operations", dir, path); err != nil {
				t.Errorf("%s %s: %v", dir, path, err)
			}
		}
	}
}

// Half a copy would be taken for a whole one.
func TestFailedCopyLeavesNothing(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	for _, dir := range []string{filepath.Join(parent, "pay"), parent} { // a new folder, and one that is there
		w, err := asked(t, "", dir, module)
		if err != nil {
			t.Fatal(err)
		}
		w.goCommand = "no-such-go"
		if _, err := w.make(t.Context()); err == nil || !strings.Contains(err.Error(), "no-such-go") {
			t.Errorf("copied without Go: %v", err)
		}
		if left, err := os.ReadDir(parent); len(left) > 0 || err != nil {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

func TestImportsAreRenamed(t *testing.T) {
	t.Parallel()
	w := wish{module: module}
	asked := map[string]string{}
	const before = "package a\n\nimport (\n\t\"fmt\"\n\n\tb \"payonce/b\"\n\t\"payoncemore/c\"\n)\n\n" +
		"const s = \"payonce/d\" // payonce/e\n"
	got, err := w.rename("a.go", []byte(before), asked)
	want := strings.Replace(before, `"payonce/b"`, `"example.com/shop/pay/b"`, 1)
	if string(got) != want || err != nil || !maps.Equal(asked, map[string]string{"b": "a.go"}) {
		t.Errorf("%s\n%v, asked for %v", got, err, asked)
	}
}

func TestCopyWithoutAPackageIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := write(dir, "internal/a/a.go", nil); err != nil {
		t.Fatal(err)
	}
	if err := checkImports(dir, map[string]string{"internal/a": "b.go"}); err != nil {
		t.Error(err)
	}
	err := checkImports(dir, map[string]string{"internal/c": "b.go"})
	if err == nil || !strings.Contains(err.Error(), "b.go imports internal/c") {
		t.Error(err)
	}
}

// A copy builds without a network, is small, and charges once: a payment goes through its API over a PostgreSQL.
func TestCopyOfTheCoreWorks(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a copy of the core")
	}
	t.Parallel()
	dir, counted := copied(t, "")
	if counted.written[core] > mostCore || counted.all() > mostWhole {
		t.Errorf("the core has %d lines of Go, at most %d are allowed; all of it %d, at most %d",
			counted.written[core], mostCore, counted.all(), mostWhole)
	}
	in(t, dir, "go", "build", "./...")
	in(t, dir, "go", "vet", "./...")
	// About a tenth of the tests. That of cmd/local pays through the API.
	in(t, dir, "go", "test", "-short", "-count=1", "./cmd/local", "./internal/judge", "./internal/idempotency",
		"./db/migrations")
	in(t, dir, "make", "-s", "grade", "LEVEL=2")
	in(t, dir, "make", "-s", "freeze")
	released, err := os.ReadFile(filepath.Join(dir, "db/migrations/released.txt"))
	if err != nil || !regexp.MustCompile(`\n1\.0\.0\n[0-9a-f]{64}  00001_`).Match(released) {
		t.Errorf("no migration is frozen: %v\n%s", err, released)
	}
}

// Two copies of one commit are the same, so that a later copy can be compared with an earlier one.
func TestCopyIsTheSameEachTime(t *testing.T) {
	if testing.Short() {
		t.Skip("makes two copies")
	}
	t.Parallel()
	first, second := filepath.Join(t.TempDir(), "pay"), t.TempDir()
	before, err := os.Stat(second)
	if err != nil {
		t.Fatal(err)
	}
	copiedTo(t, "", first)
	copiedTo(t, "", second)
	said, err := exec.CommandContext(t.Context(), "diff", "-r", "--exclude=bin", first, second).CombinedOutput()
	if err != nil {
		t.Errorf("two copies differ: %v\n%s", err, said)
	}
	if after, err := os.Stat(second); err != nil || !os.SameFile(before, after) {
		t.Errorf("the folder that was there is another one: %v", err)
	}
}

// Everything, for hours that are there: START_PROOF is set by make start-proof.
func TestWholeCopy(t *testing.T) {
	if os.Getenv("START_PROOF") == "" {
		t.Skip("make start-proof")
	}
	for _, rings := range []string{"core", "core,operations"} {
		t.Run(rings, func(t *testing.T) {
			dir, _ := copied(t, rings)
			hardened(t, dir)
			for _, target := range []string{"build", "verify", "test-all", "grade"} {
				t.Log(lastLines(in(t, dir, "make", target)))
			}
		})
	}
}

// hardened asks the same of the copy's compose.yaml as of ours. Each setting that it requires is set to its name.
func hardened(t *testing.T, dir string) {
	t.Helper()
	root, err := world.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	set := regexp.MustCompile(`\$\{(\w+):\?\}`).ReplaceAll(content, []byte("$${$1:-$1}"))
	if err := write(dir, "set.yaml", set); err != nil {
		t.Fatal(err)
	}
	in(t, filepath.Join(root, "deploy", "composecheck"), "go", "run", ".", filepath.Join(dir, "set.yaml"))
}

func lastLines(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

func TestEachFileIsOfItsKind(t *testing.T) {
	t.Parallel()
	const sqlc = "queries: db/queries/payments.sql"
	for name, want := range map[string][2]string{ // in a copy of the core, and with operations
		"internal/payments/execute.go":             {core, core},
		"internal/payments/testdata/a.golden":      {core, core},
		"internal/app/operations.go":               {"", operations},
		"internal/console/console.go":              {"", operations},
		"internal/console/a_stage_test.go":         {"", ""},
		"db/migrations/00112_idempotency_keys.sql": {core, core},
		"db/migrations/released.txt":               {"", ""},
		"db/migrations/beside_test.go":             {core, core},
		"db/queries/payments.sql":                  {other, other},
		"db/queries/events.sql":                    {"", ""}, // as sqlc.yaml says
		"demo/mockpsp/server.go":                   {support, support},
		"demo/mockpsp/page_stage_test.go":          {"", ""},
		"demo/mockpsp/stripe/server.go":            {"", support},
		"demo/mockpsp/stripe/page_stage_test.go":   {"", ""},
		"lab/grade/payonce/main.go":                {support, support},
		"lab/grade/main.go":                        {"", ""},
		"docs/start.md":                            {"", ""},
		"go.mod":                                   {other, other},
		"lab/go.mod":                               {"", ""},
	} {
		got := [2]string{wish{}.kindOf(name, sqlc), wish{operations: true}.kindOf(name, sqlc)}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
