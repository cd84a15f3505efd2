package world

import (
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

	"payonce/lab/child"
	"payonce/test/heldport"
	"payonce/test/httpproxy"
	"payonce/test/pgproxy"
)

// Process is one of the programs. It keeps its addresses, its log and its proxies over restarts.
type Process struct {
	Name     string
	Address  string // host:port of its public side
	Operator string // and of the operator's; the same for a program that has one side only
	Log      string // path

	DB  *pgproxy.Proxy   // before the database, or nil
	PSP *httpproxy.Proxy // before the PSP, or nil

	Program string // path
	Args    []string
	Env     []string
	Probe   string // the URL that answers 200 as soon as the program is ready

	mu   sync.Mutex
	cmd  *exec.Cmd
	done <-chan struct{}
}

// readyLimit is how long a program may take until it answers.
const readyLimit = 30 * time.Second

// Start runs the program, also again after it has ended, and returns when it answers that it is ready.
func (p *Process) Start(ctx context.Context) error {
	// Another process at the address would answer in its place, and nobody would notice that this one does not run.
	for _, address := range []string{p.Address, p.Operator} {
		if err := nobodyAt(ctx, address); err != nil {
			return fmt.Errorf("start %s: %w", p.Name, err)
		}
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.Program, p.Args...) //nolint:noctx // it is ended by name, in many ways
	cmd.Env, cmd.Stdout, cmd.Stderr = p.Env, log, log
	cmd.SysProcAttr = child.Attributes()
	done, err := child.Start(cmd)
	_ = log.Close()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.mu.Lock()
	p.cmd, p.done = cmd, done
	p.mu.Unlock()
	if err := p.awaitReady(ctx, done); err != nil {
		p.Kill()
		return fmt.Errorf("start %s: %w\n%s", p.Name, err, p.LastWords())
	}
	return nil
}

// awaitReady asks again and again: from outside there is no event to wait for.
func (p *Process) awaitReady(ctx context.Context, done <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Probe, http.NoBody)
		if err != nil {
			return err
		}
		if res, err := client.Do(req); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return stillThere(done)
			}
		}
		select {
		case <-done:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return errors.New("it is not ready in time")
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

// Stop ends the process in good order. One that is paused goes on first.
func (p *Process) Stop() {
	p.Resume()
	p.end(syscall.SIGTERM, stopLimit)
}

func (p *Process) end(sig syscall.Signal, limit time.Duration) {
	p.mu.Lock()
	cmd, done := p.cmd, p.done
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(sig)
	select {
	case <-done:
	case <-time.After(limit):
		_ = cmd.Process.Kill()
		<-done
	}
}

// Pause is SIGSTOP: the process keeps all that it has, and does nothing.
func (p *Process) Pause() { p.signal(syscall.SIGSTOP) }

// Resume is SIGCONT.
func (p *Process) Resume() { p.signal(syscall.SIGCONT) }

// signal does nothing to a process that has been waited for, so it cannot reach another one of the same id.
func (p *Process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(sig)
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
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// LastWords is the end of what the program has said.
func (p *Process) LastWords() string {
	const enough = 4000
	text, err := child.LastWords(p.Log, enough)
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
