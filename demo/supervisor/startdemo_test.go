package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"payonce/test/heldport"
)

type demo struct {
	public, operator, psp, reconciler string
	account                           string // of the tenant at the PSP
	stripe                            string // where the PSP speaks Stripe's dialect; or ""
	stop                              func() error
	out                               *bytes.Buffer
}

// startDemo runs the demo on free ports until the test ends, and returns when it is ready.
func startDemo(t *testing.T, dir string, settings ...string) demo {
	t.Helper()
	d := demo{public: heldport.Address(t), operator: heldport.Address(t), psp: heldport.Address(t),
		reconciler: heldport.Address(t),
		account:    "acme", out: &bytes.Buffer{}}
	env := map[string]string{
		"DEMO_DATA_DIR": dir, "HTTP_ADDR": d.public, "OPERATOR_ADDR": d.operator, "MOCKPSP_ADDR": d.psp,
		"PUBLIC_URL": "http://localhost:8080", "PATH": os.Getenv("PATH"), "PG_BINDIR": os.Getenv("PG_BINDIR"),
		"HOME": os.Getenv("HOME"), "RECONCILER_ADDR": d.reconciler,
	}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		env[name] = value
	}
	if env["PSP"] == "stripe" {
		d.account, d.stripe = "acct_acme", heldport.Address(t)
		env["MOCKPSP_STRIPE_ADDR"] = d.stripe
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, announce := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, nil, func(name string) string { return env[name] }, announce, os.Stderr)
		_ = announce.CloseWithError(fmt.Errorf("the demo has ended: %w", orEOF(err)))
		ended <- err
	}()
	stopped := false
	d.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Minute):
			return fmt.Errorf("the demo did not stop")
		}
	}
	t.Cleanup(func() {
		if err := d.stop(); err != nil {
			t.Errorf("stop the demo: %v", err)
		}
	})
	buffer := make([]byte, 4096)
	for !strings.Contains(d.out.String(), "Payonce is ready") {
		n, err := ready.Read(buffer)
		d.out.Write(buffer[:n])
		if err != nil {
			t.Fatalf("start the demo: %v\n%s", err, d.out)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, ready) }()
	return d
}

func orEOF(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}
