package idempotency

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// walk is a background process's way through the keys that are due, oldest first. What four of them have in common is
// proven of each.
type walk struct {
	from    Status // of its keys
	column  string // the time at which one is due
	waiting string // holds of a key as long as it has not been taken
	take    func(context.Context, *bench, int32) error
	takeTx  func(context.Context, *bench, pgx.Tx, int32) error
}

func walks() map[string]walk {
	alone := func(takeTx func(context.Context, *bench, pgx.Tx, int32) error) func(context.Context, *bench,
		int32) error {
		return func(ctx context.Context, b *bench, limit int32) error {
			return b.db.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error { return takeTx(ctx, b, tx, limit) })
		}
	}
	return map[string]walk{
		"sweep": {InProgressStatus, "locked_until", "status = 'in_progress'", alone(sweepTx), sweepTx},
		"claim": {UnknownStatus, "reconcile_after", "reconcile_after < clock_timestamp() + interval '1 day'",
			alone(claimTx), claimTx},
		"expire": {CompletedStatus, "expires_at", "status = 'completed'", expireKeys, expireTx},
		"delete": {ExpiredStatus, "delete_after", "true", deleteKeys, deleteTx},
	}
}

// hidden is for how long the first two put what they take out of sight.
const hidden = 48 * time.Hour

func sweepTx(ctx context.Context, b *bench, tx pgx.Tx, limit int32) error {
	_, err := b.keys.SweepTx(ctx, tx, limit, hidden)
	return err
}

func claimTx(ctx context.Context, b *bench, tx pgx.Tx, limit int32) error {
	_, err := b.keys.ClaimDueTx(ctx, tx, limit, hidden)
	return err
}

func expireKeys(ctx context.Context, b *bench, limit int32) error {
	_, err := b.keys.Expire(ctx, limit)
	return err
}

func expireTx(ctx context.Context, b *bench, tx pgx.Tx, limit int32) error {
	_, err := b.keys.expireTx(ctx, tx, limit)
	return err
}

func deleteKeys(ctx context.Context, b *bench, limit int32) error {
	_, err := b.keys.Delete(ctx, limit)
	return err
}

func deleteTx(ctx context.Context, b *bench, tx pgx.Tx, limit int32) error {
	_, err := b.keys.deleteTx(ctx, tx, limit)
	return err
}

// eachWalk runs a check on five keys of each walk: order 1 has just become due, 4 is the oldest, 0 will be due in half
// an hour.
func eachWalk(t *testing.T, check func(*bench, walk)) {
	t.Helper()
	shared := setup(t)
	for name, w := range walks() {
		t.Run(name, func(t *testing.T) {
			b := *shared
			b.t = t
			b.again()
			for n := range 5 {
				b.ref = refOf(t, "acme", fmt.Sprintf("order-%010d", n))
				b.putInto(w.from)
			}
			b.unguarded("UPDATE idempotency_keys SET " + w.column +
				" = clock_timestamp() + (0.5 - right(key, 1)::int) * interval '1 hour'")
			check(&b, w)
		})
	}
}

// goes walks within the test's patience.
func (w walk) goes(b *bench, limit int32) {
	b.t.Helper()
	ctx, cancel := b.patient()
	defer cancel()
	if err := w.take(ctx, b, limit); err != nil {
		b.t.Fatal(err)
	}
}

// wantWaiting checks which keys have not been taken.
func (w walk) wantWaiting(b *bench, want ...int) {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), "SELECT right(key, 1)::int FROM idempotency_keys WHERE "+w.waiting+
		" ORDER BY key")
	if err != nil {
		b.t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		b.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Fatalf("waiting keys differ (-want +got):\n%s", diff)
	}
}

func TestWalkTakesWhatIsDueByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"fast": 48 * time.Hour, "slow": -48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWalk(t, func(b *bench, w walk) {
				b.keys = New(b.db, testTerms(), func() time.Time { return time.Now().Add(skew) })
				w.goes(b, 100)
				w.wantWaiting(b, 0)
				w.goes(b, 100) // nothing is left
				w.wantWaiting(b, 0)
			})
		})
	}
}

// The order is the query's, and not that of an index which happens to be walked.
func TestWalkTakesTheOldestUpToItsLimit(t *testing.T) {
	t.Parallel()
	eachWalk(t, func(b *bench, w walk) {
		b.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET enable_indexscan = off', current_database()); END $$`)
		b.pool.Reset()
		w.goes(b, 0)
		w.wantWaiting(b, 0, 1, 2, 3, 4)
		w.goes(b, 1)
		w.wantWaiting(b, 0, 1, 2, 3)
		w.goes(b, 2)
		w.wantWaiting(b, 0, 1)
	})
}

// A key that somebody has in hand is left to them, and nobody waits: the walk goes on with the next ones.
func TestWalkLeavesLockedKeysAndWaitsForNobody(t *testing.T) {
	t.Parallel()
	eachWalk(t, func(b *bench, w walk) {
		tx := b.open(b.t.Context(),
			statement("SELECT FROM idempotency_keys WHERE right(key, 1)::int IN (2, 4) FOR UPDATE"))
		w.goes(b, 1)
		w.wantWaiting(b, 0, 1, 2, 4)
		w.goes(b, 100)
		w.wantWaiting(b, 0, 2, 4)
		if err := tx.Rollback(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		w.goes(b, 100)
		w.wantWaiting(b, 0)
	})
}

// Two processes at once, neither of which has committed yet.
func TestTwoWalkersTakeDifferentKeys(t *testing.T) {
	t.Parallel()
	eachWalk(t, func(b *bench, w walk) {
		ctx, cancel := b.patient()
		defer cancel()
		walkers := []pgx.Tx{b.open(ctx), b.open(ctx)}
		for _, tx := range walkers {
			if err := w.takeTx(ctx, b, tx, 2); err != nil {
				b.t.Fatal(err)
			}
		}
		for _, tx := range walkers {
			if err := tx.Commit(ctx); err != nil {
				b.t.Fatal(err)
			}
		}
		w.wantWaiting(b, 0)
	})
}
