package idempotency

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/test/pgtest"
)

func (b *bench) postpone(e Execution, after time.Duration, failures int32) {
	b.t.Helper()
	b.send(b.keys.Postpone(e, b.view().Due, after, failures, Note{Actor: "lookup", Reason: "the PSP did not answer"},
		new(GuardResult)))
}

func (b *bench) clock() time.Time {
	b.t.Helper()
	return pgtest.Value[time.Time](b.t, b.pool, "SELECT clock_timestamp()")
}

func TestSightNamesTheExecutionAndTheMomentOfLooking(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"fast": 48 * time.Hour, "slow": -48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.keys = New(b.db, testTerms(), func() time.Time { return time.Now().Add(skew) })
			lease := b.putInto(UnknownStatus)
			before := b.clock()
			s := b.view()
			if after := b.clock(); s.AskedAt.Before(before) || s.AskedAt.After(after) {
				t.Fatalf("asked at %s, which is not between %s and %s", s.AskedAt, before, after)
			}
			if diff := cmp.Diff(lease.Execution(), s.Execution, cmp.Comparer(sameKey)); diff != "" {
				t.Fatalf("execution differs:\n%s", diff)
			}
			if s.Status != UnknownStatus || s.LookupFailures != 0 || s.Held || s.MemoryOver {
				t.Fatalf("view is %+v", s)
			}
		})
	}
}

func TestSightOfAKeyWithoutARowIsEmpty(t *testing.T) {
	t.Parallel()
	b := setup(t)
	queued := KeyView{Status: UnknownStatus}
	b.send(b.keys.LookIn(b.ref, &queued))
	if queued != (KeyView{}) {
		t.Fatalf("in a pipeline: %+v", queued)
	}
}

// Who postpones a key that somebody has resolved must come to know it: no dead letter goes with it.
func TestPostponementPassesWhileTheKeyIsUnknown(t *testing.T) {
	t.Parallel()
	for _, status := range []Status{InProgressStatus, UnknownStatus, CompletedStatus, FailedRetryableStatus,
		ExpiredStatus} {
		b := setup(t)
		e := b.putInto(status).Execution()
		passed := GuardResult{Passed: status != UnknownStatus}
		b.send(b.keys.Postpone(e, b.view().Due, time.Hour, 1, Note{Actor: "lookup", Reason: "later"}, &passed))
		if passed.Passed != (status == UnknownStatus) {
			t.Errorf("%s: passed %v", status, passed.Passed)
		}
	}
}

// The window counts from the loss, and not from the reservation.
func TestSightTellsHowMuchOfTheGracePeriodIsLeft(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(UnknownStatus)
	lost, _ := b.dates()
	first := b.view()
	second := b.view()
	window := testTerms().GracePeriod
	// The row's clock is read a moment after Asked.
	if left := window - first.AskedAt.Sub(lost); first.GraceLeft > left || first.GraceLeft <= left-patience ||
		first.GraceLeft >= window {
		t.Fatalf("%s are left, asked %s after the loss", first.GraceLeft, first.AskedAt.Sub(lost))
	}
	if second.GraceLeft >= first.GraceLeft {
		t.Fatal("the window does not run")
	}
	b.loseLongAgo()
	if left := b.view().GraceLeft; left > window-time.Hour || left < window-time.Hour-patience {
		t.Fatalf("%s are left after an hour", left)
	}
	for _, status := range statuses() {
		if status == UnknownStatus {
			continue
		}
		b.again().putInto(status)
		if s := b.view(); s.GraceLeft != 0 || s.Status != status {
			t.Errorf("a key that is %s is seen as %+v", status, s)
		}
	}
}

func TestSightTellsWhenThePSPMayHaveForgottenTheKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(UnknownStatus)
	b.unguarded("UPDATE idempotency_keys SET reserved_at = clock_timestamp() - interval '23 hours 59 minutes'")
	if b.view().MemoryOver {
		t.Fatal("over a minute early")
	}
	b.unguarded("UPDATE idempotency_keys SET reserved_at = clock_timestamp() - interval '24 hours'")
	if !b.view().MemoryOver {
		t.Fatal("not over in time")
	}
}

func TestPostponedKeyIsLookedUpLater(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.putInto(UnknownStatus).Execution()
	lost, _ := b.dates()
	b.postpone(e, time.Hour, 3)
	if left := b.count("SELECT round(extract(epoch FROM reconcile_after - clock_timestamp()) / 60)::int FROM idempotency_keys"); left != 60 {
		t.Fatalf("looked up again in %d min, want 60", left)
	}
	if s := b.view(); s.LookupFailures != 3 || s.Status != UnknownStatus {
		t.Fatalf("view is %+v", s)
	}
	if after, _ := b.dates(); !after.Equal(lost) {
		t.Fatal("postponing a lookup began the grace period again")
	}
	b.postpone(e, 0, 0)
	if n := b.count("SELECT count(*) FROM idempotency_keys WHERE reconcile_after <= clock_timestamp() AND lookup_failures = 0"); n != 1 {
		t.Fatal("the key was not woken")
	}
	b.wantTimeline("owner in_progress>unknown 1/1 no answer",
		"lookup unknown>unknown 1/1 the PSP did not answer", "lookup unknown>unknown 1/1 the PSP did not answer")
}

// Its failures are those of this loss: a later one has the whole budget again.
func TestLossBeginsANewBudget(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, lose := range map[string]func(Lease){
		"by the owner":   func(l Lease) { b.lose(l) },
		"by a request":   func(Lease) { b.endLease(); b.expireLease(isOver(t, b.reserve(b.reservation()))) },
		"by the sweeper": func(Lease) { b.endLease(); b.sweep(1, time.Hour) },
	} {
		b.again().postpone(b.putInto(UnknownStatus).Execution(), 0, 3)
		b.loseLongAgo()
		b.releaseUnknown(b.view())
		c := b.reservation()
		lose(is[Execute](t, b.retake(c, is[Free](t, b.reserve(c)))).Lease)
		if s := b.view(); s.Status != UnknownStatus || s.LookupFailures != 0 || s.GraceLeft <= 0 {
			t.Errorf("lost %s: view is %+v", name, s)
		}
	}
}

func TestOnlyTheUnknownExecutionThatWasSeenIsPostponed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, status := range statuses() {
		e := b.again().putInto(status).Execution()
		before := b.frozen()
		others := elsewhere(t, e)
		delete(others, "another subject") // attempt and generation name it already
		if status != UnknownStatus {
			others["itself"] = e
		}
		for what, other := range others {
			b.postpone(other, time.Hour, 7)
			if after := b.frozen(); after != before {
				t.Errorf("%s, %s: was %s, is %s", status, what, before, after)
			}
		}
	}
}

// frozen is all that there is of keys and their timelines.
func (b *bench) frozen() string {
	b.t.Helper()
	return pgtest.Value[string](b.t, b.pool, `SELECT concat((SELECT jsonb_agg(k ORDER BY k.tenant_id, k.operation, k.key) FROM idempotency_keys AS k),
		(SELECT jsonb_agg(e ORDER BY e.id) FROM idempotency_key_events AS e))`)
}

// A line without a transition: it stands in the timeline, and the key stays as it is.
func TestNoteMovesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, status := range statuses() {
		e := b.again().putInto(status).Execution()
		before, events := b.row(), len(b.events())
		b.send(b.keys.Note(e, found()))
		if diff := cmp.Diff(before, b.row(), cmp.Comparer(sameKey)); diff != "" {
			t.Errorf("a note changed a key that is %s:\n%s", status, diff)
		}
		added := b.events()[events:]
		if len(added) != 1 || added[0].From != status || added[0].To != status || added[0].Actor != "lookup" ||
			added[0].Attempt != 1 || added[0].Generation != 1 || string(added[0].Evidence) != `{"id": "ch_1"}` {
			t.Errorf("%s: timeline has %+v more", status, added)
		}
	}
}

func TestNoteAboutAnotherGenerationOrKeyIsNotWritten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	others := elsewhere(t, b.putInto(UnknownStatus).Execution())
	for _, name := range []string{"a later generation", "an earlier one", "another key", "another tenant's key"} {
		before := b.frozen()
		b.send(b.keys.Note(others[name], found()))
		if after := b.frozen(); after != before {
			t.Errorf("%s: was %s, is %s", name, before, after)
		}
	}
}

// While an operator has the case, it is looked up for days, and always to the same end.
func TestLookupsOfADeadLetteredKeyAreWrittenDownWhenTheyChange(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(UnknownStatus)
	before := len(b.events())
	postpone := func(reason string) {
		b.send(b.keys.Postpone(b.view().Execution, b.view().Due, time.Hour, 1, Note{Actor: "lookup", Reason: reason},
			new(GuardResult)))
	}
	for _, step := range []struct {
		deadLettered bool
		reason       string
		lines        int
	}{{false, "no answer", 1}, {false, "no answer", 2}, {true, "no answer", 2}, {true, "another", 3},
		{true, "another", 3}, {true, "no answer", 4}} {
		if step.deadLettered {
			b.deadLetter(1)
		}
		postpone(step.reason)
		if n := len(b.events()) - before; n != step.lines {
			t.Fatalf("%+v: %d lines", step, n)
		}
	}
}

// A note that waits for the pruner is about what the pruner has made of the key.
func TestNoteIsNotWrittenBehindAnExpiryAsIfItHadNotHappened(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()
	e := b.putInto(CompletedStatus).Execution()
	b.unguarded("UPDATE idempotency_keys SET expires_at = clock_timestamp() - interval '1 second'")
	tx := b.open(ctx, statement("UPDATE idempotency_keys SET status = 'expired', delete_after = clock_timestamp()"))
	b.commits(ctx, tx, b.inBackground(ctx, b.keys.Note(e, found())))
	events := b.events()
	if last := events[len(events)-1]; last.From != ExpiredStatus || last.To != ExpiredStatus {
		t.Fatalf("the last line says %s to %s", last.From, last.To)
	}
}
