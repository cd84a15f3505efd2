package idempotency

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
)

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
	is[Execute](t, b.retake(c, is[Retake](t, b.reserve(c))))
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

// The caller enqueues the lookups in the transaction of the sweep: without its commit nothing has happened.
func TestSweepAndReservationArePartOfTheCallersTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, c := range map[string]struct {
		from   Status
		column string
		take   func(context.Context, pgx.Tx, int32, time.Duration) ([]Due, error)
	}{
		"sweep": {InProgressStatus, "locked_until", b.keys.SweepTx},
		"claim": {UnknownStatus, "reconcile_after", b.keys.ClaimDueTx},
	} {
		b.again().putInto(c.from)
		b.unguarded("UPDATE idempotency_keys SET " + c.column + " = clock_timestamp()")
		before := b.frozen()
		tx := b.open(t.Context())
		if due, err := c.take(t.Context(), tx, 10, time.Hour); err != nil || len(due) != 1 {
			t.Fatalf("%s: %+v, %v", name, due, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after := b.frozen(); after != before {
			t.Errorf("%s: was %s, is %s", name, before, after)
		}
	}
}

func TestOwnerWhoCompletesFirstIsNotSwept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()
	lease := b.own()
	b.endLease()
	var out GuardResult
	tx := b.open(ctx, b.completing(lease, false, answer("just in time"), &out))
	if due := b.sweep(10, time.Hour); len(due) != 0 {
		t.Fatalf("swept under its owner's hands: %+v", due)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if due := b.sweep(10, time.Hour); !out.Passed || len(due) != 0 {
		t.Fatalf("through is %t, swept was %+v", out.Passed, due)
	}
	b.wantStatus(CompletedStatus, 1, 1)
	b.wantTimeline()
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
		"release": func(l Lease, out *GuardResult) postgres.Call { return b.keys.Release(l, "late", out) },
		"lose":    func(l Lease, out *GuardResult) postgres.Call { return b.keys.Lose(l, "late", nil, out) },
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
	if !b.completeLost(Lease{ref: b.ref, subject: b.row().Subject, attempt: 1, generation: 1}, answer("late")) {
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
	over := is[LeaseOver](t, b.reserve(b.reservation()))
	tx := b.open(ctx)
	if due, err := b.keys.SweepTx(ctx, tx, 10, time.Hour); err != nil || len(due) != 1 {
		t.Fatalf("%+v, %v", due, err)
	}
	b.commits(ctx, tx, b.inBackground(ctx, b.keys.ExpireLease(over)))
	b.wantTimeline("sweeper in_progress>unknown 1/1 lease over")
}
