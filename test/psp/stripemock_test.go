package psp

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/test/heldport"
	"payonce/test/wait"
)

// Stripe's own mock knows no state. It refuses a request whose path or parameters are not in Stripe's OpenAPI document.
// So each request that our dialect can send is recorded against our mock, and sent once more to Stripe's.
func TestStripesOpenAPIAllowsOurRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds github.com/stripe/stripe-mock")
	}
	t.Parallel()
	address := startStripeMock(t)
	requests := record(t)
	steps := map[string]bool{}
	for _, r := range requests {
		steps[r.step] = true
		if status, said := r.sendTo(t, address); status != http.StatusOK {
			t.Errorf("%s %s %s: %d %s", r.method, r.target, r.body, status, said)
		}
	}
	wrong := requests[0]
	wrong.body += "&payment_method_of=nobody"
	if status, _ := wrong.sendTo(t, address); status == http.StatusOK {
		t.Error("stripe-mock takes a parameter that Stripe does not have")
	}
	for _, step := range []string{"create", "confirm", "read", "cancel", "refund", "lookup", "list", "statement",
		"search"} {
		if !steps[step] {
			t.Errorf("no request of the step %s was recorded", step)
		}
	}
}

func (r recorded) sendTo(t *testing.T, address string) (status int, said string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.method, "http://"+address+r.target, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = r.header.Clone()
	req.Header.Set("Authorization", "Bearer sk_test_123") // the form that stripe-mock asks for
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// buildStripeMock builds Stripe's mock. Without a Go proxy its modules cannot be had, and the test is skipped. In CI
// that is a failure: a test that is always skipped is no test.
func buildStripeMock(t *testing.T) (program string) {
	t.Helper()
	const modules = "-modfile=../../tools/stripemock/go.mod"
	missing := t.Skipf
	if os.Getenv("CI") != "" {
		missing = t.Fatalf
	}
	if out, err := exec.CommandContext(t.Context(), "go", "mod", "download", modules).CombinedOutput(); err != nil {
		missing("the modules of stripe-mock cannot be had; is there a Go proxy? %v\n%s", err, out)
	}
	program = filepath.Join(t.TempDir(), "stripe-mock")
	build := exec.CommandContext(t.Context(), "go", "build", modules, "-o", program, "github.com/stripe/stripe-mock")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build stripe-mock: %v\n%s", err, out)
	}
	return program
}

// startStripeMock builds and starts Stripe's mock.
func startStripeMock(t *testing.T) (address string) {
	t.Helper()
	program := buildStripeMock(t)
	address = heldport.Address(t)
	ctx, stop := context.WithCancel(t.Context())
	run := exec.CommandContext(ctx, program, "-http-addr", address)
	run.Stderr = os.Stderr
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = run.Wait()
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	wait.Until(t, "stripe-mock answers", func() bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			return false
		}
		res.Body.Close()
		return true
	})
	return address
}

// recorded is a request of our dialect.
type recorded struct {
	step, method, target, body string
	header                     http.Header
}

// record has the dialect send each kind of request.
func record(t *testing.T) (requests []recorded) {
	t.Helper()
	w := setup(t, stripeDialect())
	var mu sync.Mutex
	w.wire.refuses = func(r *http.Request) bool {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		mu.Lock()
		defer mu.Unlock()
		requests = append(requests, recorded{stripeStep(r), r.Method, r.URL.RequestURI(), string(body), r.Header})
		return false
	}
	ctx := t.Context()
	for i, method := range []string{"pm_ok", "pm_500_not_charged", "pm_declined"} {
		ch := numbered(w.dialect, i)
		ch.PaymentMethod = method
		stored, _ := w.perform(ch)
		w.client.Lookup(ctx, stored, gateway.EndWaiting)
		w.client.Lookup(ctx, stored, gateway.EndDecided)
	}
	id := w.charge(numbered(w.dialect, 3))
	for _, reason := range []string{"", "duplicate", "a reason of our own"} {
		r := gateway.Refund{
			Account: "acct_acme", Key: "key-of-the-refund-" + reason, Attempt: 1, Reference: "re_1", ChargeID: id,
			AmountMinor: 1, Currency: "USD", Reason: reason,
		}
		w.client.Refund(ctx, r)
		w.client.Lookup(ctx, r, gateway.EndNothing)
	}
	for _, o := range []gateway.Object{gateway.ChargeObject, gateway.RefundObject} {
		for _, cursor := range []string{"", "1795100000:86400"} {
			_, _ = w.client.List(ctx, o, "acct_acme", today(), cursor)
		}
	}
	w.awaitWebhooks()
	w.clock.advance(48 * time.Hour)
	published := gateway.StatementsOf(w.client)
	if err := published.Statement(ctx, "acct_acme", today(), func(gateway.Line) error { return nil }); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(requests)
}
