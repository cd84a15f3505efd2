package idempotency

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency/internal/dbsqlc"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
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
	return pgtest.Values[T](b.t, b.pool, sql)
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

// inTx runs do in a transaction that commits.
func (b *bench) inTx(do func(context.Context, pgx.Tx) error) {
	b.t.Helper()
	ctx, cancel := b.patient()
	defer cancel()
	if err := b.db.Transact(ctx, do); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) sweep(limit int32, visibility time.Duration) (due []Due) {
	b.t.Helper()
	b.inTx(func(ctx context.Context, tx pgx.Tx) (err error) {
		due, err = b.keys.SweepTx(ctx, tx, limit, visibility)
		return err
	})
	return due
}

func (b *bench) claimDue(limit int32, visibility time.Duration) (due []Due) {
	b.t.Helper()
	b.inTx(func(ctx context.Context, tx pgx.Tx) (err error) {
		due, err = b.keys.ClaimDueTx(ctx, tx, limit, visibility)
		return err
	})
	return due
}

// wantDue checks that the test's key, in this generation, is what was taken.
func (b *bench) wantDue(got []Due, generation int32) {
	b.t.Helper()
	if diff := cmp.Diff([]Due{{Ref: b.ref, Generation: generation, Subject: b.row().Subject}}, got,
		cmp.Comparer(sameKey)); diff != "" {
		b.t.Fatalf("taken differs:\n%s", diff)
	}
}

func TestSweptKeyIsUnknownAndHiddenForTheVisibility(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(ExpiredStatus)
	c := b.reservation()
	is[Execute](t, b.retake(c, is[Free](t, b.reserve(c))))
	b.endLease()
	lapsed := b.clock()
	b.wantDue(b.sweep(10, time.Hour), 2)
	b.wantStatus(UnknownStatus, 1, 2)
	b.wantTimeline("pruner completed>expired 1/1 retention over", "request expired>in_progress 1/2 reserved again",
		"sweeper in_progress>unknown 1/2 lease over")
	if lost, _ := b.dates(); lost.Before(lapsed) {
		t.Fatal("the grace period began before the sweep: the owner could have sent until then")
	}
	is[Unknown](t, b.reserve(b.reservation()))
	b.comesBack()
}

func TestClaimedKeyComesBackAfterTheVisibility(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(UnknownStatus)
	b.unguarded("UPDATE idempotency_keys SET reconcile_after = clock_timestamp()")
	events := len(b.events())
	b.wantDue(b.claimDue(10, time.Hour), 1)
	b.wantStatus(UnknownStatus, 1, 1)
	if len(b.events()) != events {
		t.Fatal("the timeline has a line about ClaimDue, which is no transition")
	}
	b.comesBack()
}

// comesBack checks that the test's key has just been hidden for an hour, and is claimed again after it.
func (b *bench) comesBack() {
	b.t.Helper()
	if left := b.count("SELECT round(extract(epoch FROM reconcile_after - clock_timestamp()) / 60)::int FROM idempotency_keys"); left != 60 {
		b.t.Fatalf("hidden for %d min, want 60", left)
	}
	if due := b.claimDue(10, time.Hour); len(due) != 0 {
		b.t.Fatalf("a hidden key was claimed: %+v", due)
	}
	b.unguarded("UPDATE idempotency_keys SET reconcile_after = reconcile_after - interval '1 hour'")
	b.wantDue(b.claimDue(10, time.Hour), b.row().Generation)
}

func TestOwnerWhoIsSweptFirstIsFenced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()
	for name, write := range map[string]func(Lease, *GuardResult) postgres.Call{
		"complete": func(l Lease, out *GuardResult) postgres.Call {
			return b.completing(l, false, answer("late"),
				out)
		},
		"release": func(l Lease, out *GuardResult) postgres.Call { return b.keys.Release(l, "late", false, out) },
		"lose":    func(l Lease, out *GuardResult) postgres.Call { return b.keys.Lose(l, "late", nil, false, out) },
	} {
		lease := b.again().own()
		b.endLease()
		tx := b.open(ctx)
		if due, err := b.keys.SweepTx(ctx, tx, 10, time.Hour); err != nil || len(due) != 1 {
			t.Fatalf("%+v, %v", due, err)
		}
		out := GuardResult{Passed: true}
		b.commits(ctx, tx, b.inBackground(ctx, write(lease, &out)))
		if out.Passed {
			t.Fatalf("%s: an owner wrote whose lease the sweeper has ended", name)
		}
		b.wantStatus(UnknownStatus, 1, 1)
		b.wantTimeline("sweeper in_progress>unknown 1/1 lease over")
	}
	// What it holds is evidence all the same.
	late := Lease{execution: Execution{Ref: b.ref, Subject: b.row().Subject, Attempt: 1, Generation: 1}}
	if !b.completeLost(late, answer("late")) {
		t.Fatal("the late success is lost")
	}
}

// A request that has met the same expired lease waits, and then finds that there is nothing left to do.
func TestRequestAndSweeperEndALeaseOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()
	b.own()
	b.endLease()
	over := isOver(t, b.reserve(b.reservation()))
	tx := b.open(ctx)
	if due, err := b.keys.SweepTx(ctx, tx, 10, time.Hour); err != nil || len(due) != 1 {
		t.Fatalf("%+v, %v", due, err)
	}
	b.commits(ctx, tx, b.inBackground(ctx, b.keys.expireLease(over.KeyRow)))
	b.wantTimeline("sweeper in_progress>unknown 1/1 lease over")
}
