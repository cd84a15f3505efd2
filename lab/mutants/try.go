package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// outcome of one run of a test binary.
type outcome struct {
	failed bool
	hung   bool
	by     string // the test that failed first, if its name is known
	output []byte
	took   time.Duration
}

var (
	failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	inTest     = regexp.MustCompile(`\.((?:Test|Example|Fuzz)\w+)[.(]`)
)

// slack is what a run may take in addition to what its tests take without a mutant: tests wait a minute for what does
// not come.
const slack = 75 * time.Second

// run runs tests of a package in a process of its own, with one mutant active (0: none). No tests means all.
func (b *binaries) run(
	ctx context.Context, pkg string, tests []string, active int, limit time.Duration, env ...string,
) (outcome, error) {
	path, err := b.get(ctx, pkg)
	if err != nil {
		return outcome{}, err
	}
	args := []string{"-test.short", "-test.failfast", "-test.parallel=4"}
	if len(tests) > 0 {
		args = append(args, "-test.run=^("+strings.Join(tests, "|")+")$")
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, args...) // its children are killed with it, below
	cmd.Dir = filepath.Join(b.root, pkg)
	cmd.Env = append(append(os.Environ(), "PAYONCE_MUTANT="+strconv.Itoa(active)), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = time.Second
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	o := outcome{}
	select {
	case err = <-ended:
		// What the tests have started may outlive them: that is no failure.
		o.failed = err != nil && !errors.Is(err, exec.ErrWaitDelay)
	case <-time.After(limit):
		o.failed, o.hung = true, true
	case <-ctx.Done():
	}
	// What the tests have started goes, too.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if o.hung || ctx.Err() != nil {
		err = <-ended
	}
	if ctx.Err() != nil {
		return o, ctx.Err()
	}
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return o, err
	}
	// rapid keeps what has failed in the tree of the sources. On a mutant, this is no finding.
	if err := os.RemoveAll(filepath.Join(cmd.Dir, "testdata", "rapid")); err != nil {
		return o, err
	}
	o.took, o.output = time.Since(began), output.Bytes()
	if m := failedTest.FindSubmatch(o.output); m != nil {
		o.by = string(m[1])
	} else if m := inTest.FindSubmatch(o.output); m != nil {
		o.by = string(m[1])
	}
	return o, nil
}
