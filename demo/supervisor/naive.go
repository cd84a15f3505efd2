package supervisor

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/jackc/pgx/v5"
)

// naiveAccount is the naive server's account at the PSP, one of its own, so that its charges can be counted apart. The
// PSP reports them to our webhooks all the same. The reconciler makes each a dead letter: nothing of ours asked for it.
const naiveAccount = "naive"

// naiveSchema keeps its tables apart from ours in the same database.
const naiveSchema = "step01"

// startNaive starts step 01 of the course and returns when it serves. It runs beside the API, on the same database
// server and with the same PSP. It returns nil if nobody has asked for it.
func startNaive(ctx context.Context, set settings, d *database, stderr io.Writer) (*program, error) {
	if set.own.NaiveProgram == "" {
		return nil, nil //nolint:nilnil // nobody has asked for it
	}
	_, port, err := net.SplitHostPort(set.own.NaiveAddr)
	if err != nil {
		return nil, fmt.Errorf("read NAIVE_ADDR: %w", err)
	}
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	_, err = conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+naiveSchema)
	_ = conn.Close(ctx)
	if err != nil {
		return nil, fmt.Errorf("create the naive server's schema: %w", err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), set.own.NaiveProgram)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+d.url, "PGOPTIONS=-c search_path="+naiveSchema, "PORT="+port,
		"PSP_URL="+set.api.PSPURL, "PSP_SECRET="+set.api.PSPSecret, "PSP_TIMEOUT="+set.api.PSPTotal.String(),
		"API_KEYS=demo-acme-key="+naiveAccount)
	p, err := startProgram("the naive server", cmd, saysNothing, stderr, set.api.PSPTotal+2*stopMargin)
	if err != nil {
		return nil, fmt.Errorf("%w; make naive-demo builds and starts it", err)
	}
	return awaitNaive(ctx, p, "http://127.0.0.1:"+port+"/readyz")
}

// saysNothing is for a program that does not say when it serves.
const saysNothing = "\x00"

// awaitNaive returns when the naive server answers. It says nothing when it serves, so it is asked again and again.
func awaitNaive(ctx context.Context, p *program, url string) (*program, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-p.ended:
			return nil, fmt.Errorf("start the naive server: %w", p.said.add(err))
		case <-ctx.Done():
			return nil, p.stop()
		case <-tick.C:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return nil, err
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return p, nil
			}
		}
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
