package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"payonce/test/heldport"
)

// Process is a program of ours that runs.
type Process struct {
	PID      int
	Address  string        // host:port of its public side
	Operator string        // and of the operator's
	Ready    time.Duration // from its start to its first 200

	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
}

// Spec says how to run a program.
type Spec struct {
	Program string
	Args    []string
	Env     []string // beside the addresses and the database
	CPUs    []int    // pinned to these; none means wherever
}

// readyLimit is how long a program may take until it is ready.
const readyLimit = 20 * time.Second

// Run starts a program on the database and returns when it answers.
func (d *Database) Run(ctx context.Context, s Spec) (*Process, error) {
	r := d.rig
	var ports [2]*heldport.Port // until the program listens on them
	for i := range ports {
		port, err := heldport.Hold()
		if err != nil {
			return nil, err
		}
		defer port.Close()
		ports[i] = port
	}
	public, operator := ports[0].Address, ports[1].Address
	program := r.Program(s.Program) + d.of
	log, err := os.CreateTemp(r.dir, s.Program+d.of+"-*.log")
	if err != nil {
		return nil, err
	}
	args := OnCores(s.CPUs, append([]string{program}, s.Args...)...)
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // it is ended in good order, by Stop
	cmd.Env = append([]string{
		"DATABASE_URL=" + d.URL, "HTTP_ADDR=" + public, "ADDR=" + public, "OPERATOR_ADDR=" + operator,
		"RECONCILER_ADDR=" + operator, "PSP_SECRET=demo-psp-secret",
	}, s.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Program, err)
	}
	p := &Process{PID: cmd.Process.Pid, Address: public, Operator: operator, cmd: cmd, log: log,
		done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	probe := "http://" + operator + "/readyz"
	if s.Program != API && s.Program != APIInProcess && s.Program != APIReadThrough && s.Program != Reconciler {
		probe = "http://" + public + "/livez"
	}
	if err := p.awaitReady(ctx, probe); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s: %w\n%s", s.Program, err, p.lastWords())
	}
	p.Ready = time.Since(began)
	return p, nil
}

// awaitReady asks again and again: from outside there is no event to wait for.
func (p *Process) awaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		if res, err := client.Do(req); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.done:
			return errors.New("ended at once")
		case <-ctx.Done():
			return errors.New("is not ready in time")
		case <-tick.C:
		}
	}
}

// Stop ends the program in good order.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(readyLimit):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	_ = p.log.Close()
}

// lastWords is the end of what the program has said.
func (p *Process) lastWords() string {
	raw, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	const enough = 2000
	return string(raw[max(0, len(raw)-enough):])
}

// OnCores is a command line that runs on the cores alone; no cores means wherever.
func OnCores(cpus []int, line ...string) []string {
	if len(cpus) == 0 {
		return line
	}
	words := make([]string, len(cpus))
	for i, n := range cpus {
		words[i] = strconv.Itoa(n)
	}
	return append([]string{"taskset", "-c", strings.Join(words, ",")}, line...)
}
