package rig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"
)

// PSP starts the PSP of the benchmark (bench psp), which is the program that runs, as a process of its own. It serves
// HTTP at the Address.
func (r *Rig) PSP() (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(r.dir, "psp-*.log")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "psp") //nolint:noctx // it is ended in good order, by Stop
	cmd.Stdin, cmd.Stderr = bytes.NewReader([]byte(`{"address":"127.0.0.1:0"}`)), log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the PSP: %w", err)
	}
	p := &Process{PID: cmd.Process.Pid, cmd: cmd, log: log, done: make(chan struct{})}
	var greeting struct{ Address string }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &greeting)
	}
	go func() {
		_ = cmd.Wait() // after all of its output was read that we want
		close(p.done)
	}()
	if err != nil {
		p.Stop()
		return nil, fmt.Errorf("start the PSP: %w\n%s", err, p.lastWords())
	}
	p.Address, p.Ready = greeting.Address, time.Since(began)
	return p, nil
}

// Preload tells a PSP of charges that have succeeded: JSON values, one after another, as the PSP itself shows charges.
func (p *Process) Preload(ctx context.Context, charges []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.Address+"/_preload",
		bytes.NewReader(charges))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("tell the PSP of charges: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New("tell the PSP of charges: " + res.Status)
	}
	return nil
}
