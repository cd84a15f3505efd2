package mockpsp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"
)

func TestSlowChargeHoldsItsKeyThenCharges(t *testing.T) {
	t.Parallel()
	p := setup(t, func(c *Config) { c.SlowDelay = time.Hour })
	ended, cancel := p.chargeInBackground("pm_slow")
	defer cancel()
	p.awaitFault("key-1", "pm_slow")
	if got := p.ledger("key-1").Charges; len(got) != 0 {
		t.Errorf("charged before the pause: %v", got)
	}
	p.charge("key-1", "pm_slow").want(t, http.StatusConflict, "idempotency_key_in_use")
	if err := p.psp.Close(); err != nil { // ends the pause, not the charge
		t.Fatal(err)
	}
	receive(t, ended).want(t, http.StatusCreated, "")
	if got := p.ledger("key-1").Charges; len(got) != 1 {
		t.Errorf("charges: %v", got)
	}
}

func TestSlowChargeOutlivesItsClient(t *testing.T) {
	t.Parallel()
	p := setup(t, func(c *Config) { c.SlowDelay = 20 * time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	go p.send(ctx, http.MethodPost, "/v1/charges", chargeBody("pm_slow"), header{"Idempotency-Key": "key-1"})
	await(t, "the call arrives", func() bool { return p.calls("key-1").Count == 1 })
	cancel()
	await(t, "it is charged", func() bool { return len(p.ledger("key-1").Charges) == 1 })
}

func TestUnansweredChargeIsHeldUntilTheClientGoesThenReplayed(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{"pm_timeout_charged", "pm_silent_charged"} {
		p := setup(t, nil)
		ended, cancel := p.chargeInBackground(string(f))
		await(t, "it is charged", func() bool { return len(p.ledger("key-1").Charges) == 1 })
		p.charge("key-1", string(f)).want(t, http.StatusConflict, "idempotency_key_in_use")
		if found := p.list("/v1/charges?idempotencyKey=key-1").Data; len(found) != 1 {
			t.Errorf("%s: a lookup finds %v", f, found)
		}
		cancel()
		if got := receive(t, ended); !errors.Is(got.err, context.Canceled) {
			t.Errorf("%s: answered %d %v", f, got.status, got.err)
		}
		var again result
		await(t, "the key is free", func() bool {
			again = p.charge("key-1", string(f))
			return again.status != http.StatusConflict
		})
		again.want(t, http.StatusCreated, "")
		if again.header.Get("Idempotent-Replayed") != "true" || len(p.ledger("key-1").Charges) != 1 {
			t.Errorf("%s: not a replay of one charge", f)
		}
	}
}

func TestHeldRequestEndsAtTheLimitWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	p := setup(t, func(c *Config) { c.HangLimit = 5 * time.Millisecond })
	if got := p.charge("key-1", "pm_silent_charged"); !errors.Is(got.err, io.EOF) {
		t.Errorf("got %d %v, want EOF", got.status, got.err)
	}
	p.charge("key-1", "pm_silent_charged").want(t, http.StatusCreated, "")
}

// A server's ReadTimeout would otherwise look like a client that has gone.
func TestHeldRequestOutlivesTheReadTimeout(t *testing.T) {
	t.Parallel()
	const readTimeout, hangLimit = 200 * time.Millisecond, 500 * time.Millisecond
	p := setup(t, func(c *Config) { c.HangLimit = hangLimit })
	p.server.Close()
	p.server = httptest.NewUnstartedServer(p.psp)
	p.server.Config.ReadTimeout = readTimeout
	p.server.Start()
	began := time.Now()
	if got := p.charge("key-1", "pm_silent_charged"); !errors.Is(got.err, io.EOF) {
		t.Errorf("got %d %v, want EOF", got.status, got.err)
	}
	if held := time.Since(began); held < hangLimit {
		t.Errorf("held for %v only", held)
	}
}

// As in a real outage, the next request with the same key is charged. A restart of the PSP is no new outage.
func TestNotChargedFaultsStrikeOncePerKey(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		path := ledgerPath(t)
		quick := func(c *Config) { c.HangLimit = time.Millisecond }
		p := setup(t, onFile(path, quick))
		for _, key := range []string{"key-1", "key-2"} {
			p.charge(key+"-500", "pm_500_not_charged").want(t, http.StatusInternalServerError, "internal_error")
			if got := p.charge(key+"-hang", "pm_timeout_not_charged"); !errors.Is(got.err, io.EOF) {
				t.Errorf("got %d %v, want EOF", got.status, got.err)
			}
		}
		if got := p.ledger("").Charges; len(got) != 0 {
			t.Errorf("charged: %v", got)
		}
		if restart {
			p.stop()
			p = setup(t, onFile(path, quick))
		}
		// A repeat is a repeat: another body under the same key is a misuse here too.
		p.charge("key-1-500", "pm_ok").want(t, http.StatusUnprocessableEntity, "idempotency_mismatch")
		p.putFaults(`{"rates":{"declined":1}}`).want(t, http.StatusOK, "") // not for a request that names a fault
		first := p.charge("key-1-500", "pm_500_not_charged")
		first.want(t, http.StatusCreated, "")
		p.charge("key-1-hang", "pm_timeout_not_charged").want(t, http.StatusCreated, "")
		if again := p.charge("key-1-500", "pm_500_not_charged"); again.body != first.body {
			t.Errorf("replayed %s", again.body)
		}
		held := p.ledger("key-1-500").Charges
		if len(held) != 1 || held[0].Fault != faultOK || held[0].PaymentMethod != "pm_500_not_charged" ||
			len(p.ledger("").Charges) != 2 {
			t.Errorf("ledger: %+v", held)
		}
		p.forget("?idempotencyKey=key-2-500", `{"forgotten":1}`)
		p.charge("key-2-500", "pm_500_not_charged").want(t, http.StatusInternalServerError, "internal_error")
	}
}

func TestNeverFailsOnEveryAttempt(t *testing.T) {
	t.Parallel()
	p := setup(t, func(c *Config) { c.HangLimit = time.Millisecond })
	for range 3 {
		if got := p.charge("key-1", "pm_never"); !errors.Is(got.err, io.EOF) {
			t.Errorf("got %d %v, want EOF", got.status, got.err)
		}
	}
	if got := p.ledger("").Charges; len(got) != 0 || p.calls("key-1").Posts != 3 {
		t.Errorf("charged: %v", got)
	}
}

func TestServerErrorAfterChargingIsReplayedAsTheCharge(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.charge("key-1", "pm_500_charged").want(t, http.StatusInternalServerError, "internal_error")
	again := p.charge("key-1", "pm_500_charged")
	again.want(t, http.StatusCreated, "")
	if e := again.entry(t); e.ID != p.ledger("key-1").Charges[0].ID ||
		again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("not a replay: %+v", e)
	}
}

func TestResetIsSeenAsAReset(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	if got := p.charge("key-1", "pm_reset_charged"); !errors.Is(got.err, syscall.ECONNRESET) {
		t.Errorf("got %d %v, want a reset", got.status, got.err)
	}
	p.charge("key-1", "pm_reset_charged").want(t, http.StatusCreated, "")
}

func TestLateChargeIsInFlightUntilItLands(t *testing.T) {
	t.Parallel()
	p := setup(t, nil) // late by an hour
	if got := p.charge("key-1", "pm_late_charge"); !errors.Is(got.err, io.EOF) {
		t.Errorf("got %d %v, want EOF", got.status, got.err)
	}
	if found := p.list("/v1/charges?idempotencyKey=key-1").Data; len(found) != 0 || len(p.ledger("").Charges) != 0 {
		t.Errorf("charged at once: %v", found)
	}
	p.charge("key-1", "pm_late_charge").want(t, http.StatusConflict, "idempotency_key_in_use")
	p.charge("key-1", "pm_ok").want(t, http.StatusUnprocessableEntity, "idempotency_mismatch")
}

func TestLateChargeLandsAndIsReplayed(t *testing.T) {
	t.Parallel()
	p := setup(t, func(c *Config) { c.LateDelay = 10 * time.Millisecond })
	if got := p.charge("key-1", "pm_late_charge"); !errors.Is(got.err, io.EOF) {
		t.Errorf("got %d %v, want EOF", got.status, got.err)
	}
	await(t, "it lands", func() bool { return len(p.ledger("key-1").Charges) == 1 })
	again := p.charge("key-1", "pm_late_charge")
	again.want(t, http.StatusCreated, "")
	p.stop() // the writer, who owns the count, has returned
	if again.header.Get("Idempotent-Replayed") != "true" || len(p.psp.ledger.promises()) != 0 ||
		p.psp.ledger.promised != 0 {
		t.Error("the promise was not kept")
	}
}

func TestLateChargesAreBounded(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.psp.ledger.promised = maxPromises - 1 // the writer, who owns it, waits for its queue
	if got := p.charge("key-1", "pm_late_charge"); !errors.Is(got.err, io.EOF) {
		t.Errorf("got %d %v, want EOF", got.status, got.err)
	}
	p.charge("key-2", "pm_late_charge").want(t, http.StatusServiceUnavailable, "too_many_late_charges")
	p.charge("key-3", "pm_ok").want(t, http.StatusCreated, "")
}

func TestWrongAmountIsChargedAndAnswered(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	first := p.charge("key-1", "pm_wrong_amount")
	first.want(t, http.StatusCreated, "")
	if got := first.entry(t).AmountCents; got != 1001 {
		t.Errorf("answered %d", got)
	}
	if got := p.ledger("key-1").Charges[0].AmountCents; got != 1001 {
		t.Errorf("charged %d", got)
	}
	if again := p.charge("key-1", "pm_wrong_amount"); again.body != first.body {
		t.Errorf("replayed %s", again.body)
	}
}

func TestDeclineIsAResult(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	first := p.charge("key-1", "pm_declined")
	first.want(t, http.StatusPaymentRequired, "")
	if e := first.entry(t); e.Status != "declined" || e.DeclineCode != "insufficient_funds" {
		t.Errorf("answered %+v", e)
	}
	again := p.charge("key-1", "pm_declined")
	if again.status != http.StatusPaymentRequired || again.body != first.body ||
		again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("replayed %d %s", again.status, again.body)
	}
	if got := p.ledger("key-1").Charges; len(got) != 1 || got[0].Status != "declined" {
		t.Errorf("ledger: %+v", got)
	}
}

func TestStuckChargeFailsEveryLookupAndHangsOnRepeats(t *testing.T) {
	t.Parallel()
	p := setup(t, func(c *Config) { c.HangLimit = 5 * time.Millisecond })
	for range 2 {
		if got := p.charge("key-1", "pm_stuck"); !errors.Is(got.err, io.EOF) {
			t.Errorf("got %d %v, want EOF", got.status, got.err)
		}
	}
	charges := p.ledger("key-1").Charges
	if len(charges) != 1 || charges[0].Status != "succeeded" {
		t.Fatalf("ledger: %+v", charges)
	}
	for _, lookup := range []string{"/v1/charges/" + charges[0].ID, "/v1/charges?idempotencyKey=key-1"} {
		p.get(lookup).want(t, http.StatusInternalServerError, "internal_error")
	}
}

func TestStuckChargeDoesNotEndScans(t *testing.T) {
	t.Parallel()
	p := setup(t, func(c *Config) { c.HangLimit = time.Millisecond })
	p.charge("key-1", "pm_ok")
	p.charge("key-2", "pm_stuck")
	p.charge("key-3", "pm_ok")
	page := p.list("/v1/charges?limit=2")
	if len(page.Data) != 2 || page.Data[1].IdempotencyKey != "key-3" || page.HasMore {
		t.Errorf("scan: %+v", page)
	}
}

func TestStuckRepeatsHoldTheirKeyToo(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	_, cancel := p.chargeInBackground("pm_stuck")
	await(t, "it is charged", func() bool { return len(p.ledger("key-1").Charges) == 1 })
	cancel()
	await(t, "the first send has ended", func() bool { return p.calls("key-1").Requests[0].Outcome != outcomePending })
	ended, cancel := p.chargeInBackground("pm_stuck")
	defer cancel()
	await(t, "the repeat hangs", func() bool {
		calls := p.calls("key-1").Requests
		return len(calls) == 2 && calls[1].Fault == "pm_stuck"
	})
	p.charge("key-1", "pm_stuck").want(t, http.StatusConflict, "idempotency_key_in_use")
	cancel()
	receive(t, ended)
}

func TestCloseEndsHeldRequestsAndRefusesNewOnes(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	ended, cancel := p.chargeInBackground("pm_timeout_not_charged")
	defer cancel()
	p.awaitFault("key-1", "pm_timeout_not_charged")
	if err := p.psp.Close(); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, ended); !errors.Is(got.err, io.EOF) {
		t.Errorf("got %d %v, want EOF", got.status, got.err)
	}
	p.charge("key-2", "pm_ok").want(t, http.StatusServiceUnavailable, "shutting_down")
	if err := p.psp.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}
