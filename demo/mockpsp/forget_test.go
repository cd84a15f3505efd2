package mockpsp

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"
)

func (p *running) forget(query, want string) {
	p.t.Helper()
	got := p.send(p.t.Context(), http.MethodDelete, "/_keys"+query, "", header{"Authorization": ""})
	if got.status != http.StatusOK || got.body != want {
		p.t.Errorf("DELETE /_keys%s: %d %s %v, want %s", query, got.status, got.body, got.err, want)
	}
}

// What was forgotten is charged once more, also after a restart; the rest is not.
func TestForgottenKeysAreChargedOnceMore(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	p := setup(t, onFile(path))
	for _, key := range []string{"key-1", "key-2", "key-3"} {
		p.charge(key, "pm_ok").want(t, http.StatusCreated, "")
	}
	p.chargeAs("globex", "key-1", "pay_1", "pm_ok").want(t, http.StatusCreated, "")
	p.forget("?account=acme&idempotencyKey=key-1", `{"forgotten":1}`)
	p.charge("key-1", "pm_slow").want(t, http.StatusCreated, "") // not even the body is known
	p.forget("?idempotencyKey=key-2", `{"forgotten":1}`)
	p.forget("?account=nobody", `{"forgotten":0}`)
	p.stop()

	p = setup(t, onFile(path))
	p.charge("key-2", "pm_ok").want(t, http.StatusCreated, "")
	p.charge("key-3", "pm_ok").want(t, http.StatusCreated, "")
	p.charge("key-1", "pm_ok").want(t, http.StatusUnprocessableEntity, "idempotency_mismatch")
	p.chargeAs("globex", "key-1", "pay_1", "pm_ok").want(t, http.StatusCreated, "")
	one, two, three := p.ledger("key-1").Charges, p.ledger("key-2").Charges, p.ledger("key-3").Charges
	if len(one) != 3 || len(two) != 2 || len(three) != 1 {
		t.Errorf("charged %d, %d and %d times", len(one), len(two), len(three))
	}
	p.forget("", `{"forgotten":4}`)
	p.stop()
	setup(t, onFile(path)).forget("", `{"forgotten":0}`)
}

func TestForgottenKeyIsChargedAgainAtOnce(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	p := setup(t, onFile(path))
	for range 2 {
		if got := p.charge("key-1", "pm_forgotten_key"); !errors.Is(got.err, io.EOF) {
			t.Errorf("got %d %v, want EOF", got.status, got.err)
		}
	}
	p.stop()
	p = setup(t, onFile(path))
	if got := p.charge("key-1", "pm_forgotten_key"); !errors.Is(got.err, io.EOF) {
		t.Errorf("got %d %v, want EOF", got.status, got.err)
	}
	if got := p.ledger("key-1").Charges; len(got) != 3 || got[0].Fault != "pm_forgotten_key" {
		t.Errorf("charges %+v", got)
	}
}

// A key is forgotten with the end of the call that executes it; one that has no entry yet, or a late one, is kept.
func TestKeysAreForgottenWhenTheirCallEnds(t *testing.T) {
	t.Parallel()
	p := setup(t, func(c *Config) { c.SlowDelay = time.Hour })
	held, cancelHeld := p.chargeInBackground("pm_silent_charged")
	await(t, "it is charged", func() bool { return len(p.ledger("key-1").Charges) == 1 })
	if got := p.charge("key-late", "pm_late_charge"); !errors.Is(got.err, io.EOF) {
		t.Fatalf("got %d %v, want EOF", got.status, got.err)
	}
	slow := make(chan result, 1)
	go func() { slow <- p.charge("key-slow", "pm_slow") }()
	p.awaitFault("key-slow", "pm_slow")

	p.forget("", `{"forgotten":1}`)
	p.charge("key-1", "pm_silent_charged").want(t, http.StatusConflict, "idempotency_key_in_use")
	p.charge("key-late", "pm_late_charge").want(t, http.StatusConflict, "idempotency_key_in_use")
	cancelHeld()
	receive(t, held)
	await(t, "the key is free and unknown", func() bool {
		return p.charge("key-1",
			"pm_ok").status == http.StatusCreated
	})
	if got := p.ledger("key-1").Charges; len(got) != 2 {
		t.Errorf("charged %d times", len(got))
	}
	if err := p.psp.Close(); err != nil { // ends the pause
		t.Fatal(err)
	}
	receive(t, slow).want(t, http.StatusCreated, "")
	p.forgetRefused()
}

func (p *running) forgetRefused() {
	p.t.Helper()
	p.send(p.t.Context(), http.MethodDelete, "/_keys", "", nil).want(p.t, http.StatusServiceUnavailable,
		"shutting_down")
}

func TestForgottenOutageStrikesOnceMore(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	held, cancel := p.chargeInBackground("pm_timeout_not_charged")
	p.awaitFault("key-1", "pm_timeout_not_charged")
	p.forget("", `{"forgotten":0}`) // the call is not over
	cancel()
	receive(t, held)
	await(t, "the first call has ended", func() bool { return p.calls("key-1").Requests[0].Outcome != outcomePending })
	held, cancel = p.chargeInBackground("pm_timeout_not_charged")
	p.awaitFault("key-1", "pm_timeout_not_charged")
	cancel()
	receive(t, held)
}
