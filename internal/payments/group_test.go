package payments

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// Payments that arrive together share transactions. What each of them comes to is its own all the same.

// oneSlot has the shop's groups share one slot, so that all but one of the payments that arrive together wait for it.
func (s *shop) oneSlot() *shop {
	s.t.Helper()
	l := postgres.DefaultLimits()
	l.LockTimeout, l.Groups = l.StatementTimeout, postgres.GroupLimits{AtOnce: 1, Members: 64}
	l.Acquire = l.StatementTimeout
	return s.reaching(s.pool.Config().ConnString(), l)
}

// closed keeps transactions from writing keys until open is called.
func (s *shop) closed() (open func()) {
	s.t.Helper()
	tx := pgtest.Begin(s.t, s.pool)
	pgtest.Exec(s.t, tx, "LOCK TABLE idempotency_keys IN EXCLUSIVE MODE")
	return func() {
		if err := tx.Rollback(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// awaitQueue returns once the slot is taken and so many wait.
func (s *shop) awaitQueue(n int) {
	s.t.Helper()
	wait.Until(s.t, "a taken slot and who waits for it", func() bool {
		busy, waiting := s.service.db.CommitSlots()
		return busy == 1 && waiting == n
	})
}

func TestCrowdSharesCommitsAndEachPaymentIsItsOwn(t *testing.T) {
	t.Parallel()
	const crowd = 30
	s := setup(t).oneSlot()
	open := s.closed()
	answers := make(chan Answer, crowd)
	for i := range crowd {
		go func() {
			r := order()
			r.AmountCents = payment.AmountMinor(100 + i)
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
	completed := s.count("SELECT count(DISTINCT xmin::text) FROM idempotency_keys")
	if completed >= crowd {
		t.Fatalf("%d completions took %d transactions: nothing was shared", crowd, completed)
	}
}

// A PSP that gives one id to two charges contradicts itself. The group in which that comes out is rolled back; only one
// of the two may pay for it.
func TestOneMembersContradictionIsItsOwn(t *testing.T) {
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
	})).oneSlot()
	answers := make(chan Answer, 4)
	for i, amount := range []payment.AmountMinor{666, 1, 666, 2} {
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
		case InFlight, Mismatch, NotExecuted, Forgotten, Held:
			t.Errorf("answer is %T", a)
		}
	}
	if final != 3 || pending != 1 {
		t.Fatalf("%d are paid, %d are unknown", final, pending)
	}
	if deadLetters := s.count("SELECT count(*) FROM dead_letters WHERE kind = $1",
		string(deadletters.PSPContradicts)); deadLetters != 1 {
		t.Fatalf("%d dead letters", deadLetters)
	}
}

// A group may have failed for another member: the second try goes alone.
func TestSecondTryGoesAlone(t *testing.T) {
	t.Parallel()
	s := setup(t).oneSlot()
	k := keyed(t, "order-0000000042")
	g := s.charging("order-0000000043")
	held := pgtest.Begin(t, s.pool)
	pgtest.Exec(t, held, "SELECT pg_advisory_xact_lock(1)")
	holding := make(chan error, 1)
	group := postgres.NewGroup(s.service.db, func(string) string { return "" },
		func(ctx context.Context, members []string) ([]string, error) {
			return members, s.service.db.Pipeline(ctx, func(ctx context.Context, q postgres.Statement) error {
				_, err := q.Exec(ctx, "SELECT pg_advisory_xact_lock(1)")
				return err
			})
		})
	go func() {
		_, err := group.Do(t.Context(), "")
		holding <- err
	}()
	s.awaitQueue(0)
	reserved := gatherReserved(g.lease, g.movement)
	reserved.alone = true
	step := judge.Judge(reserved.Seen, judge.Reply{Attempt: 1,
		Outcome: gateway.Succeeded{ID: "ch_43"}})
	applied, err := s.service.Apply(t.Context(), reserved, step)
	if err != nil || !applied.Passed {
		t.Errorf("completed: %v, %v", applied.Passed, err)
	}
	try := beginning(s.reservation(payment.CreateOperation, k))
	try.Alone = true
	came, err := s.service.groups.reservations.Do(t.Context(), reservation{Try: try, movement: s.charge(k)})
	if err != nil {
		t.Error(err)
	}
	is[idempotency.Execute](t, came.decision)
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-holding; err != nil {
		t.Fatal(err)
	}
}

// There is no statement for several refunds, and none for several steps but those that complete a charge.
func TestWhatHasNoStatementForSeveralGoesAlone(t *testing.T) {
	t.Parallel()
	psp := gateway.PSPs{}.Of("")
	charge := &movement{psp: psp, object: gateway.ChargeObject, payment: &payment.Payment{}}
	refund := &movement{psp: psp, object: gateway.RefundObject, payment: &payment.Payment{}, refund: &payment.Refund{}}
	for name, c := range map[string]struct {
		member grouped
		alone  bool
	}{
		"charge":             {reservation{movement: charge}, false},
		"second try":         {reservation{movement: charge, Try: idempotency.Try{Alone: true}}, true},
		"refund":             {reservation{movement: refund}, true},
		"completes a charge": {replying(charge, gateway.Succeeded{ID: "ch_1"}), false},
		"completes a refund": {replying(refund, gateway.Succeeded{ID: "re_1"}), true},
		"releases":           {replying(charge, gateway.NotExecuted{Reason: "no connection"}), true},
		"loses":              {replying(charge, gateway.Indeterminate{Reason: "no answer"}), true},
		"has a dead letter":  {replying(charge, gateway.Indeterminate{Contradiction: true}), true},
	} {
		if c.member.alone() != c.alone {
			t.Errorf("%s: alone %t", name, !c.alone)
		}
	}
	second := replying(charge, gateway.Succeeded{ID: "ch_1"})
	if second.gathered.alone = true; !second.alone() {
		t.Error("a step that was refused before shares its transaction")
	}
}

// replying is the step of an owner whom the PSP has told this.
func replying(m *movement, o gateway.Outcome) sentStep {
	g := gatherReserved(idempotency.Lease{}, m)
	return sentStep{gathered: g, step: judge.Judge(g.Seen, judge.Reply{Outcome: o})}
}

// What the statements of a group have told before it was rolled back never was. To act on it would be to charge without
// a reservation.
func TestReservationOfAGroupThatWasRolledBackIsNotActedOn(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec("ALTER TABLE payments ADD CONSTRAINT no_thirteen CHECK (amount_minor <> 13)")
	var members []reservation
	for i, amount := range []payment.AmountMinor{12, 13} {
		k := keyed(t, fmt.Sprintf("order-%010d", i))
		m := s.charge(k)
		m.wanted.AmountCents = amount
		members = append(members, reservation{Try: beginning(s.reservation(payment.CreateOperation, k)),
			movement: m})
	}
	if out, err := s.service.sendReservations(t.Context(), members); out != nil ||
		!postgres.Violates(err, "no_thirteen") {
		t.Fatalf("%d members are told of a group that was rolled back: %v", len(out), err)
	}
}

// Each member is told of its own row: the rows come in any order, and not for every member.
func TestEachMemberIsToldOfItsOwnKey(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var members []reservation
	for i := range 5 {
		k := keyed(t, fmt.Sprintf("order-%010d", i))
		m := s.charge(k)
		m.wanted.AmountCents = payment.AmountMinor(100 + i)
		members = append(members, reservation{Try: beginning(s.reservation(payment.CreateOperation, k)),
			movement: m})
	}
	taken := members[1].Reservation
	taken.LeaseID, taken.Subject = uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	s.keyAlone(taken)
	out, err := s.service.sendReservations(t.Context(), members)
	if err != nil {
		t.Fatal(err)
	}
	var completions []sentStep
	for i, o := range out {
		if i == 1 {
			if is[idempotency.InProgress](t, o.decision).Subject != taken.Subject || o.movement != nil {
				t.Fatalf("the key that was taken: %+v", o)
			}
			continue
		}
		lease := is[idempotency.Execute](t, o.decision).Lease
		if lease.Ref != members[i].Ref || o.movement == nil ||
			o.movement.payment.Amount != payment.AmountMinor(100+i) {
			t.Fatalf("member %d is told of %v, %+v", i, lease.Ref, o.movement)
		}
		g := gatherReserved(lease, o.movement)
		paid := judge.Reply{Attempt: 1, Outcome: gateway.Succeeded{ID: fmt.Sprint("ch_", i)}}
		completions = append(completions, sentStep{gathered: g, step: judge.Judge(g.Seen, paid), payload: payload{
			applied: Applied{Response: idempotency.Response{Status: 201, Body: fmt.Append(nil, i)}}}})
	}
	s.exec("UPDATE idempotency_keys SET status = 'unknown', locked_until = NULL, unknown_since = clock_timestamp(), reconcile_after = clock_timestamp() "+
		"WHERE key = $1", completions[1].gathered.Seen.Own.Ref.Key.String())
	done, err := s.service.sendSteps(t.Context(), completions)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range done {
		if moved := i == 1; o.Passed == moved || o.row == moved {
			t.Errorf("completion %d: %+v", i, o)
		}
	}
	wrong := s.count("SELECT count(*) FROM payments AS p JOIN idempotency_keys AS k ON k.subject = p.id " +
		"WHERE k.status = 'completed' AND (p.psp_charge_id <> 'ch_' || p.amount_minor - 100 OR convert_from(k.response_body, 'UTF8') <> (p.amount_minor - 100)::text)")
	if n := s.count("SELECT count(*) FROM idempotency_keys WHERE status = 'completed'"); n != 3 || wrong != 0 {
		t.Fatalf("%d keys are completed, %d with the outcome of another", n, wrong)
	}
}

// A transaction that opens a dead letter locks the key's row. A release that waits for this lock comes too late: an
// operator has the case.
func TestReleaseThatWaitedForADeadLetterIsMoot(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	psp.onLookup(finds())
	reserved := gatherReserved(g.lease, g.movement)
	deadLetter, err := s.service.deadLetter(reserved, judge.Judge(reserved.Seen,
		judge.Record{Source: judge.SourceWebhook, Record: otherAmount.record(g)}))
	if err != nil {
		t.Fatal(err)
	}
	tx := pgtest.Begin(t, s.pool)
	if err := postgres.PipelineTx(t.Context(), tx, s.keys.LockKey(g.reservation.Ref, 1),
		deadletters.Open(*deadLetter)); err != nil {
		t.Fatal(err)
	}
	got := make(chan LookupResult, 1)
	go func() { got <- g.asks() }()
	pgtest.AwaitLock(t, s.pool)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := <-got; r != Moot {
		t.Errorf("came to %q", r)
	}
	g.wantStatus(idempotency.UnknownStatus, 1)
}

// A payment of the group may be what the database refuses. An owner has an outcome to write, so it goes on alone.
// Evidence can wait: its source brings it again.
func TestOwnerGoesOnAloneAndEvidenceComesAgain(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	full := &postgres.UnavailableError{Op: "complete", Err: errors.New("the disk is full")}
	lost := &postgres.AmbiguousError{Err: errors.New("the connection is lost")}
	var fails error
	tries := 0
	// The two kinds have a statement each, so they never share a transaction.
	group := func(ofOwners bool) *postgres.Group[sentStep, written] {
		return postgres.NewGroup(s.service.db, func(sentStep) string { return "" },
			func(ctx context.Context, members []sentStep) ([]written, error) {
				if members[0].step.ByOwner() != ofOwners {
					t.Errorf("a step to %s is in the other group", members[0].step.To())
				}
				if members[0].alone() {
					return s.service.sendSteps(ctx, members)
				}
				tries++
				return nil, fails
			})
	}
	s.service.groups.completions, s.service.groups.resolutions = group(true), group(false)

	for name, err := range map[string]error{"full": full, "lost": lost} {
		g := s.charging(key("order", name))
		fails, tries = err, 0
		is[Final](t, g.live(g.lease, g.movement, g.success()))
		if g.wantStatus(idempotency.CompletedStatus, 1); tries != 1 {
			t.Errorf("%s: the group was tried %d times", name, tries)
		}
	}

	g := s.charging("order-with-evidence").lost()
	fails, tries = full, 0
	if _, err := s.service.ApplyRecord(t.Context(), judge.Record{Source: judge.SourceWebhook,
		Record: g.record}); tries != 1 ||
		!postgres.Unavailable(err) {
		t.Errorf("%d tries: %v", tries, err)
	}
	g.wantStatus(idempotency.UnknownStatus, 1)
	fails, tries = lost, 0
	is[Completed](t, s.evidenceBy(judge.SourceWebhook, g.record))
	if g.wantStatus(idempotency.CompletedStatus, 1); tries != 1 {
		t.Errorf("after a lost acknowledgement: the group was tried %d times", tries)
	}
}
