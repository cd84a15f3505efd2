package idempotency

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

func TestNewKeyIsTheReserversToExecute(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.reservation()
	lease := is[Execute](t, b.reserve(c)).Lease
	if lease.Ref != c.Ref || lease.LeaseID != c.LeaseID || lease.Subject != c.Subject || lease.Attempt != 1 ||
		lease.Generation != 1 {
		t.Fatalf("the lease is not that of the reservation: %+v", lease)
	}
	r := b.row()
	if r.Status != InProgressStatus || r.Fingerprint != c.Fingerprint || r.LeaseID != c.LeaseID ||
		r.Subject != c.Subject || r.Response != nil || r.Finished != nil {
		t.Fatalf("row is %+v", r)
	}
	terms := testTerms()
	if r.LockedUntil == nil || r.LockedUntil.Sub(r.Reserved) != terms.Lease ||
		r.Expires.Sub(r.Reserved) != terms.Retention || !r.Created.Equal(r.Reserved) {
		t.Fatalf("lease, retention and creation are not counted from the reservation: %+v", r)
	}
	if !lease.KeyExpires().Equal(r.Expires) {
		t.Fatalf("lease says the key ends at %s, row says %s", lease.KeyExpires(), r.Expires)
	}
}

func TestSecondRequestFindsTheKeyInProgress(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease := b.own()
	d := is[InProgress](t, b.reserve(b.reservation()))
	if d.Subject != lease.Subject || !d.Expires.Equal(lease.KeyExpires()) {
		t.Fatalf("in progress is %+v, the lease %+v", d, lease)
	}
	b.wantStatus(InProgressStatus, 1, 1)
}

func TestCompletedKeyReplaysWhatWasStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease := b.own()
	stored := Response{Status: 402, ContentType: "application/problem+json", Location: "/things/7", SchemaVersion: 3,
		Body: []byte("{\"b\":1, \"a\":\"\\u00e9\"}\n\x00\xff")}
	if !b.complete(lease, stored) {
		t.Fatal("the owner could not complete")
	}
	d := is[Replay](t, b.reserve(b.reservation()))
	if diff := cmp.Diff(stored, d.Response); diff != "" || !d.Expires.Equal(lease.KeyExpires()) {
		t.Fatalf("replay differs (-stored +replayed):\n%s", diff)
	}
	if r := b.row(); r.Finished == nil || r.LockedUntil != nil {
		t.Fatalf("row is %+v", r)
	}
	if events := b.events(); len(events) != 0 {
		t.Fatalf("the happy path wrote a timeline: %+v", events)
	}
}

// A key that is live stands for one request, wherever it is in its life. Only an expired one is free for any.
func TestOtherFingerprintIsAMismatchOfEveryLiveKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, status := range statuses() {
		b.again().putInto(status)
		before := b.row()
		d := b.reserve(b.reservationOf("pear"))
		if status == ExpiredStatus {
			if is[Free](t, d).Status != ExpiredStatus {
				t.Error("an expired key is not a new generation")
			}
		} else if m := is[Mismatch](t, d); !m.Expires.Equal(before.Expires) {
			t.Errorf("misuse of a key that is %s says that it ends at %s, row says %s", status, m.Expires,
				before.Expires)
		}
		if diff := cmp.Diff(before, b.row(), cmp.Comparer(sameKey)); diff != "" {
			t.Errorf("reading changed a key that is %s:\n%s", status, diff)
		}
	}
}

func TestUnknownKeyIsNeverExecuted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease := b.own()
	if !b.lose(lease) {
		t.Fatal("the owner could not make its key unknown")
	}
	seen := snapshot{KeyRow: b.row()}
	for range 3 {
		d := is[Unknown](t, b.reserve(b.reservation()))
		if d.Subject != lease.Subject || !d.Expires.Equal(lease.KeyExpires()) {
			t.Fatalf("unknown is %+v", d)
		}
	}
	// Not even a caller who wrongly believes that it was free.
	for _, status := range []Status{FailedRetryableStatus, ExpiredStatus} {
		seen.Status = status
		if d := b.retake(b.reservation(), Free{seen}); d != nil {
			t.Fatalf("an unknown key was taken as %s: %T", status, d)
		}
	}
	b.wantStatus(UnknownStatus, 1, 1)
}

func TestReleasedKeyIsExecutedAgainAsTheNextAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.own()
	if !b.release(first) {
		t.Fatal("the owner could not release")
	}
	b.wantStatus(FailedRetryableStatus, 1, 1)
	released := b.row()
	if released.Finished == nil || released.LockedUntil != nil {
		t.Fatalf("row is %+v", released)
	}

	c := b.reservation()
	free := is[Free](t, b.reserve(c))
	if free.Status == ExpiredStatus || free.Subject != first.Subject || !free.Expires.Equal(first.KeyExpires()) {
		t.Fatalf("retake is %+v", free)
	}
	second := is[Execute](t, b.retake(c, free)).Lease
	if second.Attempt != 2 || second.Generation != 1 || second.LeaseID != c.LeaseID {
		t.Fatalf("lease is %+v", second)
	}
	if second.Subject != first.Subject || second.PassThroughKey() != first.PassThroughKey() {
		t.Fatal("the second attempt stands for something else, or is another key to the PSP")
	}
	r := b.row()
	if r.Finished != nil || r.LockedUntil == nil || !r.Reserved.Equal(released.Reserved) {
		t.Fatalf("a retry must renew the lease, and not the PSP's memory: %+v", r)
	}
	// A success that expired moments later would be charged once more by the client's next retry.
	kept := r.Expires.Sub(r.LockedUntil.Add(-testTerms().Lease)) // by two readings of the clock
	if !r.Expires.After(released.Expires) || kept.Round(time.Second) != testTerms().Retention {
		t.Fatalf("what a retry comes to must be kept for a whole retention: %+v", r)
	}
	b.wantTimeline("owner in_progress>failed_retryable 1/1 no connection",
		"request failed_retryable>in_progress 2/1 retried")
}

func TestRetakeOfARivalsAttemptWritesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.release(b.own())
	mine, rivals := b.reservation(), b.reservation()
	free := is[Free](t, b.reserve(mine))
	is[Execute](t, b.retake(rivals, free))
	after := b.row()

	if d := b.retake(mine, free); d != nil {
		t.Fatalf("two requests took one attempt: %T", d)
	}
	if diff := cmp.Diff(after, b.row(), cmp.Comparer(sameKey)); diff != "" {
		t.Fatalf("the loser wrote:\n%s", diff)
	}
	is[InProgress](t, b.reserve(mine))

	// Also when the rival has been and gone: what was seen free is another attempt now.
	b.release(Lease{execution: Execution{Ref: b.ref, Attempt: 2, Generation: 1}})
	if d := b.retake(mine, free); d != nil {
		t.Fatalf("an attempt was taken that was never seen: %T", d)
	}
	b.wantTimeline("owner in_progress>failed_retryable 1/1 no connection",
		"request failed_retryable>in_progress 2/1 retried", "owner in_progress>failed_retryable 2/1 no connection")
}

// A retake takes only what it saw: the same attempt of the same generation, for the same request.
func TestRetakeTakesOnlyWhatItSaw(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for status, changes := range map[Status]map[string]func(*Reservation, *snapshot){
		FailedRetryableStatus: {
			"an earlier attempt":    func(_ *Reservation, s *snapshot) { s.Attempt-- },
			"a later attempt":       func(_ *Reservation, s *snapshot) { s.Attempt++ },
			"an earlier generation": func(_ *Reservation, s *snapshot) { s.Generation-- },
			"another request":       func(c *Reservation, _ *snapshot) { c.Fingerprint = asked("pear") },
		},
		ExpiredStatus: {
			"an earlier generation": func(_ *Reservation, s *snapshot) { s.Generation-- },
			"a later generation":    func(_ *Reservation, s *snapshot) { s.Generation++ },
		},
	} {
		b.again().putInto(status)
		c := b.reservation()
		free := is[Free](t, b.reserve(c))
		before := b.frozen()
		for what, change := range changes {
			mine, stale := c, free
			change(&mine, &stale.snapshot)
			if d := b.retake(mine, stale); d != nil || b.frozen() != before {
				t.Errorf("%s: taken as %T by a request that saw %s", status, d, what)
			}
		}
		is[Execute](t, b.retake(c, free))
	}
}

func TestReleasedKeyIsNotExecutedBeyondThePSPsMemory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.release(b.own())
	c := b.reservation()
	free := is[Free](t, b.reserve(c))
	b.unguarded("UPDATE idempotency_keys SET reserved_at = clock_timestamp() - interval '24 hours'")
	if d := b.retake(c, free); d != nil {
		t.Fatalf("a key was executed again that the PSP may have forgotten: %T", d)
	}
	b.wantStatus(FailedRetryableStatus, 1, 1)
	b.unguarded("UPDATE idempotency_keys SET reserved_at = clock_timestamp() - interval '23 hours 59 minutes'")
	is[Execute](t, b.retake(c, free))
}

func TestExpiredKeyIsRenewedByAnyRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.own()
	b.complete(first, answer("first"))
	b.expire()
	before := b.row()
	if before.Response == nil {
		t.Fatal("an expired key has lost its response before the audit window has passed")
	}

	c := b.reservationOf("pear")
	free := is[Free](t, b.reserve(c))
	second := is[Execute](t, b.retake(c, free)).Lease
	if second.Generation != 2 || second.Attempt != 1 || second.Subject != c.Subject || second.LeaseID != c.LeaseID {
		t.Fatalf("lease is %+v", second)
	}
	if second.PassThroughKey() == first.PassThroughKey() {
		t.Fatal("a new generation is an old key to the PSP: it would replay the old charge")
	}
	r := b.row()
	if r.Response != nil || r.Finished != nil || r.Fingerprint != c.Fingerprint {
		t.Fatalf("the new generation has something of the old one: %+v", r)
	}
	terms := testTerms()
	if !r.Reserved.After(before.Reserved) || r.Expires.Sub(r.Reserved).Round(time.Second) != terms.Retention ||
		r.LockedUntil.Sub(r.Reserved).Round(time.Second) != terms.Lease || !r.Created.Equal(before.Created) {
		t.Fatalf("times of the new generation: %+v, before %+v", r, before)
	}
	b.wantTimeline("pruner completed>expired 1/1 retention over", "request expired>in_progress 1/2 reserved again")
}

// After a lost acknowledgement, the same reservation is sent again. The row has its lease already, so it is the owner.
func TestRecalledReservationIsStillTheOwner(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.reservation()
	first := is[Execute](t, b.reserve(c)).Lease
	before := b.row()
	again := is[Execute](t, b.reserve(c)).Lease
	if again != first {
		t.Fatalf("lease was %+v, is %+v", first, again)
	}
	for name, peek := range map[string]func(context.Context, Reservation) (Decision, error){"read": b.keys.Peek,
		"read back": b.keys.readBack} {
		peeked, err := peek(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if is[Execute](t, peeked).Lease != first {
			t.Fatalf("lease was %+v, is %s as %+v", first, name, peeked)
		}
	}
	if diff := cmp.Diff(before, b.row(), cmp.Comparer(sameKey)); diff != "" {
		t.Fatalf("the repetition wrote:\n%s", diff)
	}
	// Only as long as it is the owner.
	b.lose(first)
	is[Unknown](t, b.reserve(c))
}

func TestRecalledRetakeIsStillTheOwner(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.release(b.own())
	c := b.reservation()
	first := is[Execute](t, b.retake(c, is[Free](t, b.reserve(c)))).Lease
	if again := is[Execute](t, b.reserve(c)).Lease; again != first {
		t.Fatalf("lease was %+v, is %+v", first, again)
	}
	// A lease that is over is nobody's, its owner's neither.
	b.endLease()
	isOver(t, b.reserve(c))
}

// The loser of the INSERT waits for the winner's commit, which its statement's snapshot then does not show: no row of
// its own, and none in the way. It has to read again.
func TestReservationThatSeesNoRowReadsAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	winner := pgtest.Begin(t, b.pool)
	var first Decision
	if err := postgres.PipelineTx(ctx, winner, b.reserving(b.reservation(), &first)); err != nil {
		t.Fatal(err)
	}
	is[Execute](t, first)

	mine := b.reservation()
	var decision Decision
	done := make(chan error, 1)
	go func() {
		done <- b.db.Pipeline(ctx, b.reserving(mine, &decision))
	}()
	pgtest.AwaitLock(b.t, b.pool)
	if err := winner.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if decision != nil {
		t.Fatalf("decision is %T; the race was not staged", decision)
	}
	is[InProgress](t, b.reserve(mine))
}

func TestPeekTakesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d, err := b.keys.Peek(t.Context(), b.reservation())
	if err != nil || d != nil {
		t.Fatalf("a key without a row peeks as %T, %v", d, err)
	}
	if _, err := b.keys.Find(t.Context(), b.ref); !errors.Is(err, ErrNoKey) {
		t.Fatalf("find: %v", err)
	}
	lease := b.own()
	if d, err = b.keys.Peek(t.Context(), b.reservation()); err != nil {
		t.Fatal(err)
	}
	is[InProgress](t, d)
	b.release(lease)
	if d, err = b.keys.Peek(t.Context(), b.reservation()); err != nil {
		t.Fatal(err)
	}
	is[Free](t, d)
	b.wantStatus(FailedRetryableStatus, 1, 1)
	b.expire()
	if d, err = b.keys.Peek(t.Context(), b.reservation()); err != nil || d != nil {
		t.Fatalf("an expired key peeks as %T, %v", d, err)
	}
}

// A retake that was refused may have lost to a rival or to the PSP's memory. The next look at the key tells which.
func TestFreeKeyThatWasTakenMeanwhileIsNotTheSame(t *testing.T) {
	t.Parallel()
	seen := Free{snapshot{KeyRow: KeyRow{Status: FailedRetryableStatus, Attempt: 1, Generation: 1}}}
	if !seen.same(seen) {
		t.Error("nobody has taken the key, and it reads as another")
	}
	for what, change := range map[string]func(*snapshot){
		"expired":             func(s *snapshot) { s.Status = ExpiredStatus },
		"the next attempt":    func(s *snapshot) { s.Attempt++ },
		"the next generation": func(s *snapshot) { s.Generation++ },
	} {
		other := seen
		change(&other.snapshot)
		if other.same(seen) {
			t.Errorf("%s reads as the same", what)
		}
	}
}

func TestWhatIsReadDurablyIsWhatIsThere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.keys.FindDurably(t.Context(), b.ref); !errors.Is(err, ErrNoKey) {
		t.Errorf("a key without a row: %v", err)
	}
	if d, err := b.keys.peek(t.Context(), b.reservation(), b.keys.readDurably); err != nil || d != nil {
		t.Errorf("a key without a row peeks as %T, %v", d, err)
	}
	b.complete(b.own(), answer("first"))
	found, err := b.keys.FindDurably(t.Context(), b.ref)
	if diff := cmp.Diff(b.row(), found, cmp.Comparer(sameKey)); err != nil || diff != "" {
		t.Errorf("%v (-found +found durably):\n%s", err, diff)
	}
}

// Another's statement may be why the acknowledgement is missing. What may have been written must be durable before
// anything is executed because of it.
func TestTryAfterALostAcknowledgementGoesAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var sent []Try
	d, err := b.keys.Take(t.Context(), b.reservation(), func(ctx context.Context, try Try) (Decision, error) {
		if sent = append(sent, try); len(sent) == 1 {
			return nil, &postgres.AmbiguousError{Err: errors.New("the connection broke before the commit")}
		}
		var out []Decision
		calls := b.keys.Calls([]Try{try}, &out)
		if len(calls) != 2 {
			t.Errorf("%d calls, want the key's and Durable", len(calls))
		}
		if err := b.db.Pipeline(ctx, calls...); err != nil {
			return nil, err
		}
		return out[0], nil
	})
	if err != nil || len(sent) != 2 || sent[0].Alone || !sent[1].Alone || !sent[1].Begins {
		t.Fatalf("sent %+v: %v", sent, err)
	}
	is[Execute](t, d)
}
