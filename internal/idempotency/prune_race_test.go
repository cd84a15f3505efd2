package idempotency

import (
	"testing"

	"github.com/google/uuid"
)

// The pruner's rivals. Each of these races is staged twice, once for either winner.

// A request renews the expired key while the pruner tries to delete it.
func TestKeyRenewedFirstIsNotDeleted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()
	b.putInto(ExpiredStatus)
	b.outlive()
	c := b.reservation()
	free := is[Retake](t, b.reserve(c))
	var d Decision
	tx := b.open(ctx, b.keys.Retake(c, free, &d))
	b.wantDeleted(0)
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	b.wantDeleted(0)
	is[Execute](t, d)
	b.wantStatus(InProgressStatus, 1, 2)
	if len(b.events()) != 2 {
		t.Fatalf("timeline is %+v", b.events())
	}
}

func TestKeyDeletedFirstIsNotRenewed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()
	b.putInto(ExpiredStatus)
	b.outlive()
	c := b.reservation()
	free := is[Retake](t, b.reserve(c))
	tx := b.open(ctx)
	if n, err := b.keys.deleteTx(ctx, tx, 100); err != nil || n != 1 {
		t.Fatalf("%d deleted, %v", n, err)
	}
	var d Decision
	b.commits(ctx, tx, b.inBackground(ctx, b.keys.Retake(c, free, &d)))
	if d != nil || b.exists() {
		t.Fatalf("a key without a row was taken: %T", d)
	}
	b.wantNoEvents()
	is[Execute](t, b.reserve(c)) // it reads again, and begins it
}

// The statement of a group has seen an expired key, and waits for another member's rival. Meanwhile the key is deleted.
// It is not taken by what was seen before: neither its row nor its tombstone is what it was.
func TestKeyDeletedWhileItsGroupWaitsIsNotTakenFromAnOldSnapshot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()
	b.putInto(ExpiredStatus)
	b.outlive()
	mine, other := b.ref, refOf(t, b.ref.Tenant, "an-order-0000000042")
	of := func(ref Ref) Reservation { return b.keys.NewReservation(ref, asked("apple"), uuid.New(), uuid.New()) }
	var rival, decisions []Decision
	tx := b.open(ctx, b.keys.Reserve([]Reservation{of(other)}, &rival))
	behind := b.inBackground(ctx, b.keys.Reserve([]Reservation{of(other), of(mine)}, &decisions))
	b.awaitBlocked(ctx)
	b.wantDeleted(1)
	b.commits(ctx, tx, behind)
	is[Retake](t, decisions[1])
	if n := b.count("SELECT count(*) FROM idempotency_keys"); n != 1 {
		t.Errorf("there are %d keys, want that of the rival", n)
	}
}

func (b *bench) wantNoEvents() {
	b.t.Helper()
	if events := b.events(); len(events) != 0 {
		b.t.Fatalf("timeline is %+v", events)
	}
}

// Both know of the released key: the request that it may be executed again, the pruner that its time is over.
func TestRetryAndExpiryOfAReleasedKeyDoNotBothPass(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()
	b.putInto(FailedRetryableStatus)
	b.outlive()
	c := b.reservation()
	free := is[Retake](t, b.reserve(c))
	var d Decision
	tx := b.open(ctx, b.keys.Retake(c, free, &d))
	b.wantExpired(0)
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	b.wantExpired(0)
	b.wantStatus(InProgressStatus, 2, 1)

	b.again().putInto(FailedRetryableStatus)
	b.outlive()
	d = nil
	free = is[Retake](t, b.reserve(c))
	tx = b.open(ctx)
	if err := expireTx(ctx, b, tx, 100); err != nil {
		t.Fatal(err)
	}
	b.commits(ctx, tx, b.inBackground(ctx, b.keys.Retake(c, free, &d)))
	if d != nil {
		t.Fatalf("an attempt was begun of a key that had expired: %T", d)
	}
	b.wantStatus(ExpiredStatus, 1, 1)
}

// Evidence is on its way for a released key when the pruner comes by.
func TestEvidenceThatComesFirstKeepsTheKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()
	e := b.putInto(FailedRetryableStatus).Execution()
	b.outlive()
	var passed GuardResult
	tx := b.open(ctx, b.resolving(e, FailedRetryableStatus, false, found(), answer("late"), &passed))
	b.wantExpired(0)
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	b.wantExpired(0)
	b.wantStatus(CompletedStatus, 1, 1)

	e = b.again().putInto(FailedRetryableStatus).Execution()
	b.outlive()
	tx = b.open(ctx)
	if err := expireTx(ctx, b, tx, 100); err != nil {
		t.Fatal(err)
	}
	behind := b.inBackground(ctx, b.resolving(e, FailedRetryableStatus, false, found(), answer("too late"), &passed))
	b.commits(ctx, tx, behind)
	if passed.Passed {
		t.Fatal("a key that had expired was completed")
	}
}
