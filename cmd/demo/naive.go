package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// naiveAccount is the naive server's account at the PSP, one of its own, so that its charges can be counted apart. The
// PSP reports them to our webhooks all the same. The reconciler makes each a dead letter: nothing of ours asked for it.
const naiveAccount = "naive"

// naiveServes is what the naive server writes to its stdout when it serves.
const naiveServes = "listening on "

// startNaive starts the wrong server of lab/naive and returns when it serves. It runs beside the API, on the same
// database server and with the same PSP. It returns nil if nobody has asked for it.
func startNaive(ctx context.Context, set settings, d *database, stderr io.Writer) (*program, error) {
	if set.own.NaiveProgram == "" {
		return nil, nil //nolint:nilnil // nobody has asked for it
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), set.own.NaiveProgram)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+d.url, "HTTP_ADDR="+set.own.NaiveAddr, "OPERATOR_ADDR=127.0.0.1:0",
		"PSP_URL="+set.api.PSPURL, "PSP_SECRET="+set.api.PSPSecret, "PSP_TIMEOUT="+set.api.PSPTotal.String(),
		"API_KEYS=demo-acme-key="+naiveAccount)
	p, err := startProgram("the naive server", cmd, naiveServes, stderr, set.api.PSPTotal+2*stopMargin)
	if err != nil {
		return nil, fmt.Errorf("%w; make naive-demo builds and starts it", err)
	}
	select {
	case <-p.serving:
		return p, nil
	case err := <-p.ended:
		return nil, fmt.Errorf("start the naive server: %w", p.said.add(err))
	case <-ctx.Done():
		return nil, p.stop()
	}
}

// runNaive stops the naive server when ctx ends, and lets it finish what it has sent to the PSP. It is not started
// again when it ends by itself: the demo ends with it, since it was what the demo was started for.
func runNaive(ctx context.Context, p *program) error {
	if p == nil {
		return nil
	}
	select {
	case err := <-p.ended:
		return fmt.Errorf("the naive server has ended: %w", p.said.add(err))
	case <-ctx.Done():
	}
	if err := p.stop(); !endedBySignal(err) {
		return err
	}
	return nil
}
