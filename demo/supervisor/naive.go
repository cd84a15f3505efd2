package supervisor

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/app"
)

// naiveAccount is the naive server's account at the PSP, one of its own, so that its charges can be counted apart.
// Nobody is told of them by a webhook: they are no movements of ours.
const naiveAccount = "naive"

// naiveSchema keeps its tables apart from ours in the same database.
const naiveSchema = "step01"

// naiveProgram is step 01 of the course where make demo puts it: in the folder of this program. It is empty if it is
// not there.
func naiveProgram() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	path = filepath.Join(filepath.Dir(path), "naive")
	if found, err := os.Stat(path); err != nil || !found.Mode().IsRegular() {
		return ""
	}
	return path
}

// newNaive makes the child that runs the naive server, on the demo's own database server and with the same PSP as ours.
// It is nil if it cannot run, and why says so: the demo is about the other two.
func newNaive(ctx context.Context, set settings, d *database, log *slog.Logger) (naive *child, why string) {
	switch {
	case set.own.NaiveProgram == "":
		return nil, "make demo builds it, and this demo was not started so."
	case d.server == nil:
		return nil, "it needs the demo's own database server, and DATABASE_URL names another one."
	}
	port, err := freePort(ctx, set.own.NaiveAddr)
	if err == nil {
		err = onDatabase(ctx, d.url, func(conn *pgx.Conn) error {
			if _, err := conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+naiveSchema); err != nil {
				return fmt.Errorf("create the naive server's schema: %w", err)
			}
			return nil
		})
	}
	if err != nil {
		return nil, err.Error() + "; then start the demo again."
	}
	return &child{
		name: "the naive server", path: set.own.NaiveProgram, url: "http://127.0.0.1:" + port,
		env: append(os.Environ(), "DATABASE_URL="+d.url, "PGOPTIONS=-c search_path="+naiveSchema, "PORT="+port,
			"PSP_URL="+set.api.PSPURL, "PSP_SECRET="+set.api.PSPSecret, "PSP_TIMEOUT="+set.api.PSPTotal.String(),
			"API_KEYS="+apiKey+"="+naiveAccount),
		stopLimit: set.api.PSPTotal + stopMargin, stderr: io.Discard, log: log, // it reports each failed charge
	}, ""
}

// freePort is the port of an address on which the naive server can listen. It opens the address for itself.
func freePort(ctx context.Context, addr string) (string, error) {
	opened, err := app.Listen(ctx, app.Address{Setting: "NAIVE_ADDR", Addr: addr})
	if err != nil {
		return "", err
	}
	defer opened[0].Close()
	_, port, err := net.SplitHostPort(opened[0].Addr().String())
	return port, err
}

// answers is closed when the URL answers that all is well. It is for a program that does not say when it serves.
func answers(ctx context.Context, url string) <-chan struct{} {
	serving := make(chan struct{})
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
			if err != nil {
				return
			}
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
				if res.StatusCode == http.StatusOK {
					close(serving)
					return
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return serving
}
