package idempotency

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"payonce/test/pgtest"
)

func (b *bench) wantExpired(want int64) {
	b.t.Helper()
	ctx, cancel := b.patient()
	defer cancel()
	if n, err := b.keys.Expire(ctx, 100); err != nil || n != want {
		b.t.Fatalf("%d keys expired, want %d; %v", n, want, err)
	}
}

func (b *bench) wantDeleted(want int64) {
	b.t.Helper()
	ctx, cancel := b.patient()
	defer cancel()
	if n, err := b.keys.Delete(ctx, 100); err != nil || n != want {
		b.t.Fatalf("%d keys deleted, want %d; %v", n, want, err)
	}
}

// outlive lets the retention of all keys and the audit window of the expired ones run out.
func (b *bench) outlive() {
	b.t.Helper()
	b.unguarded(`UPDATE idempotency_keys SET expires_at = clock_timestamp(),
		delete_after = CASE WHEN status = 'expired' THEN clock_timestamp() END`)
}

func (b *bench) exists() bool {
	b.t.Helper()
	return b.count("SELECT count(*) FROM idempotency_keys") == 1
}

// What is in progress or unknown stays, however old: without its row the key would be free.
func TestOnlyFinishedKeysExpire(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, status := range statuses() {
		b.again().putInto(status)
		b.outlive()
		before, events := b.row(), len(b.events())
		if status != CompletedStatus && status != FailedRetryableStatus {
			b.wantExpired(0)
			b.unchanged(string(status), GuardResult{}, before, events)
			continue
		}
		b.wantExpired(1)
		b.wantStatus(ExpiredStatus, 1, 1)
		last := b.events()[events]
		if last.Actor != "pruner" || last.From != status || last.To != ExpiredStatus ||
			last.Reason != "retention over" {
			t.Errorf("%s: timeline ends in %+v", status, last)
		}
		if is[Free](t, b.reserve(b.reservation())).Status != ExpiredStatus {
			t.Errorf("%s: an expired key is not free for a new generation", status)
		}
	}
}

func TestOnlyExpiredKeysAreDeleted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, status := range statuses() {
		b.again().putInto(status)
		// Behind the guard's back: only the status is in the way.
		b.unguarded("UPDATE idempotency_keys SET delete_after = clock_timestamp()")
		if status == ExpiredStatus {
			b.wantDeleted(1)
			continue
		}
		b.wantDeleted(0)
		if !b.exists() {
			t.Errorf("a key that is %s was deleted", status)
		}
	}
}

// It does not hold up the others.
func TestDeadLetteredKeyIsPassedOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(CompletedStatus)
	b.deadLetter(1)
	b.ref = refOf(t, "acme", "order-0000000043")
	b.putInto(CompletedStatus)
	b.outlive()
	if n, err := b.keys.Expire(t.Context(), 1); err != nil || n != 1 {
		t.Fatalf("%d expired, %v", n, err)
	}
	b.wantStatus(ExpiredStatus, 1, 1)
	b.deadLetter(1)
	b.ref = refOf(t, "acme", "order-0000000044")
	b.putInto(ExpiredStatus)
	b.outlive()
	// Both in one batch.
	if n, err := b.keys.Delete(t.Context(), 2); err != nil || n != 1 {
		t.Fatalf("%d deleted, %v", n, err)
	}
	if left := b.count("SELECT count(*) FROM idempotency_keys"); left != 2 {
		t.Fatalf("%d keys are left, want 2", left)
	}
}

func TestExpiredKeyKeepsItsResponseForTheAuditWindow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(CompletedStatus)
	b.outlive()
	before := b.row()
	b.wantExpired(1)
	after := b.row()
	before.Status = ExpiredStatus
	if diff := cmp.Diff(before, after, cmp.Comparer(sameKey)); diff != "" {
		t.Fatalf("expiry changed more than the status:\n%s", diff)
	}
	if got := string(after.Response.Body); got != "done" {
		t.Fatalf("the response is %q", got)
	}
	left := b.count("SELECT round(extract(epoch FROM delete_after - clock_timestamp()) / 60)::int FROM idempotency_keys")
	if want := int(testTerms().Audit.Minutes()); left != want {
		t.Fatalf("deleted in %d min, want %d", left, want)
	}
	b.wantDeleted(0)
}

// The payment is the domain's: only the key and what is told of it go.
func TestDeletedKeyTakesItsTimelineAlongAndNothingElse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease := b.putInto(ExpiredStatus)
	b.exec(`INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status, psp_charge_id)
		VALUES ($1, 'acme', $2, 1, 'cus-1', 1, 'USD', 'pm_ok', 'succeeded', 'ch_1')`, lease.Subject, b.ref.Key.String())
	b.outlive()
	b.wantDeleted(1)
	b.wantNoEvents()
	if n := b.count("SELECT count(*) FROM payments WHERE status = 'succeeded'"); n != 1 {
		t.Error("the payment is gone with its key")
	}
}

// A key that was deleted goes on from its last generation, however often: no two subjects ever have one generation of
// one key.
func TestDeletedKeyGoesOnFromItsLastGeneration(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(ExpiredStatus)
	for generation := range int32(4) {
		b.outlive()
		b.wantDeleted(1)
		lease := b.own()
		if lease.Attempt != 1 || lease.Generation != generation+2 {
			t.Fatalf("lease is %+v, want generation %d", lease, generation+2)
		}
		b.wantTimeline()
		if born := b.row().Timeline(nil)[0]; born.Generation != generation+2 {
			t.Errorf("the timeline begins in generation %d", born.Generation)
		}
		b.complete(lease, answer("done"))
		b.outlive()
		b.wantExpired(1)
	}
	if born := b.row().Timeline(b.events())[0]; born.Generation != 5 {
		t.Errorf("the timeline begins in generation %d", born.Generation)
	}
}

// A key that can be deleted has its tombstone, so a script that deletes it leaves one, too.
func TestTombstonesAreLeftByAScript(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(ExpiredStatus)
	b.exec("DELETE FROM idempotency_keys")
	if n := b.count("SELECT count(*) FROM idempotency_key_tombstones WHERE generation = 1"); n != 1 {
		t.Fatalf("%d tombstones", n)
	}
	for _, forgets := range []string{
		"generation = 0", "tenant_id = 'globex'", "operation = 'POST /refunds'", "key = 'another-order'",
	} {
		got := pgtest.RefusedBy(t, b.tryRolledBack("UPDATE idempotency_key_tombstones SET "+forgets))
		if got != "idempotency_key_tombstones_only_grow" {
			t.Errorf("a tombstone forgets its key, %s: refused by %q", forgets, got)
		}
	}
	const before = `INSERT INTO idempotency_key_tombstones (tenant_id, operation, key, generation) VALUES ('acme', 'x', 'y', 0)`
	if got := pgtest.RefusedBy(t, b.tryRolledBack(before)); got != "idempotency_key_tombstones_generation_check" {
		t.Errorf("a tombstone of no generation: refused by %q", got)
	}
	got := pgtest.RefusedBy(t, b.tryRolledBack("DELETE FROM idempotency_key_tombstones"))
	if got != "history_is_append_only" {
		t.Errorf("a tombstone is deleted: refused by %q", got)
	}
}

// A partial restore, or a repair by hand, may leave a tombstone of a later generation than its key's. That key expires
// with the others, of its own tenant and of another one, and the tombstone keeps its generation.
func TestTombstoneAheadOfItsKeyHoldsUpNoExpiry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, b.ref = range []Ref{
		refOf(t, "acme", "order-0000000043"), refOf(t, "globex", "order-0000000042"),
		refOf(t, "acme", "order-0000000042"),
	} {
		b.putInto(CompletedStatus)
	}
	b.exec(`INSERT INTO idempotency_key_tombstones (tenant_id, operation, key, generation) VALUES ($1, $2, $3, 7)`,
		b.ref.Tenant, string(b.ref.Operation), b.ref.Key.String())
	b.outlive()
	b.wantExpired(3)
	if ahead := b.count("SELECT count(*) FROM idempotency_key_tombstones WHERE generation = 7"); ahead != 1 {
		t.Error("the tombstone has lost its generation")
	}
}

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
	free := is[Free](t, b.reserve(c))
	var d Decision
	tx := b.open(ctx, b.keys.retake(c, free.snapshot, &d))
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
	free := is[Free](t, b.reserve(c))
	tx := b.open(ctx)
	if n, err := b.keys.deleteTx(ctx, tx, 100); err != nil || n != 1 {
		t.Fatalf("%d deleted, %v", n, err)
	}
	var d Decision
	b.commits(ctx, tx, b.inBackground(ctx, b.keys.retake(c, free.snapshot, &d)))
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
	tx := b.open(ctx, b.keys.reserve(tries(of(other)), &rival))
	behind := b.inBackground(ctx, b.keys.reserve(tries(of(other), of(mine)), &decisions))
	pgtest.AwaitLock(b.t, b.pool)
	b.wantDeleted(1)
	b.commits(ctx, tx, behind)
	is[Free](t, decisions[1])
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
	free := is[Free](t, b.reserve(c))
	var d Decision
	tx := b.open(ctx, b.keys.retake(c, free.snapshot, &d))
	b.wantExpired(0)
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	b.wantExpired(0)
	b.wantStatus(InProgressStatus, 2, 1)

	b.again().putInto(FailedRetryableStatus)
	b.outlive()
	d = nil
	free = is[Free](t, b.reserve(c))
	tx = b.open(ctx)
	if err := expireTx(ctx, b, tx, 100); err != nil {
		t.Fatal(err)
	}
	b.commits(ctx, tx, b.inBackground(ctx, b.keys.retake(c, free.snapshot, &d)))
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
