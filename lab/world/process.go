package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"payonce/lab/program"
	"payonce/test/heldport"
	"payonce/test/httpproxy"
	"payonce/test/pgproxy"
)

// Process is a program that can be ended in many ways, and started again. It keeps its addresses, its log and its
// proxies over restarts.
type Process struct {
	Name     string
	Address  string // host:port of its public side
	Operator string // and of the operator's; the same for a program that has one side only
	Log      string // path

	DB  *pgproxy.Proxy   // before the database, or nil
	PSP *httpproxy.Proxy // before the PSP, or nil

	Program string
	Args    []string
	Env     []string
	Probe   string                // URL that is asked until the process is ready
	Accepts func(status int) bool // what is ready; nil: 200 alone
	Limit   time.Duration         // until it is ready; 0: readyLimit
	Group   bool                  // what the process has started is signalled with it, and ends with it

	mu   sync.Mutex
	cmd  *exec.Cmd
	done <-chan struct{}
}

// readyLimit is how long a program may take until it answers.
const readyLimit = 30 * time.Second

// NotServingError says that a process did not come up.
type NotServingError struct{ text string }

func (e *NotServingError) Error() string { return e.text }

// Start runs the program, also again after it has ended, and returns when it answers that it is ready.
func (p *Process) Start(ctx context.Context) error {
	// Another process at the address would answer in its place, and nobody would notice that this one does not run.
	for _, address := range []string{p.Address, p.Operator} {
		if err := p.untilFree(ctx, address); err != nil {
			return fmt.Errorf("start %s: %w", p.Name, err)
		}
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.Program, p.Args...) //nolint:noctx // it is ended by name, in many ways
	cmd.Env, cmd.Stdout, cmd.Stderr = p.Env, log, log
	cmd.SysProcAttr = program.Attributes()
	if p.Group {
		cmd.SysProcAttr = program.Group()
	}
	done, err := program.Start(cmd)
	_ = log.Close()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.mu.Lock()
	p.cmd, p.done = cmd, done
	p.mu.Unlock()
	if err := p.awaitReady(ctx, done); err != nil {
		p.Kill()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &NotServingError{fmt.Sprintf("%s %v; its last words:\n%s", p.Name, err, p.LastWords())}
	}
	return nil
}

// untilFree returns when nobody is at the address. What a process has started, and was killed with it, may keep the
// address for a moment longer.
func (p *Process) untilFree(ctx context.Context, address string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(stopLimit); ; {
		err := nobodyAt(ctx, address)
		if err == nil || !p.Group || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// awaitReady asks again and again: from outside there is no event to wait for.
func (p *Process) awaitReady(ctx context.Context, done <-chan struct{}) error {
	limit := cmp.Or(p.Limit, readyLimit)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	said := "it gives no answer there"
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Probe, http.NoBody)
		if err != nil {
			return err
		}
		if res, err := client.Do(req); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK || p.Accepts != nil && p.Accepts(res.StatusCode) {
				return stillThere(done)
			}
			said = fmt.Sprintf("it answers %d", res.StatusCode)
		}
		select {
		case <-done:
			return errors.New("ended before it was ready")
		case <-ctx.Done():
			return fmt.Errorf("is not ready after %s at %s: %s", limit, p.Probe, said)
		case <-tick.C:
		}
	}
}

// stillThere fails for a program that has ended: then it was another one that answered.
func stillThere(done <-chan struct{}) error {
	select {
	case <-done:
		return errors.New("it ended, and another program answers at its address")
	default:
		return nil
	}
}

// Kill is kill -9. What the process had under way to the database or the PSP is on the proxies, and theirs to keep or
// to lose.
func (p *Process) Kill() { p.end(syscall.SIGKILL, readyLimit) }

// Stop ends the process in good order, and reports whether that is how it has ended: by itself, with the exit code 0.
// It is killed if it takes longer than stopLimit. One that is paused goes on first.
func (p *Process) Stop() (inGoodOrder bool) {
	p.Resume()
	return p.end(syscall.SIGTERM, stopLimit)
}

func (p *Process) end(sig syscall.Signal, limit time.Duration) (inGoodOrder bool) {
	p.mu.Lock()
	cmd, done := p.cmd, p.done
	p.mu.Unlock()
	if cmd == nil || stillThere(done) != nil {
		return false
	}
	p.tell(cmd, done, sig)
	select {
	case <-done:
	case <-time.After(limit):
		p.tell(cmd, done, syscall.SIGKILL)
		<-done
	}
	if p.Group { // what it has started, and has not ended with it
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	return cmd.ProcessState.ExitCode() == 0
}

// tell signals the process, or its group. It does nothing to one that has been waited for, so it cannot reach another
// one of the same id.
func (p *Process) tell(cmd *exec.Cmd, done <-chan struct{}, sig syscall.Signal) {
	if !p.Group {
		_ = cmd.Process.Signal(sig)
	} else if stillThere(done) == nil {
		_ = syscall.Kill(-cmd.Process.Pid, sig)
	}
}

// Pause is SIGSTOP: the process keeps all that it has, and does nothing.
func (p *Process) Pause() { p.signal(syscall.SIGSTOP) }

// Resume is SIGCONT.
func (p *Process) Resume() { p.signal(syscall.SIGCONT) }

func (p *Process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		p.tell(p.cmd, p.done, sig)
	}
}

// Set changes a setting from the next start on.
func (p *Process) Set(name, value string) {
	p.Env = append(slices.DeleteFunc(p.Env, func(s string) bool { return strings.HasPrefix(s, name+"=") }), name+"="+
		value)
}

// PID is that of the process since it was last started.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// Running tells whether the process has not ended.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil && stillThere(p.done) == nil
}

// LastWords is the end of what the program has said.
func (p *Process) LastWords() string {
	const enough = 4000
	text, err := program.LastWords(p.Log, enough)
	if err != nil {
		return err.Error()
	}
	return text
}

// address is one of loopback for a process, also when it was killed and comes back. The world holds its port until it
// is closed.
func (w *World) address() (string, error) {
	port, err := heldport.Hold()
	if err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ports = append(w.ports, port)
	return port.Address, nil
}

// nobodyAt fails if somebody listens on an address. It does not try to listen there itself: a process that is started
// at the same moment would have a copy of the socket until it runs its program, and the address would be in use.
func nobodyAt(ctx context.Context, address string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return ctx.Err()
	}
	return errors.Join(fmt.Errorf("listen tcp %s: %w", address, syscall.EADDRINUSE), c.Close())
}
