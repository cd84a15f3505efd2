package operator

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

func TestResolvedDeadLetterHasItsAuditRowAndItsLineInTheTimeline(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.lost("pm_ok")
	lines := len(o.show(l.ID).Timeline)
	entry := o.done(decision(l, deadletters.Executed))
	if r := entry.Resolution; r == nil || r.Action != deadletters.Executed || r.Actor != "ann" ||
		r.Reason != "seen to it" || entry.Version != 2 {
		t.Fatalf("entry is %+v, resolution %+v", entry, r)
	}
	c := o.show(l.ID)
	want := []deadletters.AuditEntry{{Version: 1, Actor: "ann", Action: deadletters.Executed, Reason: "seen to it",
		Outcome: "done"}}
	if diff := cmp.Diff(want, c.AuditTrail, cmpopts.IgnoreFields(deadletters.AuditEntry{}, "At")); diff != "" {
		t.Error(diff)
	}
	if len(c.Timeline) != lines+1 {
		t.Fatalf("timeline is %+v", c.Timeline)
	}
	last := c.Timeline[lines]
	if last.Actor != "operator" || last.From != idempotency.UnknownStatus || last.To != idempotency.CompletedStatus {
		t.Errorf("last line is %+v", last)
	}
}

func TestOfTwoOperatorsOneWinsAndTheOtherIsTold(t *testing.T) {
	if testing.Short() {
		t.Skip("long: two operators, many times")
	}
	t.Parallel()
	for range 5 {
		o := setup(t)
		l := o.lost("pm_ok")
		results := make(chan Outcome, 4)
		var all sync.WaitGroup
		for i, action := range []deadletters.Action{deadletters.Executed, deadletters.Retry, deadletters.Executed,
			deadletters.Retry} {
			all.Go(func() {
				d := decision(l, action)
				d.Actor = string(rune('a' + i))
				result, err := o.ops.Resolve(t.Context(), d)
				if err != nil {
					t.Error(err)
				}
				results <- result
			})
		}
		all.Wait()
		close(results)
		won := 0
		for result := range results {
			switch no := result.Refused; {
			case no == nil:
				won++
			case no.Ground != judge.Conflict:
				t.Errorf("loser was told %+v", no)
			}
		}
		c := o.show(l.ID)
		done := 0
		for _, d := range c.AuditTrail {
			if d.Outcome == "done" {
				done++
			}
		}
		want := idempotency.UnknownStatus
		if c.Resolution.Action == deadletters.Executed {
			want = idempotency.CompletedStatus
		}
		if won != 1 || done != 1 || len(c.AuditTrail) != 4 || c.Key != want {
			t.Fatalf("%d have won, trail %+v, key %s after %s", won, c.AuditTrail, c.Key, c.Resolution.Action)
		}
	}
}

func TestDeadLetterThatSomebodyElseHasResolvedIsAConflict(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.put(alone(deadletters.MissingAtPSP, `{}`))
	o.done(decision(l, deadletters.Dismiss))
	for _, version := range []int32{1, 2} {
		again := decision(l, deadletters.Dismiss)
		again.Version = version
		if detail := o.refused(again, judge.Conflict); !strings.Contains(detail,
			"ann has resolved this dead letter before, as dismiss") {
			t.Errorf("detail is %q", detail)
		}
	}
}

func TestDeadLetterOfAnotherVersionIsAConflict(t *testing.T) {
	t.Parallel()
	o := setup(t)
	d := decision(o.put(alone(deadletters.MissingAtPSP, `{}`)), deadletters.Dismiss)
	d.Version = 2
	o.refused(d, judge.Conflict)
}

func TestDeadLetterThatIsNotThereIsNotResolved(t *testing.T) {
	t.Parallel()
	o := setup(t)
	_, err := o.ops.Resolve(t.Context(), decision(deadletters.DeadLetter{ID: uuid.Must(uuid.NewV7())},
		deadletters.Dismiss))
	if !errors.Is(err, deadletters.ErrNoDeadLetter) {
		t.Fatal(err)
	}
	if _, err := o.ops.Show(t.Context(), uuid.Must(uuid.NewV7())); !errors.Is(err, deadletters.ErrNoDeadLetter) {
		t.Fatal(err)
	}
}

func TestActionThatThereIsNotIsRefused(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.refused(decision(o.put(alone(deadletters.MissingAtPSP, `{}`)), "forget"), judge.NotApplicable)
}

// An open key that nobody has a dead letter about any more would be forgotten.
func TestDeadLetterOfAnOpenKeyIsNotDismissed(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.lost("pm_ok")
	o.refused(decision(l, deadletters.Dismiss), judge.NeedsDecision)

	// In progress: an earlier attempt has left the dead letter, and a later one is under way.
	o.done(decision(l, deadletters.Retry))
	o.exec("UPDATE idempotency_keys SET status = 'failed_retryable', reconcile_after = NULL, unknown_since = NULL, finished_at = clock_timestamp()")
	o.exec(`UPDATE idempotency_keys SET status = 'in_progress', attempt = 2, finished_at = NULL, locked_until = clock_timestamp() + interval '1 hour'`)
	l = o.put(o.about(deadletters.PSPContradicts, record))
	o.refused(decision(l, deadletters.Dismiss), judge.NeedsDecision)
	h := &hooks{}
	o.with(h.use).refused(decision(l, deadletters.Retry), judge.NotApplicable)
}

// A request is just reserving the key. The dismissal waits for this transaction, and then judges the key's new status.
func TestDismissalWaitsForARequestThatIsMovingTheKey(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.done(decision(o.lost("pm_500_not_charged"), deadletters.Retry))
	o.exec("UPDATE idempotency_keys SET status = 'failed_retryable', reconcile_after = NULL, unknown_since = NULL, finished_at = clock_timestamp()")
	l := o.put(o.about(deadletters.PSPContradicts, `{}`))
	tx := pgtest.Begin(t, o.pool)
	pgtest.Exec(t, tx, `UPDATE idempotency_keys SET status = 'in_progress', attempt = 2, finished_at = NULL,
		locked_until = clock_timestamp() + interval '1 hour'`)
	result := make(chan Outcome, 1)
	go func() {
		r, err := o.ops.Resolve(t.Context(), decision(l, deadletters.Dismiss))
		if err != nil {
			t.Error(err)
		}
		result <- r
	}()
	pgtest.AwaitLock(t, o.pool)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if no := (<-result).Refused; no == nil || no.Ground != judge.NeedsDecision {
		t.Fatalf("result is %+v", no)
	}
}

func TestDeadLetterThatHoldsNothingIsDismissed(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.pay("pm_ok")
	before := o.show(o.put(o.about(deadletters.LookupsExhausted, `{}`)).ID)
	l := o.put(o.about(deadletters.ContradictsCompleted, `{}`))
	o.done(decision(l, deadletters.Dismiss))
	after := o.show(l.ID)
	if after.Key != idempotency.CompletedStatus || len(after.Timeline) != len(before.Timeline) ||
		after.Status() != deadletters.ResolvedStatus {
		t.Fatalf("case is %+v", after)
	}

	// Its key stands for something else by now.
	later := o.about(deadletters.LateAfterExpiry, `{}`)
	later.About.Generation = 7
	o.done(decision(o.put(later), deadletters.Dismiss))
}

// The winner has completed the key; that is not what keeps the loser from deciding.
func TestLoserIsToldThatHeIsOne(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.lost("pm_ok")
	var begun atomic.Bool
	o.asked = func() {
		if begun.CompareAndSwap(false, true) { // the winner asks the PSP, too
			first := decision(l, deadletters.Executed)
			first.Actor = "bob"
			o.done(first)
		}
	}
	if detail := o.refusedOn(decision(l, deadletters.NotExecuted), judge.Conflict); !strings.Contains(detail,
		"bob has resolved") {
		t.Errorf("detail is %q", detail)
	}
}

// Who hangs up has decided all the same.
func TestOperatorWhoHangsUpHasDecided(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.lost("pm_ok")
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	result, err := o.ops.Resolve(gone, decision(l, deadletters.Executed))
	if result.Did != WasDone || err != nil {
		t.Fatalf("%+v, %v", result, err)
	}
}

func TestDecisionWhoseAcknowledgementIsLostIsResolvedByReading(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		commit pgproxy.Action
		during func(o *fixture, mine Decision) // after the commit, before it is asked for
		check  func(got Outcome, err error) bool
	}{
		"it has happened": {
			commit: pgproxy.DropAcknowledgement,
			check: func(got Outcome, err error) bool {
				return got.Did == WasDone && err == nil && got.Version == 2
			},
		},
		"it has not happened: the version makes it harmless to ask again": {
			commit: pgproxy.CutBefore,
			check:  func(_ Outcome, err error) bool { return postgres.Unavailable(err) && !postgres.RolledBack(err) },
		},
		"somebody else's has": {
			commit: pgproxy.CutBefore,
			during: func(o *fixture, mine Decision) {
				mine.Actor = "bob"
				o.done(mine)
			},
			check: func(got Outcome, err error) bool {
				no := got.Refused
				return no != nil && err == nil && no.Ground == judge.Conflict &&
					strings.Contains(no.Detail, "bob has resolved")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			mine := decision(o.put(alone(deadletters.MissingAtPSP, `{}`)), deadletters.Dismiss)
			far, proxy := o.behindProxy()
			lost := proxy.On("commit", row.commit)
			reading := proxy.On("Durable", pgproxy.HoldBefore)
			var got Outcome
			var err error
			over := make(chan struct{})
			go func() {
				defer close(over)
				got, err = far.Resolve(t.Context(), mine)
			}()
			lost.Await(t)
			reading.Await(t)
			if row.during != nil {
				row.during(o, mine)
			}
			reading.Release()
			<-over
			if !row.check(got, err) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestDecisionIsToldFromAnother(t *testing.T) {
	t.Parallel()
	o := setup(t)
	mine := decision(o.put(alone(deadletters.MissingAtPSP, `{}`)), deadletters.Dismiss)
	resolved := o.done(mine).DeadLetter
	if !mine.is(resolved) {
		t.Fatalf("%+v is not %+v", mine, resolved)
	}
	for name, change := range map[string]func(*Decision){
		"another actor":   func(d *Decision) { d.Actor = "bob" },
		"another reason":  func(d *Decision) { d.Reason = "because" },
		"another action":  func(d *Decision) { d.Action = deadletters.Retry },
		"another version": func(d *Decision) { d.Version = 3 },
	} {
		d := mine
		change(&d)
		if d.is(resolved) {
			t.Errorf("%s: the same", name)
		}
	}
}

// Otherwise an operator would be shown the status of another merchant's key, and would decide about that key.
func TestDeadLetterFindsAndLocksItsOwnKeyAlone(t *testing.T) {
	t.Parallel()
	o := setup(t)
	ref, subject := idempotency.StoredRef("acme", payment.CreateOperation, clientKey), uuid.Must(uuid.NewV7())
	o.keyAsIs(ref, idempotency.UnknownStatus, subject)
	check := func(name string, l deadletters.DeadLetter, want idempotency.Status) {
		if got := o.show(o.put(l).ID).Key; got != want {
			t.Errorf("%s: the key is shown as %q", name, got)
		}
		var locked idempotency.Status
		if err := o.db.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) (err error) {
			locked, err = o.ops.lockKeyTx(ctx, tx, l)
			return err
		}); err != nil || locked != want {
			t.Errorf("%s: the locked key is %q, %v", name, locked, err)
		}
	}
	check("its own", aboutKey(ref, &subject), idempotency.UnknownStatus)
	check("its own, no payment named", aboutKey(ref, nil), idempotency.UnknownStatus)
	for name, l := range aboutOthers(ref, subject) {
		check("another "+name, l, "")
	}
}
