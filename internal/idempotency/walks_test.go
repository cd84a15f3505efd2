package idempotency

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency/internal/dbsqlc"
)

// walk is a background process's way through the keys that are due, oldest first. What four of them have in common is
// proven of each.
type walk struct {
	from    Status // of its keys
	column  string // the time at which one is due
	waiting string // holds of a key as long as it has not been taken
	take    func(context.Context, *bench, int32) error
	takeTx  func(context.Context, *bench, pgx.Tx, int32) error
	// statement takes keys of one tenant that a walk has found.
	statement func(ctx context.Context, q *dbsqlc.Queries, tenant string, operations, keys []string) error
	search    string // its name in FindDueKeys
	held      bool   // it leaves keys with an open dead letter
}

func walks() map[string]walk {
	alone := func(takeTx func(context.Context, *bench, pgx.Tx, int32) error) func(context.Context, *bench,
		int32) error {
		return func(ctx context.Context, b *bench, limit int32) error {
			return b.db.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error { return takeTx(ctx, b, tx, limit) })
		}
	}
	return map[string]walk{
		"sweep": {search: "sweep", from: InProgressStatus, column: "locked_until", waiting: "status = 'in_progress'",
			take: alone(sweepTx), takeTx: sweepTx,
			statement: func(ctx context.Context, q *dbsqlc.Queries, tenant string, operations, keys []string) error {
				_, err := q.SweepLeases(ctx, dbsqlc.SweepLeasesParams{TenantID: tenant, Operations: operations,
					Keys: keys, Visibility: hidden})
				return err
			}},
		"claim": {search: "claim", from: UnknownStatus, column: "reconcile_after",
			waiting: "reconcile_after < clock_timestamp() + interval '1 day'", take: alone(claimTx), takeTx: claimTx,
			statement: func(ctx context.Context, q *dbsqlc.Queries, tenant string, operations, keys []string) error {
				_, err := q.ClaimDue(ctx, dbsqlc.ClaimDueParams{TenantID: tenant, Operations: operations, Keys: keys,
					Visibility: hidden})
				return err
			}},
		"expire": {search: "expire",
			from: CompletedStatus, column: "expires_at", waiting: "status = 'completed'", take: expireKeys,
			takeTx: expireTx, held: true,
			statement: func(ctx context.Context, q *dbsqlc.Queries, tenant string, operations, keys []string) error {
				_, err := q.ExpireKeys(ctx, dbsqlc.ExpireKeysParams{TenantID: tenant, Operations: operations,
					Keys: keys, Audit: hidden})
				return err
			}},
		"delete": {search: "delete",
			from: ExpiredStatus, column: "delete_after", waiting: "true", take: deleteKeys, takeTx: deleteTx,
			held: true,
			statement: func(ctx context.Context, q *dbsqlc.Queries, tenant string, operations, keys []string) error {
				_, err := q.DeleteKeys(ctx, dbsqlc.DeleteKeysParams{TenantID: tenant, Operations: operations,
					Keys: keys})
				return err
			}},
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

// column is what a query of one column returns.
func column[T any](b *bench, sql string) []T {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), sql)
	if err != nil {
		b.t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

// wantWaiting checks which keys have not been taken.
func (w walk) wantWaiting(b *bench, want ...int) {
	b.t.Helper()
	got := column[int](b, "SELECT right(key, 1)::int FROM idempotency_keys WHERE "+w.waiting+" ORDER BY key")
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

// A statement takes the keys that it is given, and not the neighbours that differ in one part of their name.
func TestWalkTakesNoNeighbours(t *testing.T) {
	t.Parallel()
	eachWalk(t, func(b *bench, w walk) {
		mine := b.ref
		other := mine
		other.Operation = "POST /refunds"
		for _, b.ref = range []Ref{other, refOf(b.t, "globex", "order-0000000004")} {
			b.putInto(w.from)
		}
		b.unguarded("UPDATE idempotency_keys SET " + w.column + " = clock_timestamp()")
		names := func(from string) []string {
			return column[string](b, "SELECT DISTINCT tenant_id || ' ' || operation || ' ' || key FROM "+from+" ORDER BY 1")
		}
		others := func() []string {
			return names("idempotency_key_events WHERE (tenant_id, operation, right(key, 1)) <> ('acme', 'POST /payments', '4')")
		}
		timelines := others()
		if err := w.statement(b.t.Context(), dbsqlc.New(b.pool), "acme", []string{string(mine.Operation)},
			[]string{"order-0000000004"}); err != nil {
			b.t.Fatal(err)
		}
		want := []string{"acme POST /payments order-0000000000", "acme POST /payments order-0000000001",
			"acme POST /payments order-0000000002", "acme POST /payments order-0000000003",
			"acme POST /refunds order-0000000004", "globex POST /payments order-0000000004"}
		if diff := cmp.Diff(want, names("idempotency_keys WHERE "+w.waiting)); diff != "" {
			b.t.Errorf("waiting keys differ (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(timelines, others()); diff != "" {
			b.t.Errorf("timelines of other keys differ (-want +got):\n%s", diff)
		}
	})
}

// Between the search and the statement, another process may have come by.
func TestWalkLeavesWhatHasChangedSinceItWasFound(t *testing.T) {
	t.Parallel()
	eachWalk(t, func(b *bench, w walk) {
		changes := []string{w.column + " = clock_timestamp() + interval '1 hour'"}
		if w.held {
			changes = append(changes, w.column+" = clock_timestamp(), dead_letter_hold = 'expiry'")
		}
		before := b.count("SELECT count(*) FROM idempotency_keys WHERE " + w.waiting)
		for _, change := range changes {
			b.unguarded("UPDATE idempotency_keys SET " + change)
			var operations, keys []string
			for n := range 5 {
				operations, keys = append(operations, "POST /payments"), append(keys, fmt.Sprintf("order-%010d", n))
			}
			if err := w.statement(b.t.Context(), dbsqlc.New(b.pool), "acme", operations, keys); err != nil {
				b.t.Fatal(err)
			}
			if n := b.count("SELECT count(*) FROM idempotency_keys WHERE " + w.waiting); n != before {
				b.t.Errorf("after %s, %d of %d keys were taken", change, before-n, before)
			}
		}
	})
}
