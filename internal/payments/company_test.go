package payments

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// Payments that come together share transactions. What each of them comes to is its own all the same.

// inCompany has the shop's payments share one lane, so that all but one of those that come together wait for it.
func (s *shop) inCompany() *shop {
	s.t.Helper()
	l := postgres.DefaultLimits()
	l.LockTimeout, l.Sharing = l.StatementTimeout, postgres.Sharing{Lanes: 1, Parties: 64}
	l.Acquire = l.StatementTimeout // together well within an execution's deadline: who is in a hurry goes alone
	db, err := postgres.Open(s.t.Context(), s.pool.Config().ConnString(), l)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(db.Close)
	s.keys = idempotency.New(db, terms(), time.Now)
	s.service.db, s.service.keys = db, s.keys
	return s
}

// closed keeps transactions from writing keys until open is called.
func (s *shop) closed() (open func()) {
	s.t.Helper()
	tx, err := s.pool.Begin(s.t.Context())
	if err == nil {
		_, err = tx.Exec(s.t.Context(), "LOCK TABLE idempotency_keys IN EXCLUSIVE MODE")
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return func() {
		if err := tx.Rollback(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// awaitQueue returns once the lane is taken and so many wait.
func (s *shop) awaitQueue(n int) {
	s.t.Helper()
	for began := time.Now(); ; runtime.Gosched() {
		if busy, waiting := s.service.db.Lanes(); busy == 1 && waiting == n {
			return
		}
		if time.Since(began) > patience {
			s.t.Fatalf("nobody waits")
		}
	}
}

func TestCrowdSharesCommitsAndEachPaymentIsItsOwn(t *testing.T) {
	t.Parallel()
	const crowd = 30
	s := setup(t).inCompany()
	open := s.closed()
	answers := make(chan Answer, crowd)
	for i := range crowd {
		go func() {
			r := order()
			r.AmountCents = AmountMinor(100 + i)
			answer, err := s.service.Create(t.Context(), keyed(t, fmt.Sprintf("order-%010d", i)), r)
			if err != nil {
				t.Error(err)
			}
			answers <- answer
		}()
	}
	s.awaitQueue(crowd - 1)
	open()
	for range crowd {
		if f := is[Final](t, <-answers); f.Response.Status != http.StatusCreated || f.Replayed {
			t.Fatalf("answer is %+v", f)
		}
	}
	if n := s.count("SELECT count(*) FROM payments WHERE status = 'succeeded' AND amount_minor = 100 + right(idempotency_key, 10)::int"); n != crowd {
		t.Fatalf("%d of %d payments are what was asked for", n, crowd)
	}
	if n := s.count("SELECT count(DISTINCT psp_charge_id) FROM payments"); n != crowd {
		t.Fatalf("%d charges for %d payments", n, crowd)
	}
	if n := s.count("SELECT count(DISTINCT p.created_at) FROM payments AS p"); n != crowd {
		t.Fatalf("%d times of creation", n)
	}
	begun := s.count("SELECT count(DISTINCT xmin::text) FROM idempotency_keys")
	if begun >= crowd {
		t.Fatalf("%d completions took %d transactions: nothing was shared", crowd, begun)
	}
}

// A PSP that gives one id to two charges contradicts itself. The bundle in which that comes out is rolled back; only one of the two may pay for it.
func TestOnePartysContradictionIsNotItsCompanys(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	arrived, answer := make(chan struct{}, 4), make(chan struct{})
	s := setupOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked map[string]any
		if err := json.UnmarshalRead(r.Body, &asked); err != nil {
			t.Error(err)
		}
		id := fmt.Sprintf("ch_%d", n.Add(1))
		if asked["amountCents"] == 666.0 {
			id = "ch_twin"
		}
		arrived <- struct{}{}
		<-answer
		asked["id"], asked["status"], asked["account"] = id, "succeeded", r.Header.Get("PSP-Account")
		asked["idempotencyKey"] = r.Header.Get("Idempotency-Key")
		w.WriteHeader(http.StatusCreated)
		if err := json.MarshalWrite(w, asked); err != nil {
			t.Error(err)
		}
	})).inCompany()
	answers := make(chan Answer, 4)
	for i, amount := range []AmountMinor{666, 1, 666, 2} {
		go func() {
			r := order()
			r.AmountCents = amount
			a, err := s.service.Create(t.Context(), keyed(t, fmt.Sprintf("order-%010d", i)), r)
			if err != nil {
				t.Error(err)
			}
			answers <- a
		}()
	}
	for range 4 {
		<-arrived
	}
	open := s.closed()
	close(answer)
	s.awaitQueue(3)
	open()
	final, pending := 0, 0
	for range 4 {
		switch a := (<-answers).(type) {
		case Final:
			final++
		case Pending:
			pending++
		case InFlight, Mismatch, NotExecuted, Forgotten:
			t.Errorf("answer is %T", a)
		}
	}
	if final != 3 || pending != 1 {
		t.Fatalf("%d are paid, %d are unknown", final, pending)
	}
	if letters := s.count("SELECT count(*) FROM dead_letters WHERE kind = $1", string(deadletters.PSPContradicts)); letters != 1 {
		t.Fatalf("%d letters", letters)
	}
}

// again queues something once that a bundle's rollback undoes, and nothing from then on.
func again(first func(*pgx.Batch)) func(*pgx.Batch) {
	tries := 0
	return func(b *pgx.Batch) {
		if tries++; tries == 1 {
			first(b)
			b.Queue("SELECT 1 / 0")
		}
	}
}

// spoiling is a movement that is told of each try to write its row.
type spoiling struct {
	movement

	tries int
	try   func(n int, b *pgx.Batch)
}

func (m *spoiling) queueSettle(b *pgx.Batch, e idempotency.Execution, v verdict, to idempotency.Status, rows *int64) {
	m.tries++
	m.movement.queueSettle(b, e, v, to, rows)
	m.try(m.tries, b)
}

// What a rolled-back bundle has told a party never was. To act on it would be to charge without a reservation.
func TestWhatARolledBackBundleToldIsForgotten(t *testing.T) {
	t.Parallel()
	s := setup(t).inCompany()
	k := keyed(t, "order-0000000042")
	c, m := s.claim(CreateOperation, k), s.charge(k)
	lease := s.keyAlone(s.claim(CreateOperation, keyed(t, "order-0000000043")))

	open := s.closed()
	go func() { _, _ = s.service.Create(t.Context(), keyed(t, "order-0000000001"), order()) }()
	s.awaitQueue(0)
	decided, won := make(chan idempotency.Decision, 1), make(chan bool, 1)
	go func() {
		var reserve func(*pgx.Batch)
		d, _, err := s.service.commitClaim(t.Context(), c, m, false, false, func(b *pgx.Batch, out *idempotency.Decision) {
			if reserve == nil {
				reserve = again(func(b *pgx.Batch) { s.keys.QueueReserve(b, c, out) })
			}
			reserve(b)
		})
		if err != nil {
			t.Error(err)
		}
		decided <- d
	}()
	go func() {
		// The movement makes the first try fail that it shares with others, and lets the second one find that the key has moved.
		g := gatherReserved(lease, &spoiling{movement: &charge{service: s.service, payment: new(aPayment())}, try: func(n int, b *pgx.Batch) {
			if n == 1 {
				b.Queue("SELECT 1 / 0")
				return
			}
			_, err := s.pool.Exec(t.Context(), "UPDATE idempotency_keys SET status = 'unknown', locked_until = NULL, unknown_since = clock_timestamp(), "+
				"reconcile_after = clock_timestamp() WHERE key = $1", lease.Ref().Key.String())
			if err != nil {
				t.Error(err)
			}
		}})
		applied, err := s.service.apply(t.Context(), g, judge(Patience{}, g.seen, Reply{Attempt: 1, Outcome: gateway.NotExecuted{}}), false)
		if err != nil {
			t.Error(err)
		}
		won <- applied.Through
	}()
	s.awaitQueue(2)
	open()
	if d := <-decided; d != nil {
		t.Errorf("a reservation that was rolled back is acted on: %T", d)
	}
	if <-won {
		t.Error("a completion that was rolled back is answered")
	}
}

// A bundle may have failed for its company: the second try goes without.
func TestSecondTryGoesAlone(t *testing.T) {
	t.Parallel()
	s := setup(t).inCompany()
	lease := s.keyAlone(s.claim(CreateOperation, keyed(t, "order-0000000043")))
	k := keyed(t, "order-0000000042")
	holding := make(chan struct{})
	held, err := s.pool.Begin(t.Context())
	if err == nil {
		_, err = held.Exec(t.Context(), "SELECT pg_advisory_xact_lock(1)")
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = s.service.db.SendShared(t.Context(), "", func(b *pgx.Batch) { b.Queue("SELECT pg_advisory_xact_lock(1)") })
		close(holding)
	}()
	s.awaitQueue(0)
	var released idempotency.Passage
	err = s.service.commit(t.Context(), lease.Ref(), true, func(b *pgx.Batch) { s.keys.QueueRelease(b, lease, "of the test", &released) })
	if err != nil || !released.Through {
		t.Errorf("released: %v, %v", released.Through, err)
	}
	c := s.claim(CreateOperation, k)
	d, _, err := s.service.commitClaim(t.Context(), c, s.charge(k), true, false, func(b *pgx.Batch, out *idempotency.Decision) { s.keys.QueueReserve(b, c, out) })
	if err != nil {
		t.Error(err)
	}
	is[idempotency.Execute](t, d)
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-holding
}

// Whoever opens a letter holds the key meanwhile. A release that waits for it has been overtaken by an operator's case.
func TestReleaseThatWaitedForALetterIsMoot(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	psp.onLookup(finds())
	reserved := gatherReserved(g.lease, g.movement)
	letter, err := s.service.letter(reserved, *reserved.seen.byKey(deadletters.PSPContradicts, "of the test", nil))
	if err != nil {
		t.Fatal(err)
	}
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := &pgx.Batch{}
	s.keys.QueueHold(b, g.claim.Ref)
	deadletters.QueueOpenNew(b, letter, new(bool))
	if err := postgres.SendTx(t.Context(), tx, b); err != nil {
		t.Fatal(err)
	}
	got := make(chan Resolution, 1)
	go func() { got <- g.asks() }()
	for s.count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 0 {
		runtime.Gosched()
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := <-got; r != Moot {
		t.Errorf("came to %q", r)
	}
	g.wantStatus(idempotency.UnknownStatus, 1)
}

func TestMovementThatIsQueuedAgainForgetsItsRow(t *testing.T) {
	t.Parallel()
	for what, queue := range map[string]func(movement, idempotency.Claim){
		"begin":  func(m movement, c idempotency.Claim) { m.queueBegin(&pgx.Batch{}, c) },
		"resume": func(m movement, c idempotency.Claim) { m.queueResume(&pgx.Batch{}, c, c.Subject) },
	} {
		s := setup(t)
		for table, m := range s.movements(keyed(t, "order-0000000042")) {
			c := s.claim(CreateOperation, keyed(t, what+"-of-"+table+"-0042"))
			s.keyAlone(c)
			s.mustSend(func(b *pgx.Batch) { m.queueBegin(b, c) })
			if m.resource() == nil {
				t.Fatalf("%s: not begun", table)
			}
			if queue(m, c); m.resource() != nil {
				t.Errorf("%s, %s: a row is in hand that may have been rolled back", table, what)
			}
		}
	}
}
