package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payonce/test/heldport"
	"payonce/test/wait"
)

// Without any setting, somebody can pay: the same request twice gets the same bytes, and the PSP has charged once.
func TestRunsWithNothingButItself(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // for the user of PostgreSQL, if we are root
		t.Fatal(err)
	}
	t.Chdir(dir)
	env := map[string]string{
		"HTTP_ADDR": heldport.Address(t), "MOCKPSP_ADDR": heldport.Address(t),
		"OPERATOR_ADDR": heldport.Address(t), "RECONCILER_ADDR": heldport.Address(t), "LOG_LEVEL": "error",
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, func(name string) string { return env[name] }, io.Discard) }()

	public, key := "http://"+env["HTTP_ADDR"], "the-first-payment-of-all"
	wait.Until(t, "the API serves", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("it has ended: %v", err)
		default:
		}
		response, err := http.Get(public + "/")
		return err == nil && response.Body.Close() == nil
	})
	status, first := pay(t, public, key)
	again, second := pay(t, public, key)
	if status != http.StatusCreated || again != status || first != second {
		t.Errorf("answered %d %s\nand then %d %s", status, first, again, second)
	}
	ledger, err := http.Get("http://" + env["MOCKPSP_ADDR"] + "/_ledger?account=acme&idempotencyKey=" + key)
	if n := strings.Count(body(t, ledger, err), `"id":"ch_`); n != 1 {
		t.Errorf("charged %d times", n)
	}
	stop()
	if err := wait.For(t, "it ends", ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func pay(t *testing.T, public, key string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, public+"/payments",
		strings.NewReader(`{"customerId":"cus-1","amountCents":12000,"currency":"USD"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer demo-acme-key", "Content-Type": "application/json", "Idempotency-Key": key,
	} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	said := body(t, response, err)
	return response.StatusCode, said
}

func body(t *testing.T, response *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(said)
}
