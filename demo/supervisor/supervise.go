package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/demo/controls"
	"payonce/internal/sequence"
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
	path      string // of the program; empty: this one
	argument  string // makes this program the child
	url       string // of a program that does not say when it serves: /readyz there tells; empty: the child says so
	env       []string
	files     []*os.File    // the listeners that each start inherits
	stopLimit time.Duration // how long it may take to stop
	stderr    io.Writer
	log       *slog.Logger
	process   atomic.Pointer[os.Process] // of the start that runs

	watched
}

// run keeps the child running until ctx ends, then stops it. ready is called each time it serves. The error is that of
// a child that fails again and again, or that could not stop in good order.
func (c *child) run(ctx context.Context, ready func()) error {
	defer c.release()
	for failures := 0; ; {
		began := time.Now()
		served, err := c.once(ctx, ready)
		if served {
			c.happens(howItEnded(ctx, err))
		}
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
	cmd := c.command(context.WithoutCancel(ctx))
	life, err := cmd.StdinPipe() // closed when the child has ended, or when this process has
	if err != nil {
		return false, fmt.Errorf("start %s: %w", c.name, err)
	}
	defer life.Close()
	p, err := startProgram(c.name, cmd, announced, c.stderr, c.stopLimit)
	if err != nil {
		return false, err
	}
	if c.url != "" {
		asking, stop := context.WithCancel(ctx)
		defer stop()
		p.serving = answers(asking, c.url+"/readyz")
	}
	c.process.Store(cmd.Process)
	c.started(cmd.Process.Pid)
	defer func() { c.process.Store(nil); c.ended() }()
	for {
		select {
		case err := <-p.ended:
			return served, p.said.add(err)
		case <-p.serving:
			p.serving, served = nil, true
			c.serves()
			c.happens(sequence.Starts)
			ready()
		case <-ctx.Done():
			// Nobody new is let in meanwhile: clients who connect are refused, as soon as neither the child nor this
			// process listens.
			c.release()
			return served, p.stop()
		}
	}
}

func (c *child) command(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.path)
	if c.path == "" {
		cmd = exec.CommandContext(ctx, self(), c.argument)
		cmd.Args[0] = os.Args[0]
	}
	cmd.Env, cmd.ExtraFiles = c.env, c.files
	return cmd
}

// kill ends the child as kill -9 does. run starts it again.
func (c *child) kill() error { return c.signal(syscall.SIGKILL) }

// signal sends the child a signal. It does nothing to a process that has been waited for.
func (c *child) signal(s os.Signal) error {
	process := c.process.Load()
	if process == nil {
		return errors.New("it does not run at the moment")
	}
	return process.Signal(s)
}

// release closes this process's copies of the listeners.
func (c *child) release() {
	for _, file := range c.files {
		_ = file.Close()
	}
}

// howItEnded is the event that is the end of a child.
func howItEnded(ctx context.Context, err error) string {
	switch {
	case killed(err):
		return "is killed"
	case ctx.Err() != nil:
		return "is stopped"
	}
	return "ends"
}

// watched is what people are shown of a process.
type watched struct {
	mu      sync.Mutex
	state   controls.Process
	changed func()            // called after each change; nil: nobody has to know
	tell    func(what string) // called after each event; nil: it is in no picture
}

func (w *watched) happens(what string) {
	if w.tell != nil {
		w.tell(what)
	}
}

// events are what has happened to the processes. The children read them from a file, for the pictures of keys.
type events struct {
	path string
	log  *slog.Logger

	mu  sync.Mutex
	all []sequence.Event
}

// mostEvents bounds the file to some 20 kB.
const mostEvents = 200

// openEvents continues the events of the demo before, if there was one.
func openEvents(path string, log *slog.Logger) *events {
	stored, _ := os.ReadFile(path) // What cannot be read is not missed.
	return &events{path: path, log: log, all: sequence.ParseEvents(stored)}
}

func (e *events) of(process string) func(what string) {
	return func(what string) { e.add(process, what) }
}

// add stores one more event. The file is replaced as a whole, so a reader finds all of it.
func (e *events) add(process, what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, sequence.Event{At: time.Now(), Process: process, What: what})
	e.all = e.all[max(0, len(e.all)-mostEvents):]
	raw, err := json.Marshal(e.all)
	if err == nil {
		err = os.WriteFile(e.path+".new", raw, 0o600)
	}
	if err == nil {
		err = os.Rename(e.path+".new", e.path)
	}
	if err != nil {
		e.log.Warn("pictures of keys lack an event", slog.String("event", process+" "+what), slog.Any("error", err))
	}
}

// State is what it is now.
func (w *watched) State() controls.Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

func (w *watched) started(pid int) {
	w.set(func(p *controls.Process) {
		if p.PID != 0 {
			p.Restarts++
		}
		p.PID = pid
	})
}

func (w *watched) serves() {
	w.set(func(p *controls.Process) { p.Serves, p.Since = true, time.Now() })
}

func (w *watched) ended() {
	w.set(func(p *controls.Process) { p.Serves, p.Since = false, time.Now() })
}

func (w *watched) set(change func(*controls.Process)) {
	w.mu.Lock()
	change(&w.state)
	w.mu.Unlock()
	if w.changed != nil {
		w.changed()
	}
}
