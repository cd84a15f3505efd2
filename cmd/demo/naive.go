package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// naiveAccount is the naive server's account at the PSP, one of its own, so that its charges can be counted apart. The
// PSP reports them to our webhooks all the same. The reconciler makes each a dead letter: nothing of ours asked for it.
const naiveAccount = "naive"

// naiveServes is what the naive server writes to its stdout when it serves.
const naiveServes = "listening on "

// naive is the wrong server of lab/naive. It runs beside the API, on the same database server and with the same PSP.
type naive struct {
	cmd       *exec.Cmd
	ended     <-chan error
	said      *lastWords
	stopLimit time.Duration
}

// startNaive starts the naive server and returns when it serves. It returns nil if nobody has asked for it.
func startNaive(ctx context.Context, set settings, d *database, stderr io.Writer) (*naive, error) {
	if set.own.NaiveProgram == "" {
		return nil, nil //nolint:nilnil // nobody has asked for it
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), set.own.NaiveProgram)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+d.url, "HTTP_ADDR="+set.own.NaiveAddr, "OPERATOR_ADDR=127.0.0.1:0",
		"PSP_URL="+set.api.PSPURL, "PSP_SECRET="+set.api.PSPSecret, "PSP_TIMEOUT="+set.api.PSPTotal.String(),
		"API_KEYS=demo-acme-key="+naiveAccount)
	serving := make(chan struct{})
	n := &naive{cmd: cmd, said: &lastWords{to: stderr}, stopLimit: set.api.PSPTotal + 2*stopMargin}
	cmd.SysProcAttr, cmd.Stderr = childAttributes(), n.said
	cmd.Stdout = &announcement{word: naiveServes, serving: serving}
	var err error
	if n.ended, err = launch(cmd); err != nil {
		return nil, fmt.Errorf("start the naive server: %w; make naive-demo builds and starts it", err)
	}
	select {
	case <-serving:
		return n, nil
	case err := <-n.ended:
		return nil, fmt.Errorf("start the naive server: %w", n.said.add(err))
	case <-ctx.Done():
		return nil, n.stop()
	}
}

// run stops the naive server when ctx ends. It is not started again when it ends by itself: the demo ends with it,
// since it was what the demo was started for.
func (n *naive) run(ctx context.Context) error {
	if n == nil {
		return nil
	}
	select {
	case err := <-n.ended:
		return fmt.Errorf("the naive server has ended: %w", n.said.add(err))
	case <-ctx.Done():
		return n.stop()
	}
}

// stop lets it finish what it has sent to the PSP.
func (n *naive) stop() error {
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-n.ended:
		if endedBySignal(err) {
			return nil
		}
		return n.said.add(err)
	case <-time.After(n.stopLimit):
		_ = n.cmd.Process.Kill()
		end := fmt.Sprint(<-n.ended) // as a text: nobody else has killed it
		return fmt.Errorf("stop the naive server: it was killed, because it had not stopped after %s (%s)", n.stopLimit, end)
	}
}
