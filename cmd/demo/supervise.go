package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"payonce/demo/controls"
)

const (
	// restartAfter is how long a child that has ended stays away. Somebody who watches should see that it is gone.
	restartAfter = time.Second
	// mostFailures is how often a child may fail in a row. It has not failed if somebody killed it.
	mostFailures = 5
	// steadyAfter is how long a child must have served so that its next failure is the first one again.
	steadyAfter = 10 * time.Second
)

// child is one process of the demo, which is started again whatever ends it.
type child struct {
	name      string // for people
	argument  string // makes this program the child
	env       []string
	files     []*os.File    // the listeners that each start inherits
	stopLimit time.Duration // how long it may take to stop
	stderr    io.Writer
	log       *slog.Logger
	changed   func() // called after each change of the state

	mu      sync.Mutex
	state   controls.Process
	process *os.Process // of the start that runs
}

// run keeps the child running until ctx ends, then stops it. ready is called each time it serves. The error is that of
// a child that fails again and again, or that could not stop in good order.
func (c *child) run(ctx context.Context, ready func()) error {
	defer c.release()
	for failures := 0; ; {
		began := time.Now()
		served, err := c.once(ctx, ready)
		switch {
		case ctx.Err() != nil && endedBySignal(err):
			return nil
		case ctx.Err() != nil:
			return err
		case err == nil:
			err = errors.New("it has ended without an error")
		}
		if served && time.Since(began) >= steadyAfter {
			failures = 0
		}
		if !killed(err) {
			failures++
		}
		if failures == mostFailures {
			return fmt.Errorf("%s has failed %d times in a row, at last: %w", c.name, failures, err)
		}
		c.log.WarnContext(ctx, "a process has ended and is started again", slog.String("process", c.name),
			slog.Any("error", err))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartAfter):
		}
	}
}

// once starts the child and waits for its end. If ctx ends first, it stops the child.
func (c *child) once(ctx context.Context, ready func()) (served bool, err error) {
	said, serving := &lastWords{to: c.stderr}, make(chan struct{})
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self(), c.argument)
	cmd.Args[0] = os.Args[0]
	cmd.Env, cmd.ExtraFiles, cmd.SysProcAttr = c.env, c.files, childAttributes()
	cmd.Stdout, cmd.Stderr = &announcement{word: announced, serving: serving}, said
	life, err := cmd.StdinPipe() // closed when the child has ended, or when this process has
	if err != nil {
		return false, fmt.Errorf("start %s: %w", c.name, err)
	}
	defer life.Close()
	ended, err := launch(cmd)
	if err != nil {
		return false, fmt.Errorf("start %s: %w", c.name, err)
	}
	c.started(cmd.Process)
	defer c.ended()
	for {
		select {
		case err := <-ended:
			return served, said.add(err)
		case <-serving:
			serving, served = nil, true
			c.serves()
			ready()
		case <-ctx.Done():
			return served, c.stop(cmd, ended, said)
		}
	}
}

// launch starts the command, and tells how it ended.
func launch(cmd *exec.Cmd) (<-chan error, error) {
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		// The death signal of Linux is sent when the thread that started the child ends, not when the process does. So
		// this thread is kept until the child has ended.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	return ended, <-started
}

// stop asks the child to finish what it has begun. Nobody new is let in meanwhile: clients who connect are refused, as
// soon as neither the child nor this process listens.
func (c *child) stop(cmd *exec.Cmd, ended <-chan error, said *lastWords) error {
	c.release()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-ended:
		return said.add(err)
	case <-time.After(c.stopLimit):
		_ = cmd.Process.Kill()
		end := fmt.Sprint(<-ended) // as a text: run does not report a child that others have killed
		return fmt.Errorf("stop %s: it was killed, because it had not stopped after %s (%s)", c.name, c.stopLimit, end)
	}
}

// kill ends the child as kill -9 does. run starts it again.
func (c *child) kill() error { return c.signal(syscall.SIGKILL) }

// signal sends the child a signal. It does nothing to a process that has been waited for.
func (c *child) signal(s os.Signal) error {
	c.mu.Lock()
	process := c.process
	c.mu.Unlock()
	if process == nil {
		return errors.New("it does not run at the moment")
	}
	return process.Signal(s)
}

// State is what people are shown of the child.
func (c *child) State() controls.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

func (c *child) started(process *os.Process) {
	c.set(func() {
		if c.state.PID != 0 {
			c.state.Restarts++
		}
		c.process, c.state.PID = process, process.Pid
	})
}

func (c *child) serves() { c.set(func() { c.state.Serves, c.state.Since = true, time.Now() }) }

func (c *child) ended() {
	c.set(func() { c.process, c.state.Serves, c.state.Since = nil, false, time.Now() })
}

func (c *child) set(change func()) {
	c.mu.Lock()
	change()
	c.mu.Unlock()
	c.changed()
}

// release closes this process's copies of the listeners.
func (c *child) release() {
	for _, file := range c.files {
		_ = file.Close()
	}
}

// self is this program. Through the link it is the same one also when the file has been replaced since.
func self() string {
	const link = "/proc/self/exe"
	if _, err := os.Stat(link); err == nil {
		return link
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// endedBySignal tells whether a signal ended the child.
func endedBySignal(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && !exit.Exited()
}

// killed tells whether kill -9 ended the child.
func killed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
