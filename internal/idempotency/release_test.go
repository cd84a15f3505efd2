package idempotency

import (
	"testing"
	"time"

	"payonce/internal/deadletters"
	"payonce/test/pgtest"
)

// view is the test's key as a resolver sees it now.
func (b *bench) view() (s KeyView) {
	b.t.Helper()
	b.send(b.keys.LookIn(b.ref, &s))
	return s
}

func nothing() Note { return Note{Actor: "lookup", Reason: "the PSP has nothing"} }

func (b *bench) releaseUnknown(s KeyView) (out GuardResult) {
	b.t.Helper()
	b.send(b.keys.ReleaseUnknown(s.Execution, s.AskedAt, Proof{}, nothing(), &out))
	return out
}

func (b *bench) releaseByOperator(s KeyView) (out GuardResult) {
	b.t.Helper()
	b.send(b.keys.ReleaseUnknown(s.Execution, s.AskedAt, Proof{ByOperator: true}, nothing(), &out))
	return out
}

// releaseCancelled releases a key whose request the PSP has cancelled.
func (b *bench) releaseCancelled(s KeyView) (out GuardResult) {
	b.t.Helper()
	b.send(b.keys.ReleaseUnknown(s.Execution, s.AskedAt, Proof{Final: true}, nothing(), &out))
	return out
}

// loseLongAgo lets the grace period of the test's key pass, and the PSP still remember it.
func (b *bench) loseLongAgo() {
	b.t.Helper()
	b.unguarded("UPDATE idempotency_keys SET unknown_since = unknown_since - interval '1 hour', reserved_at = reserved_at - interval '1 hour'")
}

// dates are the two times of a key's row that its release depends on.
func (b *bench) dates() (lost, reserved time.Time) {
	b.t.Helper()
	err := b.pool.QueryRow(b.t.Context(), "SELECT unknown_since, reserved_at FROM idempotency_keys").Scan(&lost,
		&reserved)
	if err != nil {
		b.t.Fatal(err)
	}
	return lost, reserved
}

func TestNotFoundAfterTheGracePeriodReleasesTheKey(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(*bench, KeyView) GuardResult{
		"lookup": (*bench).releaseUnknown, "operator": (*bench).releaseByOperator,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.putInto(UnknownStatus)
			b.loseLongAgo()
			passed := release(b, b.view())
			if r := b.row(); !passed.Passed || !passed.Expires.Equal(r.Expires) || r.Finished == nil {
				t.Fatalf("result is %+v, row %+v", passed, r)
			}
			b.wantStatus(FailedRetryableStatus, 1, 1)
			b.wantTimeline("owner in_progress>unknown 1/1 no answer",
				"lookup unknown>failed_retryable 1/1 the PSP has nothing")
			c := b.reservation()
			is[Execute](t, b.retake(c, is[Free](t, b.reserve(c))))
		})
	}
}

// Before the window's end a send could still be on its way. What counts is when the PSP was asked, and not when its
// answer is written: here the window is over by the time of writing.
func TestNotFoundIsNoProofWhenAskedWithinTheGracePeriod(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(*bench, KeyView) GuardResult{
		"lookup": (*bench).releaseUnknown, "operator": (*bench).releaseByOperator,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.putInto(UnknownStatus)
			b.loseLongAgo()
			lost, _ := b.dates()
			s := b.view()
			before, events := b.row(), len(b.events())
			end := lost.Add(testTerms().GracePeriod)
			for _, asked := range []time.Time{lost, end.Add(-time.Second), end.Add(-time.Microsecond)} {
				s.AskedAt = asked
				b.unchanged(end.Sub(asked).String()+" before the end", release(b, s), before, events)
			}
			s.AskedAt = end
			if !release(b, s).Passed {
				t.Fatal("the window's end is not its end")
			}
		})
	}
}

// That a job has failed says nothing about the key, and another job has found out. Pruned is it not, before somebody
// has seen the dead letter.
func TestDeadLetterOfAJobDoesNotHoldTheReleaseAndHoldsTheExpiry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(UnknownStatus)
	b.loseLongAgo()
	job := b.aDeadLetter(1)
	job.Kind = deadletters.JobDiscarded
	b.send(b.opening(job)...)
	s := b.view()
	if s.Held || !b.releaseUnknown(s).Passed {
		t.Fatalf("held: %+v", s)
	}
	b.unguarded("UPDATE idempotency_keys SET expires_at = clock_timestamp() - interval '1 second'")
	if n, err := b.keys.Expire(t.Context(), 10); err != nil || n != 0 {
		t.Fatalf("%d keys expired, %v", n, err)
	}
	err := b.tryRolledBack("UPDATE idempotency_keys SET status = 'expired', delete_after = clock_timestamp()")
	if got := pgtest.RefusedBy(t, err); got != "idempotency_keys_dead_lettered_stay" {
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
		passed     bool
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
		s := b.view()
		s.AskedAt = reserved.Add(testTerms().PSPMemory + c.late)
		release := b.releaseUnknown
		if c.byOperator {
			release = b.releaseByOperator
		}
		before, events := b.row(), len(b.events())
		if passed := release(s); !c.passed {
			b.unchanged(c.late.String(), passed, before, events)
		} else if !passed.Passed {
			t.Errorf("asked %s after the memory's end, by operator %t: not released", c.late, c.byOperator)
		}
	}
}

// A request that the PSP has cancelled can never be executed. So a send may still be on its way, and the PSP may have
// forgotten the key.
func TestCancelledRequestReleasesTheKeyAtAnyTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, asked := range map[string]func(lost, reserved time.Time) time.Time{
		"within the grace period": func(lost, _ time.Time) time.Time { return lost },
		"beyond the memory": func(_, reserved time.Time) time.Time {
			return reserved.Add(testTerms().PSPMemory + time.Hour)
		},
	} {
		b.again().putInto(UnknownStatus)
		s := b.view()
		s.AskedAt = asked(b.dates())
		before, events := b.row(), len(b.events())
		b.unchanged("not found "+name, b.releaseUnknown(s), before, events)
		if passed := b.releaseCancelled(s); !passed.Passed {
			t.Errorf("%s: not released", name)
		}
		b.wantStatus(FailedRetryableStatus, 1, 1)
	}
}

func TestReleaseOfAnotherExecutionMovesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(UnknownStatus)
	b.loseLongAgo()
	s := b.view()
	before, events := b.row(), len(b.events())
	for what, e := range elsewhere(t, s.Execution) {
		other := s
		other.Execution = e
		b.unchanged(what, b.releaseUnknown(other), before, events)
		b.unchanged(what+", by an operator", b.releaseByOperator(other), before, events)
		b.unchanged(what+", cancelled", b.releaseCancelled(other), before, events)
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
		b.unchanged(string(status), b.releaseUnknown(b.view()), before, events)
		b.unchanged(string(status)+", by an operator", b.releaseByOperator(b.view()), before, events)
		b.unchanged(string(status)+", cancelled", b.releaseCancelled(b.view()), before, events)
	}
}

// The late owner brings a success, and a lookup has found nothing. The first of them decides, and the other is told so.
func TestLateSuccessAndReleaseDoNotBothPass(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()
	for name, resolvesFirst := range map[string]bool{"success first": true, "release first": false} {
		lease := b.again().putInto(UnknownStatus)
		b.loseLongAgo()
		s := b.view()
		var resolved, released GuardResult
		resolve := b.resolving(lease.Execution(), UnknownStatus, false, found(), answer("late"), &resolved)
		release := b.keys.ReleaseUnknown(s.Execution, s.AskedAt, Proof{}, nothing(), &released)
		first, second := release, resolve
		if resolvesFirst {
			first, second = resolve, release
		}
		tx := b.open(ctx, first)
		b.commits(ctx, tx, b.inBackground(ctx, second))
		if resolved.Passed != resolvesFirst || released.Passed == resolvesFirst {
			t.Fatalf("%s: resolved is %t, released %t", name, resolved.Passed, released.Passed)
		}
	}
}
