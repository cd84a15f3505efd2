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
	"strconv"
	"strings"
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
			"usage: testrun <go command> <directories of modules, separated by commas> [flags of go test] ./...")
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
// other one from running.
func run(
	ctx context.Context, goCommand string, modules, args []string, out io.Writer, now func() time.Time,
) (int, error) {
	total := 0
	for _, dir := range modules {
		n, err := count(ctx, goCommand, dir, args[len(args)-1:])
		if err != nil {
			return 1, err
		}
		total += n
	}
	r := newReport(total, out, now)
	defer r.close()
	code := 0
	for _, dir := range modules {
		ended, err := test(ctx, goCommand, dir, args, r)
		code = cmp.Or(code, ended)
		if err != nil || ctx.Err() != nil {
			return max(code, 1), err
		}
	}
	return code, nil
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

// packages is how many packages are built or tested at once: one more than processors, because the long ones wait most
// of the time.
func packages(processors int) int { return processors + 1 }

// count is the number of packages with tests in a module.
func count(ctx context.Context, goCommand, dir string, patterns []string) (int, error) {
	const withTests = "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"
	cmd := exec.CommandContext(ctx, goCommand, append([]string{"list", "-f", withTests}, patterns...)...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("list packages: %w", err)
	}
	return len(strings.Fields(string(out))), nil
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
