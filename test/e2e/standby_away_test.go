package e2e

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/demo/mockpsp"
	"payonce/internal/config"
	"payonce/internal/payment"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// What happens when the standby is away that every commit waits for. Nothing limits that wait, statement_timeout
// neither. When it is given up, the server shows what was committed as if it were safe, and a failover undoes it.

// setupWaiting is a world whose server can be told to wait for a standby that there is not.
func setupWaiting(t *testing.T, with ...func(*options)) (w *world, leave, back func()) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: each starts a server of its own, and waits for a standby that is away")
	}
	server := pgtest.OwnServer(t, false)
	w = setup(t, append([]func(*options){func(o *options) {
		// The durable setting is that of the database: the server's is off, for a fast test.
		o.url = pgtest.Migrate(t, server)
		o.settings = func(c *config.API) {
			c.DBStatementTimeout, c.DBLockTimeout = time.Second, 500*time.Millisecond
		}
	}}, with...)...)
	w.exec("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = on', current_database()); END $$")
	tell := func(setting string) {
		w.exec(setting)
		w.exec("SELECT pg_reload_conf()")
	}
	leave = func() {
		w.db.Reset() // ours is to be durable, too
		tell("ALTER SYSTEM SET synchronous_standby_names = 'away'")
		eventually(t, "a commit that waits", w.commitWaits)
	}
	back = func() {
		tell("ALTER SYSTEM RESET synchronous_standby_names")
		eventually(t, "an end of the waits", func() bool {
			return w.count("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == 0
		})
	}
	return w, leave, back
}

// commitWaits reports whether a commit waits for the standby. One that only takes long does not count.
func (w *world) commitWaits() bool {
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = w.db.Exec(ctx, "SELECT pg_logical_emit_message(true, 'test', '')")
	}()
	for {
		select {
		case <-ended:
			return false
		default:
		}
		if w.count("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") > 0 {
			cancel()
			<-ended
			return true
		}
	}
}

// Crash window 1, by another way: the reservation can be read, and is not where a failover would look for it.
func TestReservationThatTheStandbyDoesNotHaveIsNotSent(t *testing.T) {
	t.Parallel()
	w, leave, back := setupWaiting(t)
	leave()
	key := freshKey()
	w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, storeUnavailable)
	if k := w.keyRow(key); k.Status != "in_progress" {
		t.Fatalf("the server hides what it has committed, so this shows nothing: %+v", k)
	}
	if n := w.pspRequests("acme", key); n != 0 {
		t.Fatalf("PSP asked %d times", n)
	}
	back()
	w.do(preferring(paymentOf(key, "pm_ok"), "wait=0")).
		expect(t, http.StatusConflict, "idempotency_key_in_progress")
	other := freshKey()
	w.chargedOnce(other, other, w.pay(other, "pm_ok"))
}

// A client asks for the key that was answered 503. What it would be told now, a failover would make untrue: the key
// would be unknown, and its payment a 404.
func TestReservationThatTheStandbyDoesNotHaveIsToldToNobody(t *testing.T) {
	t.Parallel()
	w, leave, back := setupWaiting(t)
	leave()
	key := freshKey()
	w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, storeUnavailable)
	id := payment.ID(pgtest.Value[uuid.UUID](t, w.db,
		"SELECT subject FROM idempotency_keys WHERE key = $1", key))
	another := paymentOf(key, "pm_ok")
	another.body = strings.Replace(another.body, "12000", "12001", 1)
	asked := map[string]call{
		"the payment again": paymentOf(key, "pm_ok"),
		"another payment":   another,
		"the payment's id":  {method: "GET", path: payment.Payment{ID: id}.Location()},
		"the key":           {method: "GET", path: "/idempotency-keys/" + key},
		"the list":          {method: "GET", path: "/payments?limit=1"},
		"its refund":        refundOf(id.String(), freshKey(), `{}`),
		// Another server may have it: this one may be an old primary that nobody has fenced.
		"a payment that is not here": {method: "GET", path: payment.Payment{ID: payment.ID(uuid.Max)}.Location()},
		"a key that is not here":     {method: "GET", path: "/idempotency-keys/" + freshKey()},
	}
	tell := func(status string) {
		t.Helper()
		if k := w.keyRow(key); k.Status != status {
			t.Fatalf("the server hides what it has committed, so this shows nothing: %+v", k)
		}
		for name, c := range asked {
			if r := w.do(c); r.status != http.StatusServiceUnavailable {
				t.Errorf("%s, of a key that is %s: answered %d %s", name, status, r.status, r.body)
			}
		}
	}
	tell("in_progress")
	w.endLease(key)
	w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, storeUnavailable)
	tell("unknown")
	back()
	w.pay(key, "pm_ok").expect(t, http.StatusAccepted, "")
	w.do(another).expect(t, http.StatusUnprocessableEntity, "idempotency_key_reused_with_different_payload")
	for _, name := range []string{"the payment's id", "the key", "the list"} {
		w.do(asked[name]).expect(t, http.StatusOK, "")
	}
	for _, name := range []string{"a payment that is not here", "a key that is not here"} {
		if r := w.do(asked[name]); r.status != http.StatusNotFound {
			t.Errorf("%s: answered %d %s", name, r.status, r.body)
		}
	}
	if n := w.pspRequests("acme", key); n != 0 {
		t.Fatalf("PSP asked %d times", n)
	}
}

// A refund that was answered 503 holds the rest of its payment until a failover undoes it. Nobody gives up another
// refund because of it.
func TestRefundThatTheStandbyDoesNotHaveRefusesNoOther(t *testing.T) {
	t.Parallel()
	w, leave, back := setupWaiting(t)
	paid := w.pay(freshKey(), "pm_ok").text(t, "paymentId")
	leave()
	first, other := freshKey(), refundOf(paid, freshKey(), `{}`)
	w.do(refundOf(paid, first, `{}`)).expect(t, http.StatusServiceUnavailable, storeUnavailable)
	if k := w.keyRow(first); k.Status != "in_progress" {
		t.Fatalf("the server hides what it has committed, so this shows nothing: %+v", k)
	}
	w.do(other).expect(t, http.StatusServiceUnavailable, storeUnavailable)
	back()
	w.do(other).expect(t, http.StatusConflict, "refund_exceeds_payment")
}

// Charged, and written where a failover would not find it: that is no final answer yet.
func TestOutcomeThatTheStandbyDoesNotHaveIsNotFinal(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w, leave, back := setupWaiting(t, func(o *options) { o.between = gate.wrap })
	key := freshKey()
	answer := w.inBackground(paymentOf(key, "pm_ok"))
	gate.awaitArrival(t)
	leave()
	gate.open()
	(<-answer).expect(t, http.StatusAccepted, "")
	if k := w.keyRow(key); k.Status != "completed" {
		t.Fatalf("the server hides what it has committed, so this shows nothing: %+v", k)
	}
	if n := w.metric("payonce_fenced_writes_total"); n != 0 {
		t.Error("the outcome was sent again, and met itself")
	}
	back()
	w.pay(key, "pm_ok").expect(t, http.StatusCreated, "")
	if n := w.pspRequests("acme", key); n != 1 {
		t.Fatalf("PSP asked %d times", n)
	}
}

// It has shared the transaction of a reservation that waits, maybe. It has nothing to wait for itself.
func TestReplayNeedsNoStandby(t *testing.T) {
	t.Parallel()
	w, leave, back := setupWaiting(t, func(o *options) {
		settings := o.settings
		o.settings = func(c *config.API) {
			settings(c)
			c.DBCommitSlots = 1
		}
	})
	key := freshKey()
	first := w.pay(key, "pm_ok")
	leave()
	var waiting, replays []<-chan reply
	for range 4 {
		waiting = append(waiting, w.inBackground(paymentOf(freshKey(), "pm_ok")))
		replays = append(replays, w.inBackground(paymentOf(key, "pm_ok")))
	}
	for _, replay := range replays {
		(<-replay).same(t, first)
	}
	for _, answer := range waiting {
		(<-answer).expect(t, http.StatusServiceUnavailable, storeUnavailable)
	}
	back()
}

// The owner was late, and its success has completed what others had given up: written, too, where a failover would not
// find it.
func TestLateSuccessThatTheStandbyDoesNotHaveIsNotFinal(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w, leave, back := setupWaiting(t, func(o *options) { o.between = gate.wrap })
	key := freshKey()
	answer := w.inBackground(paymentOf(key, "pm_ok"))
	gate.awaitArrival(t)
	w.loseLease(key, "pm_ok")
	leave()
	gate.open()
	(<-answer).expect(t, http.StatusAccepted, "")
	if k := w.keyRow(key); k.Status != "completed" {
		t.Fatalf("the server hides what it has committed, so this shows nothing: %+v", k)
	}
	back()
	w.pay(key, "pm_ok").expect(t, http.StatusCreated, "")
}

// The PSP forgets an event that was answered 204. After a failover, nobody would have it.
func TestWebhookThatTheStandbyDoesNotHaveIsNotTaken(t *testing.T) {
	t.Parallel()
	w, leave, back := setupWaiting(t, withWebhooks)
	stored := func() int { return w.count("SELECT count(*) FROM webhook_events WHERE id = 'evt_1'") }
	deliver := func() reply {
		return w.deliver("evt_1", chargeEvent("succeeded", "ch_1", "somebody-elses-key", "invoice-7"))
	}
	leave()
	deliver().expect(t, http.StatusServiceUnavailable, storeUnavailable)
	if n := stored(); n != 1 {
		t.Fatalf("the server shows %d events, so this shows nothing", n)
	}
	// The second delivery stores nothing: it has to wait for what the first has stored.
	deliver().expect(t, http.StatusServiceUnavailable, storeUnavailable)
	back()
	deliver().expect(t, http.StatusNoContent, "")
	if n := w.count("SELECT count(*) FROM river_job WHERE kind = 'webhook'"); stored() != 1 || n != 1 {
		t.Fatalf("%d events with %d jobs", stored(), n)
	}
}

// The operator goes on to the next dead letter. After a failover, this one would be open again.
func TestDecisionThatTheStandbyDoesNotHaveIsNotDone(t *testing.T) {
	t.Parallel()
	w, leave, back := setupWaiting(t)
	d := w.openOps()
	l := contradicted(w, d)
	leave()
	d.resolve(l, "retry").expect(t, http.StatusServiceUnavailable, storeUnavailable)
	if n := w.count("SELECT count(*) FROM dead_letters WHERE status = 'resolved'"); n != 1 {
		t.Fatalf("the server shows %d resolved dead letters, so this shows nothing", n)
	}
	// Asked again, it is somebody's decision from before: that is not to be relied on either.
	d.resolve(l, "retry").expect(t, http.StatusServiceUnavailable, storeUnavailable)
	back()
	d.resolve(l, "retry").expect(t, http.StatusConflict, "dead_letter_conflict")
}

func withWebhooks(o *options) { o.webhooks = true }

// contradicted opens a dead letter that an operator can decide about.
func contradicted(w *world, d *ops) deadLetter {
	w.t.Helper()
	key := freshKey()
	w.pay(key, "pm_wrong_amount").expect(w.t, http.StatusAccepted, "")
	return d.find("psp_contradicts_request", key)
}

// Between two transactions, the pool may go over to another server: the second would acknowledge there what only the
// first has read. So whatever is read after a lost acknowledgement is acknowledged in the same round.
func TestReadAndItsAcknowledgementAreOneTransaction(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w, proxy := setupProxied(t, withWebhooks, func(o *options) {
		o.between = gate.wrap
		o.psp = func(c *mockpsp.Config) { c.WebhookDelay = never } // only those that the test sends
	})
	wantRound := func(t *testing.T, from int, want ...string) {
		t.Helper()
		var read [][]string
		for _, round := range proxy.Rounds()[from:] {
			if slices.Contains(round, "Durable") {
				read = append(read, withoutBlock(round))
			}
		}
		if n := len(read); n == 2 && slices.Equal(read[1], []string{"GetPayment", "Durable"}) {
			read = read[:1] // The owner has lost the row with the acknowledgement.
		}
		if len(read) != 1 || !slices.Equal(read[0], want) {
			t.Errorf("acknowledged were %q, want %q", read, want)
		}
	}
	t.Run("late success", func(t *testing.T) {
		w := w.in(t)
		key := freshKey()
		answer := w.inBackground(paymentOf(key, "pm_ok"))
		gate.awaitArrival(t)
		w.loseLease(key, "pm_ok")
		from := proxy.RoundTrips()
		gate.open()
		w.chargedOnce(key, key, <-answer)
		wantRound(t, from, "FindKey", "Durable")
	})
	for _, query := range []string{"ReserveKeys", "CompleteKeys"} {
		t.Run(query, func(t *testing.T) {
			w := w.in(t)
			from := proxy.RoundTrips()
			proxy.On(query, pgproxy.DropAcknowledgement)
			key := freshKey()
			w.chargedOnce(key, key, w.pay(key, "pm_ok"))
			wantRound(t, from, "FindKey", "Durable")
		})
	}
	t.Run("webhook", func(t *testing.T) {
		w := w.in(t)
		from := proxy.RoundTrips()
		proxy.On("StoreEvents", pgproxy.DropAcknowledgement)
		w.signed("evt_1", chargeEvent("succeeded", "ch_1", "somebody-elses-key", "invoice-7"))
		wantRound(t, from, "GetEvent", "Durable")
	})
	t.Run("decision", func(t *testing.T) {
		w := w.in(t)
		d := w.openOps()
		l := contradicted(w, d)
		from := proxy.RoundTrips()
		proxy.On("commit", pgproxy.DropAcknowledgement)
		d.resolve(l, "retry").expect(t, http.StatusOK, "")
		wantRound(t, from, "GetDeadLetter", "Durable")
	})
}

// A reservation that is sent again may find the row of the first try. It then writes nothing that is acknowledged.
func TestReservationInDoubtIsAcknowledgedWithWhatItFinds(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	failed := failedKeys(w, 1)
	for _, c := range []struct {
		key   string
		round []string
	}{
		{freshKey(), []string{"ReserveKeys", "BeginPayments", "Durable"}},
		{<-failed, []string{"RetakeKey", "ResumePayment", "Durable"}},
	} {
		from := proxy.RoundTrips()
		proxy.On(c.round[0], pgproxy.CutBefore)
		w.chargedOnce(c.key, c.key, w.pay(c.key, "pm_ok"))
		if !slices.ContainsFunc(proxy.Rounds()[from:],
			func(round []string) bool { return slices.Equal(withoutBlock(round), c.round) }) {
			t.Errorf("%q was not sent, but %q", c.round, proxy.Rounds()[from:])
		}
		if slices.ContainsFunc(proxy.Rounds()[from:],
			func(round []string) bool { return slices.Equal(round, []string{"Durable"}) }) {
			t.Error("an acknowledgement was asked for on its own")
		}
	}
}

// withoutBlock leaves out what may frame a pipeline.
func withoutBlock(round []string) []string {
	return slices.DeleteFunc(slices.Clone(round), func(name string) bool { return name == "BEGIN" || name == "COMMIT" })
}
