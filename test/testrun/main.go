// Package main runs go test over all packages and tells how far it is: a line for each package that ends, and one now
// and then while none does. It is quiet about what is well; what fails is shown whole, at the end, before the closing
// line, which counts the tests. go test knows one module at a time; several of them run one after another, and are
// counted as one.
//
// It owns the output of make test and make test-all, and nothing else: which tests run is said by the flags, which are
// those of go test. It refuses to run a test again, and its exit code is that of go test.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"payonce/test/pgtest"
)

// silence is the longest time without a line.
const silence = 15 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr,
			"usage: testrun <go command> <directories of modules, separated by commas> [-race-in=<package>] "+
				"[flags of go test] ./<package> …")
		os.Exit(2)
	}
	code, err := runShared(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		code = max(code, 1)
	}
	os.Exit(code) //nolint:gocritic // stop has nothing left to do
}

// runShared is run for the arguments of the command. The test binaries share clusters of PostgreSQL, to copy them.
func runShared(ctx context.Context) (code int, err error) {
	remove, err := pgtest.Share()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	return run(ctx, os.Args[1], strings.Split(os.Args[2], ","), os.Args[3:], os.Stdout, time.Now)
}

// run returns the exit code of go test: that of the first module in which it is not 0. A module that fails keeps no
// other one from running. The last args name the packages.
func run(
	ctx context.Context, goCommand string, modules, args []string, out io.Writer, now func() time.Time,
) (int, error) {
	named := len(args) - 1
	for named > 0 && strings.HasPrefix(args[named-1], "./") {
		named--
	}
	flags, patterns, total := args[:named], args[named:], 0
	raced, races := "", false
	if len(flags) > 0 {
		if raced, races = strings.CutPrefix(flags[0], "-race-in="); races {
			flags = flags[1:]
		}
	}
	packages, shares := make([][]string, len(modules)), map[string]bool{}
	for i, dir := range modules {
		var err error
		if packages[i], err = tested(ctx, goCommand, dir, patterns, shares); err != nil {
			return 1, err
		}
		total += len(packages[i])
	}
	r := newReport(total, out, now)
	defer r.close()
	runs := make([][]testRun, len(modules))
	for i, dir := range modules {
		// go test keeps the order, and drops what the pattern names once more.
		groups := [][]string{slices.Concat(flags, packages[i], patterns)}
		if races {
			groups = apart(packages[i], shares, raced, flags)
		}
		for _, group := range groups {
			runs[i] = append(runs[i], testRun{dir, group})
		}
	}
	// The tests of the first module mostly compute. Those of the others mostly wait, for leases, webhooks and programs.
	var beside sync.WaitGroup
	var otherCode int
	var otherErr error
	beside.Go(func() { otherCode, otherErr = inTurn(ctx, goCommand, slices.Concat(runs[1:]...), r) })
	code, err := inTurn(ctx, goCommand, runs[0], r)
	beside.Wait()
	return cmp.Or(code, otherCode), errors.Join(err, otherErr)
}

// testRun is a run of go test in a module.
type testRun struct {
	dir  string
	args []string
}

// inTurn does runs one after the other, and returns the first exit code that is not 0.
func inTurn(ctx context.Context, goCommand string, runs []testRun, r *report) (code int, err error) {
	for _, each := range runs {
		ended, err := test(ctx, goCommand, each.dir, each.args, r)
		code = cmp.Or(code, ended)
		if err != nil || ctx.Err() != nil {
			return max(code, 1), err
		}
	}
	return code, nil
}

// apart are the arguments of two runs: of the packages below one path with the race detector, and of the others without
// it. Of those below, only packages that share something between goroutines are in the first run. A run of no packages
// is left out.
func apart(packages []string, shares map[string]bool, below string, flags []string) (runs [][]string) {
	for _, race := range []bool{true, false} {
		group := slices.DeleteFunc(slices.Clone(packages), func(name string) bool {
			inside := name == below || strings.HasPrefix(name, below+"/")
			return (inside && shares[name]) != race
		})
		if len(group) > 0 {
			runs = append(runs, slices.Concat([]string{fmt.Sprintf("-race=%t", race)}, flags, group))
		}
	}
	return runs
}

// test runs go test in a module, and returns its exit code.
func test(ctx context.Context, goCommand, dir string, args []string, r *report) (int, error) {
	cmd := exec.CommandContext(ctx, goCommand,
		append([]string{"test", "-json", "-p=" + strconv.Itoa(packages(runtime.NumCPU())),
			"-parallel=" + strconv.Itoa(parallel(runtime.NumCPU()))}, args...)...)
	cmd.Dir = dir
	// Ctrl-C reaches go test by the terminal as well. It waits for the tests, so that they can clean up.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	readErr := follow(stdout, r, time.Tick(silence))
	waitErr := cmd.Wait()
	if exit := new(exec.ExitError); errors.As(waitErr, &exit) {
		return max(exit.ExitCode(), 1), readErr
	}
	return 0, errors.Join(readErr, waitErr)
}

// parallel is how many tests of a package run at once. Most of them wait more than they compute, for a PSP that hangs
// or a lease that ends, so a small machine may run more of them than it has processors.
func parallel(processors int) int { return max(processors, min(3*processors, 8)) }

// packages is how many packages of a module are built or tested at once: one more than processors, because the long
// ones wait most of the time.
func packages(processors int) int { return processors + 1 }

// tested lists the packages with tests in a module, that with the most code of tests first. As a rule, it takes the
// longest, so it should not be the last to begin. It notes those that share something between goroutines: their own
// code imports sync.
func tested(
	ctx context.Context, goCommand, dir string, patterns []string, shares map[string]bool,
) ([]string, error) {
	const files = `{{.ImportPath}} {{range .Imports}}{{if eq . "sync" "sync/atomic"}}sync{{end}}{{end}}` +
		`{{range .TestGoFiles}}|{{$.Dir}}/{{.}}{{end}}{{range .XTestGoFiles}}|{{$.Dir}}/{{.}}{{end}}`
	cmd := exec.CommandContext(ctx, goCommand, append([]string{"list", "-f", files}, patterns...)...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	var names []string
	code := map[string]int64{}
	for line := range strings.Lines(string(out)) {
		name, paths, found := strings.Cut(strings.TrimSuffix(line, "\n"), "|")
		if !found {
			continue // no tests
		}
		name, sync, _ := strings.Cut(name, " ")
		names, shares[name] = append(names, name), sync != ""
		for path := range strings.SplitSeq(paths, "|") {
			if info, err := os.Stat(path); err == nil {
				code[name] += info.Size()
			}
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(code[b], code[a]) })
	return names, nil
}

// follow reads events until there are no more, and lets the report speak up when it has been silent.
func follow(events io.Reader, r *report, tick <-chan time.Time) error {
	read, failed := make(chan event), make(chan error, 1)
	go func() {
		defer close(read)
		failed <- decode(events, read)
	}()
	for {
		select {
		case e, more := <-read:
			if !more {
				return <-failed
			}
			r.add(e)
		case <-tick:
			r.stillRunning()
		}
	}
}
