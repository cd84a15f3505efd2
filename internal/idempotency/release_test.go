package idempotency

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/postgres"
)

// sight is the test's key as a resolver sees it now.
func (b *bench) sight() Sight {
	b.t.Helper()
	s, err := b.keys.Look(b.t.Context(), b.ref)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func nothing() Note { return Note{Actor: "lookup", Reason: "the PSP has nothing"} }

func (b *bench) releaseUnknown(s Sight) (out Passage) {
	b.t.Helper()
	b.send(b.keys.ReleaseUnknown(s.Execution, s.Asked, false, nothing(), &out))
	return out
}

func (b *bench) releaseByOperator(s Sight) (out Passage) {
	b.t.Helper()
	b.send(b.keys.ReleaseUnknown(s.Execution, s.Asked, true, nothing(), &out))
	return out
}

// loseLongAgo lets the settle window of the test's key pass, and the PSP still remember it.
func (b *bench) loseLongAgo() {
	b.t.Helper()
	b.unguarded("UPDATE idempotency_keys SET unknown_since = unknown_since - interval '1 hour', reserved_at = reserved_at - interval '1 hour'")
}

// dates are the two times of a key's row that its release depends on.
func (b *bench) dates() (lost, reserved time.Time) {
	b.t.Helper()
	err := b.pool.QueryRow(b.t.Context(), "SELECT unknown_since, reserved_at FROM idempotency_keys").Scan(&lost, &reserved)
	if err != nil {
		b.t.Fatal(err)
	}
	return lost, reserved
}

func TestNotFoundAfterTheSettleWindowReleasesTheKey(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(*bench, Sight) Passage{
		"lookup": (*bench).releaseUnknown, "operator": (*bench).releaseByOperator,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.putInto(UnknownStatus)
			b.loseLongAgo()
			passed := release(b, b.sight())
			if r := b.row(); !passed.Through || !passed.Expires.Equal(r.Expires) || r.Finished == nil {
				t.Fatalf("passage is %+v, row %+v", passed, r)
			}
			b.wantStatus(FailedRetryableStatus, 1, 1)
			b.wantTimeline("owner in_progress>unknown 1/1 no answer", "lookup unknown>failed_retryable 1/1 the PSP has nothing")
			c := b.claim()
			is[Execute](t, b.retake(c, is[Retake](t, b.reserve(c))))
		})
	}
}

// Before the window's end a send could still be on its way. What counts is when the PSP was asked, and not when its answer
// is written: here the window is over by the time of writing.
func TestNotFoundIsNoProofWhenAskedWithinTheSettleWindow(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(*bench, Sight) Passage{
		"lookup": (*bench).releaseUnknown, "operator": (*bench).releaseByOperator,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.putInto(UnknownStatus)
			b.loseLongAgo()
			lost, _ := b.dates()
			s := b.sight()
			before, events := b.row(), len(b.events())
			end := lost.Add(testTerms().SettleWindow)
			for _, asked := range []time.Time{lost, end.Add(-time.Second), end.Add(-time.Microsecond)} {
				s.Asked = asked
				b.unchanged(end.Sub(asked).String()+" before the end", release(b, s), before, events)
			}
			s.Asked = end
			if !release(b, s).Through {
				t.Fatal("the window's end is not its end")
			}
		})
	}
}

// That a job has failed says nothing about the key, and another job has found out. Pruned is it not, before somebody has seen the letter.
func TestLetterOfAJobDoesNotHoldTheReleaseAndHoldsTheExpiry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(UnknownStatus)
	b.loseLongAgo()
	job := b.aLetter(1)
	job.Kind = deadletters.JobDiscarded
	b.send(b.opening(job)...)
	s := b.sight()
	if s.DeadLettered || !b.releaseUnknown(s).Through {
		t.Fatalf("held: %+v", s)
	}
	b.unguarded("UPDATE idempotency_keys SET expires_at = clock_timestamp() - interval '1 second'")
	if n, err := b.keys.Expire(t.Context(), 10); err != nil || n != 0 {
		t.Fatalf("%d keys expired, %v", n, err)
	}
	err := b.tryRolledBack("UPDATE idempotency_keys SET status = 'expired', delete_after = clock_timestamp()")
	if got := refusedBy(t, err); got != "idempotency_keys_dead_lettered_stay" {
		t.Fatalf("refused by %q", got)
	}
}

// Beyond its memory the PSP finds nothing of what it has executed. Then it takes an operator's word.
func TestNotFoundIsNoProofBeyondThePSPsMemory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		late       time.Duration
		byOperator bool
		through    bool
	}{
		{-time.Microsecond, false, true},
		{0, false, false},
		{time.Hour, false, false},
		{0, true, true},
		{time.Hour, true, true},
	} {
		b.again().putInto(UnknownStatus)
		b.unguarded("UPDATE idempotency_keys SET unknown_since = unknown_since - interval '30 hours', reserved_at = reserved_at - interval '30 hours'")
		_, reserved := b.dates()
		s := b.sight()
		s.Asked = reserved.Add(testTerms().PSPMemory + c.late)
		release := b.releaseUnknown
		if c.byOperator {
			release = b.releaseByOperator
		}
		before, events := b.row(), len(b.events())
		if passed := release(s); !c.through {
			b.unchanged(c.late.String(), passed, before, events)
		} else if !passed.Through {
			t.Errorf("asked %s after the memory's end, by operator %t: not released", c.late, c.byOperator)
		}
	}
}

// The query finds no row, so the resolver goes on as it does with any key that has moved. A script that
// does not ask meets the trigger.
func TestKeyWithAnOpenDeadLetterIsNotReleased(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(UnknownStatus)
	b.loseLongAgo()
	b.letter(2) // says nothing about generation 1
	b.letter(1)
	before, events := b.row(), len(b.events())
	b.unchanged("lookup", b.releaseUnknown(b.sight()), before, events)
	b.unchanged("operator", b.releaseByOperator(b.sight()), before, events)
	if got := refusedBy(t, b.tryRolledBack(move(nil), string(FailedRetryableStatus))); got != "idempotency_keys_dead_lettered_stay" {
		t.Fatalf("a script: refused by %q", got)
	}
	// Evidence that it was executed passes all the same.
	if got := refusedBy(t, b.tryRolledBack(move(nil), string(CompletedStatus))); got != "" {
		t.Fatalf("completion: refused by %q", got)
	}

	b.closeLetters()
	b.letter(2)
	if !b.releaseUnknown(b.sight()).Through {
		t.Fatal("a key was not released whose letter is closed")
	}
}

func TestReleaseOfAnotherExecutionMovesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(UnknownStatus)
	b.loseLongAgo()
	s := b.sight()
	before, events := b.row(), len(b.events())
	for what, e := range elsewhere(t, s.Execution) {
		other := s
		other.Execution = e
		b.unchanged(what, b.releaseUnknown(other), before, events)
		b.unchanged(what+", by an operator", b.releaseByOperator(other), before, events)
	}
}

// An owner may still be sending, whatever the PSP has not found yet.
func TestNotFoundReleasesNoKeyThatIsNotUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, status := range statuses() {
		if status == UnknownStatus {
			continue
		}
		b.again().putInto(status)
		// Behind the guard's back: only the status is in the way.
		b.unguarded("UPDATE idempotency_keys SET unknown_since = reserved_at - interval '1 hour', reserved_at = reserved_at - interval '1 hour'")
		before, events := b.row(), len(b.events())
		b.unchanged(string(status), b.releaseUnknown(b.sight()), before, events)
		b.unchanged(string(status)+", by an operator", b.releaseByOperator(b.sight()), before, events)
	}
}

// The late owner's success and the lookup that found nothing: whoever comes first decides, and the other one is told.
func TestLateSuccessAndReleaseDoNotBothPass(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()
	for name, settlesFirst := range map[string]bool{"success first": true, "release first": false} {
		lease := b.again().putInto(UnknownStatus)
		b.loseLongAgo()
		s := b.sight()
		var settled, released Passage
		settle := b.resolving(lease.Execution(), UnknownStatus, false, found(), answer("late"), &settled)
		release := b.keys.ReleaseUnknown(s.Execution, s.Asked, false, nothing(), &released)
		first, second := release, settle
		if settlesFirst {
			first, second = settle, release
		}
		tx := b.open(ctx, first)
		b.commits(ctx, tx, b.inBackground(ctx, second))
		if settled.Through != settlesFirst || released.Through == settlesFirst {
			t.Fatalf("%s: settled is %t, released %t", name, settled.Through, released.Through)
		}
	}
}

// A dead letter holds the key from its owner, too: what the owner can prove is about this attempt, and the dead letter may be about an earlier one.
func TestOwnerReleasesNoKeyThatADeadLetterHolds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease := b.own()
	b.letter(1)
	before, events := b.row(), len(b.events())
	if b.release(lease) {
		t.Fatal("released")
	}
	b.unchanged("held", Passage{}, before, events)
	if got := refusedBy(t, b.tryRolledBack(move(nil), string(FailedRetryableStatus))); got != "idempotency_keys_dead_lettered_stay" {
		t.Fatalf("the database refuses it by %q", got)
	}
	b.closeLetters()
	another := b.aLetter(1)
	other := uuid.New()
	another.Subject = &other
	b.send(b.opening(another)...)
	if !b.release(lease) {
		t.Fatal("held by a dead letter about another payment")
	}
}

// A decline does not pass while a dead letter says that money moved. Everything else does.
func TestOwnerTellsNobodyOfADeclineBesideMovedMoney(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease := b.own()
	declined := refusal()
	// tries completes the key, and undoes it.
	tries := func(unlessCharged bool, r Response) (out Passage, err error) {
		tx, err := b.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background())
		err = postgres.PipelineTx(t.Context(), tx, b.completing(lease, unlessCharged, r, &out))
		return out, err
	}
	for evidence, passes := range map[string]bool{
		`{"record": {"status": "succeeded"}}`: false, `{"answer": {"status": "succeeded"}}`: false,
		`{"record": {"status": "declined"}}`: true, `{}`: true,
	} {
		b.closeLetters()
		b.letterSaying(evidence)
		if out, err := tries(true, declined); err != nil || out.Through != passes {
			t.Errorf("%s: a decline passes: %v (%v)", evidence, out.Through, err)
		}
		if out, err := tries(false, answer("paid")); err != nil || !out.Through {
			t.Errorf("%s: a success does not pass (%v)", evidence, err)
		}
		// The database holds a writer to it that does not ask.
		if _, err := tries(false, declined); (err == nil) != passes {
			t.Errorf("%s: the database lets it pass: %v", evidence, err)
		}
	}
}
