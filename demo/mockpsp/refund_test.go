package mockpsp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRefundIsAnsweredReadBackAndInTheLedger(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	charge := p.charge("key-1", "pm_ok").entry(t)
	answer := p.refund(charge.ID, "key-1", "too small", 400) // the same key on another path is another key
	answer.want(t, http.StatusCreated, "")
	refund := answer.entry(t)
	want := entry{
		ID: refund.ID, Object: "refund", Account: "acme", IdempotencyKey: "key-1", Reference: "re_1",
		ChargeID:    charge.ID,
		AmountCents: 400, Currency: "KRW", Reason: "too small", Status: "succeeded", CreatedAt: refund.CreatedAt,
	}
	if diff := cmp.Diff(want, refund); diff != "" || !strings.HasPrefix(refund.ID, "rf_") {
		t.Errorf("refund %s (-want +got):\n%s", refund.ID, diff)
	}
	if page := p.list("/v1/refunds?idempotencyKey=key-1"); len(page.Data) != 1 || page.Data[0] != want {
		t.Errorf("listed: %+v", page.Data)
	}
	if entries := p.ledger("key-1"); len(entries.Charges) != 1 || len(entries.Refunds) != 1 ||
		entries.Refunds[0].entry != want {
		t.Errorf("ledger: %+v", entries)
	}
	if again := p.refund(charge.ID, "key-1", "too small", 400); again.body != answer.body ||
		again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("replayed: %s", again.body)
	}
	p.refund(charge.ID, "key-1", "too small", 401).want(t, http.StatusUnprocessableEntity, "idempotency_mismatch")
}

func TestConcurrentRefundsNeverExceedTheCharge(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	charge := p.charge("key-1", "pm_ok").entry(t) // 1000
	var group sync.WaitGroup
	for i := range 60 {
		group.Go(func() { p.refund(charge.ID, fmt.Sprintf("refund-%d", i), "", 90) })
	}
	group.Wait()
	var refunded int64
	declined := 0
	for _, r := range p.ledger("").Refunds {
		if r.Status == StatusSucceeded {
			refunded += r.AmountCents
		} else if declined++; r.DeclineCode != "refund_exceeds_charge" {
			t.Errorf("declined with %q", r.DeclineCode)
		}
	}
	if refunded != 990 || declined != 49 {
		t.Errorf("refunded %d of 1000, %d declined", refunded, declined)
	}
	p.refund(charge.ID, "last", "", 10).want(t, http.StatusCreated, "")
	over := p.refund(charge.ID, "over", "", 1)
	over.want(t, http.StatusPaymentRequired, "")
	if again := p.refund(charge.ID, "over", "", 1); again.body != over.body || again.status != over.status {
		t.Errorf("the decline was not replayed: %d %s", again.status, again.body)
	}
}

func TestDeclinedChargeHasNothingToRefund(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	charge := p.charge("key-1", "pm_declined").entry(t)
	answer := p.refund(charge.ID, "key-2", "", 1)
	answer.want(t, http.StatusPaymentRequired, "")
	if got := answer.entry(t).DeclineCode; got != "refund_exceeds_charge" {
		t.Errorf("declined with %q", got)
	}
}

func TestBadRefundIsRefusedWithoutATrace(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	charge := p.charge("key-1", "pm_ok").entry(t)
	for name, body := range map[string]string{
		"no amount":       `{"currency":"KRW"}`,
		"other currency":  `{"amountCents":1,"currency":"USD"}`,
		"unknown member":  `{"amountCents":1,"currency":"KRW","paymentMethod":"pm_ok"}`,
		"reason too long": `{"amountCents":1,"currency":"KRW","reason":"` + strings.Repeat("x", 501) + `"}`,
	} {
		answer := p.send(t.Context(), http.MethodPost, "/v1/charges/"+charge.ID+"/refunds", body,
			header{"Idempotency-Key": "key-1"})
		if answer.status != http.StatusBadRequest || answer.code() != "invalid_request" {
			t.Errorf("%s: %d %s", name, answer.status, answer.body)
		}
	}
	p.refund("ch_none", "key-1", "", 1).want(t, http.StatusNotFound, "charge_not_found")
	if got := p.ledger("").Refunds; len(got) != 0 {
		t.Errorf("refunds: %+v", got)
	}
}

func TestReasonPicksTheFaultOfARefund(t *testing.T) {
	t.Parallel()
	p := setup(t, func(c *Config) { c.HangLimit, c.LateDelay = time.Millisecond, time.Millisecond })
	charge := p.charge("key-1", "pm_ok").entry(t)

	declined := p.refund(charge.ID, "declined", "pm_declined", 10)
	declined.want(t, http.StatusPaymentRequired, "")
	if got := declined.entry(t).DeclineCode; got != "insufficient_funds" {
		t.Errorf("declined with %q", got)
	}
	wrong := p.refund(charge.ID, "wrong", "pm_wrong_amount", 10)
	wrong.want(t, http.StatusCreated, "")
	if got := wrong.entry(t).AmountCents; got != 9 {
		t.Errorf("refunded %d instead of 10", got)
	}
	p.refund(charge.ID, "500", "pm_500_not_charged", 10).want(t, http.StatusInternalServerError, "internal_error")
	if got := p.refund(charge.ID, "late", "pm_late_charge", 10); !errors.Is(got.err, io.EOF) {
		t.Errorf("got %d %v, want EOF", got.status, got.err)
	}
	await(t, "the late refund lands", func() bool { return len(p.ledger("late").Refunds) == 1 })
	p.refund(charge.ID, "stuck, too much", "pm_stuck", 1_000_000) // is declined, which anybody can read
	p.refund(charge.ID, "stuck, too much", "pm_stuck", 1_000_000).want(t, http.StatusPaymentRequired, "")
	if got := p.refund(charge.ID, "stuck", "pm_stuck", 10); !errors.Is(got.err, io.EOF) {
		t.Errorf("got %d %v, want EOF", got.status, got.err)
	}
	p.get("/v1/refunds?idempotencyKey=stuck").want(t, http.StatusInternalServerError, "internal_error")
	p.refund(charge.ID, "free text", "pm_but_no_token", 10).want(t, http.StatusCreated, "")
	// 9 + 10 late + 10 stuck + 10: what is left can be refunded, and not a cent more.
	p.refund(charge.ID, "too much", "", 962).want(t, http.StatusPaymentRequired, "")
	p.refund(charge.ID, "the rest", "", 961).want(t, http.StatusCreated, "")
}
