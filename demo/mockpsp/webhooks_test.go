package mockpsp

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestWebhookIsVerifiedByAnotherLibraryAndShowsTheEntryAsTheAPIDoes(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r))
	charge := p.charge("key-1", "pm_ok")
	got := r.next()
	if err := got.verify(t); err != nil {
		t.Error(err)
	}
	want := `{"type":"charge.succeeded","timestamp":"` + charge.entry(t).CreatedAt + `","data":` + charge.body + `}`
	if got.body != want || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("got  %s\nwant %s", got.body, want)
	}
	if got.id() != "evt_"+strings.TrimPrefix(charge.entry(t).ID, "ch_") {
		t.Errorf("id %q of %q", got.id(), charge.entry(t).ID)
	}
	view := p.awaitWebhooks(0, 1, 0, 0)
	if len(view.Tries) != 1 || view.Tries[0].ID != got.id() || view.Tries[0].Status != 204 || view.Tries[0].Try != 1 ||
		view.Tries[0].EntryID != charge.entry(t).ID || view.Tries[0].Type != "charge.succeeded" ||
		view.Tries[0].Disorder != "" {
		t.Errorf("tries: %+v", view.Tries)
	}
}

func TestWebhookTypeSaysWhatHappened(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r))
	charge := p.charge("key-1", "pm_wrong_amount").entry(t)
	for _, step := range []struct {
		send func()
		want string
	}{
		{func() {}, "charge.succeeded"},
		{func() { p.charge("key-2", "pm_declined") }, "charge.declined"},
		{func() { p.refund(charge.ID, "key-3", "", 1) }, "refund.succeeded"},
		{func() { p.refund(charge.ID, "key-4", "", 100_000) }, "refund.declined"},
		{func() { p.charge("key-5", "pm_500_charged") }, "charge.succeeded"},
		{func() { p.charge("key-6", "pm_reset_charged") }, "charge.succeeded"},
	} {
		step.send()
		if got := r.next(); got.event(t).Type != step.want || got.verify(t) != nil {
			t.Errorf("got %s, want %s", got.body, step.want)
		}
	}
}

func TestFailedWebhookIsTriedAgainOnScheduleUnderTheSameID(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	r := newReceiver(t, func(arrival) int {
		return []int{500, 302, 0, 404, 200}[tries.Add(1)-1]
	})
	gaps := []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 30 * time.Millisecond, 40 * time.Millisecond,
		time.Hour}
	p := setup(t, toldTo(r, func(c *Config) { c.WebhookSchedule = gaps }))
	p.charge("key-1", "pm_ok")
	first := r.next()
	before := first
	for _, gap := range gaps[:4] {
		next := r.next()
		if next.id() != first.id() || next.body != first.body || next.verify(t) != nil {
			t.Errorf("another webhook: %s %s", next.id(), next.body)
		}
		if waited := next.at.Sub(before.at); waited < gap {
			t.Errorf("tried again after %v, before the gap of %v", waited, gap)
		}
		before = next
	}
	view := p.awaitWebhooks(0, 1, 0, 0)
	if len(view.Tries) != 5 || view.Tries[0].Try != 5 || view.Tries[0].Status != 200 || view.Tries[2].Error == "" ||
		view.Tries[3].Status != 302 {
		t.Errorf("tries: %+v", view.Tries)
	}
}

func TestWebhookIsGivenUpAfterTheSchedule(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(arrival) int { return http.StatusInternalServerError })
	p := setup(t, toldTo(r))
	p.charge("key-1", "pm_ok")
	if view := p.awaitWebhooks(0, 0, 1, 0); len(view.Tries) != 3 {
		t.Errorf("tries: %+v", view.Tries)
	}
}

func TestReceiverThatIsGoneIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(arrival) int { return http.StatusGone })
	p := setup(t, toldTo(r))
	p.charge("key-1", "pm_ok")
	if view := p.awaitWebhooks(0, 0, 1, 0); len(view.Tries) != 1 {
		t.Errorf("tries: %+v", view.Tries)
	}
}

func TestReceiverThatHangsIsTriedAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	r := newReceiver(t, func(a arrival) int {
		if asked.Add(1) == 1 {
			<-a.gone
		}
		return http.StatusOK
	})
	p := setup(t, toldTo(r, func(c *Config) {
		c.WebhookTimeout = 20 * time.Millisecond
		c.WebhookSchedule = make([]time.Duration, maxWebhookGaps) // a busy machine may be slow as well
	}))
	p.charge("key-1", "pm_ok")
	tries := p.awaitWebhooks(0, 1, 0, 0).Tries
	if first := tries[len(tries)-1]; len(tries) < 2 || !strings.Contains(first.Error, "deadline") || first.Status != 0 {
		t.Errorf("tries: %+v", tries)
	}
}

// The webhook of a charge whose caller still waits would resolve what is not lost yet.
func TestWebhookWaitsForTheEndOfTheCall(t *testing.T) {
	t.Parallel()
	const delay = 30 * time.Millisecond
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r, func(c *Config) { c.HangLimit, c.WebhookDelay = time.Hour, delay }))
	ended, cancel := p.chargeInBackground("pm_timeout_charged")
	await(t, "it is charged", func() bool { return len(p.ledger("key-1").Charges) == 1 })
	p.charge("key-2", "pm_ok")
	if got := r.next().event(t).Data.IdempotencyKey; got != "key-2" {
		t.Fatalf("the webhook of %s came first", got)
	}
	p.awaitWebhooks(1, 1, 0, 0)
	gaveUp := time.Now()
	cancel()
	receive(t, ended)
	got := r.next()
	if got.event(t).Data.IdempotencyKey != "key-1" || got.at.Sub(gaveUp) < delay {
		t.Errorf("%s came %v after the client gave up", got.body, got.at.Sub(gaveUp))
	}
	p.awaitWebhooks(0, 2, 0, 0)
}

func TestHeldCallThatEndsAtTheLimitSendsItsWebhook(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r))
	p.charge("key-1", "pm_timeout_charged")
	if got := r.next().event(t).Data.IdempotencyKey; got != "key-1" {
		t.Errorf("webhook of %s", got)
	}
}

func TestSilentAndStuckAndUnchargedAndAnAccountWithoutWebhooksSendNone(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r, func(c *Config) { c.SilentAccount = "quiet" }))
	p.send(t.Context(), http.MethodPost, "/v1/charges", chargeBody("pm_ok"), header{"PSP-Account": "quiet",
		"Idempotency-Key": "key-of-the-quiet"}).want(t, http.StatusCreated, "")
	for _, f := range []fault{"pm_silent_charged", "pm_stuck", "pm_timeout_not_charged", "pm_500_not_charged"} {
		p.charge("key-"+string(f), string(f))
	}
	p.charge("key-1", "pm_ok")
	p.charge("key-1", "pm_ok") // a replay is no news
	if got := r.next().event(t).Data.IdempotencyKey; got != "key-1" {
		t.Errorf("webhook of %s", got)
	}
	if view := p.awaitWebhooks(0, 1, 0, 0); len(view.Tries) != 1 {
		t.Errorf("tries: %+v", view.Tries)
	}
}

func TestLateChargeSendsItsWebhookWhenItLands(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r, func(c *Config) { c.LateDelay = 20 * time.Millisecond }))
	p.charge("key-1", "pm_late_charge")
	got := r.next().event(t)
	if charges := p.ledger("key-1").Charges; len(charges) != 1 || charges[0].entry != got.Data {
		t.Errorf("%+v of %+v", got, charges)
	}
	p.awaitWebhooks(0, 1, 0, 0)
}

func TestWebhooksAtOnceAreBounded(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int32
	full := make(chan struct{})
	r := newReceiver(t, func(arrival) int {
		n := now.Add(1)
		defer now.Add(-1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		<-full
		return http.StatusOK
	})
	p := setup(t, toldTo(r, func(c *Config) { c.WebhookTimeout = time.Hour }))
	const charges = 3 * webhooksAtOnce
	for i := range charges {
		p.charge(fmt.Sprintf("key-%d", i), "pm_ok")
	}
	await(t, "all slots are taken", func() bool { return now.Load() == webhooksAtOnce })
	close(full)
	p.awaitWebhooks(0, charges, 0, 0)
	if got := most.Load(); got != webhooksAtOnce {
		t.Errorf("%d at once", got)
	}
}

func TestCloseCutsWebhooksShort(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(a arrival) int {
		<-a.gone
		return http.StatusOK
	})
	p := setup(t, toldTo(r, func(c *Config) { c.WebhookTimeout = time.Hour }))
	p.charge("key-1", "pm_ok")
	r.next()
	closed := make(chan error, 1)
	go func() { closed <- p.psp.Close() }()
	if err := receive(t, closed); err != nil {
		t.Error(err)
	}
}

func TestWithoutAURLNothingIsSent(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	id := p.charge("key-1", "pm_ok").entry(t).ID
	p.putFaults(`{"webhooks":{"drop":1,"forge":1}}`).want(t, http.StatusOK, "")
	p.charge("key-2", "pm_ok").want(t, http.StatusCreated, "")
	if view := p.webhooks(); view.URL != "" || view.Pending+view.Delivered+view.GivenUp+view.Dropped+
		len(view.Tries) != 0 {
		t.Errorf("webhooks: %+v", view)
	}
	p.send(t.Context(), http.MethodPost, "/_webhooks/"+id, "", nil).want(t, http.StatusConflict, "webhooks_off")
}

func TestTriesAreBoundedNewestFirst(t *testing.T) {
	t.Parallel()
	var l webhookSender
	for i := range maxTries + 7 {
		l.remember(try{Try: i})
	}
	tries := l.newestFirst()
	if len(tries) != maxTries || tries[0].Try != maxTries+6 || tries[maxTries-1].Try != 7 {
		t.Errorf("%d tries, %+v to %+v", len(tries), tries[0], tries[len(tries)-1])
	}
}
