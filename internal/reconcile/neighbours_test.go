package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/reconcile/internal/dbsqlc"
	"payonce/test/pgtest"
)

// amidWalks is a transaction with walks that differ in a part of their names, and come first in every order.
func amidWalks(c *crew, edits ...string) pgx.Tx {
	c.t.Helper()
	tx := pgtest.Begin(c.t, c.pool)
	for _, sql := range append([]string{`INSERT INTO ledger_watermarks (account, object, scanned_to, resume_after, walk_began)
		SELECT account, object, '2026-01-01', '2026-01-01', '2026-01-02'
		FROM unnest(ARRAY['acme', 'an-account']) AS account, unnest(ARRAY['charge', 'refund']) AS object`}, edits...) {
		pgtest.Exec(c.t, tx, sql)
	}
	return tx
}

func TestWalkWritesNoNeighbour(t *testing.T) {
	t.Parallel()
	c := setup(t)
	began := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	later := began.Add(time.Hour)
	for name, row := range map[string]struct {
		edits []string
		do    func(context.Context, *dbsqlc.Queries) error
		want  string // what is changed; empty: nothing
	}{
		"advance walk": {nil, func(ctx context.Context, q *dbsqlc.Queries) error {
			return q.AdvanceWalk(ctx, dbsqlc.AdvanceWalkParams{Account: "acme", Object: "refund", WalkBegan: began,
				ReadTo: later})
		}, "acme refund"},
		"end walk": {nil, func(ctx context.Context, q *dbsqlc.Queries) error {
			return q.EndWalk(ctx, dbsqlc.EndWalkParams{Account: "acme", Object: "refund", WalkBegan: began})
		}, "acme refund"},
		"end walk of another run": {nil, func(ctx context.Context, q *dbsqlc.Queries) error {
			return q.EndWalk(ctx, dbsqlc.EndWalkParams{Account: "acme", Object: "refund", WalkBegan: later})
		}, ""},
		"fail walk": {nil, func(ctx context.Context, q *dbsqlc.Queries) error {
			_, err := q.FailWalk(ctx, dbsqlc.FailWalkParams{Account: "acme", Object: "refund", WalkBegan: began})
			return err
		}, "acme refund"},
		"fail walk of another run": {nil, func(ctx context.Context, q *dbsqlc.Queries) error {
			_, err := q.FailWalk(ctx, dbsqlc.FailWalkParams{Account: "acme", Object: "refund", WalkBegan: later})
			return ignored(err)
		}, ""},
		"fail walk that is at its end": {[]string{"UPDATE ledger_watermarks SET resume_after = NULL"},
			func(ctx context.Context, q *dbsqlc.Queries) error {
				_, err := q.FailWalk(ctx, dbsqlc.FailWalkParams{Account: "acme", Object: "refund", WalkBegan: began})
				return ignored(err)
			}, ""},
	} {
		s := amidWalks(c, row.edits...)
		pgtest.Exec(t, s, "CREATE TEMPORARY TABLE before ON COMMIT DROP AS SELECT * FROM ledger_watermarks")
		if err := row.do(t.Context(), dbsqlc.New(s)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := pgtest.Value[string](t, s, `SELECT coalesce(string_agg(account || ' ' || object, ', '), '') FROM
			(SELECT * FROM ledger_watermarks EXCEPT SELECT * FROM before) AS w`)
		if got != row.want {
			t.Errorf("%s: changed is %q, want %q", name, got, row.want)
		}
		if err := s.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// ignored takes a statement without a row for one that has passed no row.
func ignored(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

// A walk that fails asks whether its account has an open dead letter of that kind already.
func TestFailedWalkFindsTheDeadLetterOfItsAccount(t *testing.T) {
	t.Parallel()
	c := setup(t)
	const insert = `INSERT INTO dead_letters (id, kind, finding, reason, evidence, status)
		VALUES (gen_random_uuid(), '%s', '%s', 'x', '{}', '%s')`
	for name, row := range map[string]struct {
		kind, finding, status string
		want                  bool
	}{
		"its own":         {"scan_failing", "ledger acme charge", "open", true},
		"resolved":        {"scan_failing", "ledger acme charge", "resolved", false},
		"another kind":    {"unreadable_record", "ledger acme charge", "open", false},
		"another account": {"scan_failing", "ledger acme2 charge", "open", false},
	} {
		s := amidWalks(c, "ALTER TABLE dead_letters DROP CONSTRAINT dead_letters_resolution_iff_resolved",
			fmt.Sprintf(insert, row.kind, row.finding, row.status))
		r, err := dbsqlc.New(s).FailWalk(t.Context(), dbsqlc.FailWalkParams{Account: "acme", Object: "refund",
			WalkBegan: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Kind: string(deadletters.ScanFailing)})
		if err != nil || r.IsOpen != row.want {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if err := s.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// What has failed at both ledgers of an account is one case, so each of its walks locks both rows, and no other's.
func TestLedgersOfAnAccountAreLockedTogether(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.exec(`INSERT INTO ledger_watermarks (account, object, scanned_to)
		SELECT account, object, now() FROM unnest(ARRAY['acme', 'globex']) AS account, unnest(ARRAY['charge', 'refund']) AS object`)
	tx := pgtest.Begin(t, c.pool)
	if err := dbsqlc.New(tx).LockLedgers(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	free := pgtest.Values[string](t, c.pool, "SELECT account FROM ledger_watermarks FOR UPDATE SKIP LOCKED")
	if !slices.Equal(free, []string{"globex", "globex"}) {
		t.Errorf("not locked are %v", free)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}
