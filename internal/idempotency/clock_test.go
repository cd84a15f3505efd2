package idempotency

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What a condition on the time comes to that becomes false while its statement waits for a row
// (docs/adr/0029-one-clock.md). Behind somebody who has changed the row, PostgreSQL looks at it again and asks
// payonce_now again, also where the row was found by an index on the time. A subselect keeps the time that it had.
// Behind somebody who gave up, PostgreSQL does not look again.
func TestConditionOnTheTimeAfterAWait(t *testing.T) {
	t.Parallel()
	const (
		asFilter  = "UPDATE waits SET note = 'late' WHERE id = 1 AND until > payonce_now()"
		byIndex   = "UPDATE waits SET note = 'late' WHERE until > payonce_now()"
		subselect = "UPDATE waits SET note = 'late' WHERE id = 1 AND until > (SELECT payonce_now())"
	)
	for name, c := range map[string]struct {
		sql     string
		rivals  func(pgx.Tx, context.Context) error
		changed int64
	}{
		"filter, behind a change":           {asFilter, pgx.Tx.Commit, 0},
		"filter, behind one who gave up":    {asFilter, pgx.Tx.Rollback, 1},
		"index, behind a change":            {byIndex, pgx.Tx.Commit, 0},
		"index, behind one who gave up":     {byIndex, pgx.Tx.Rollback, 1},
		"subselect, behind a change":        {subselect, pgx.Tx.Commit, 1},
		"subselect, behind one who gave up": {subselect, pgx.Tx.Rollback, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			ctx, cancel := b.patient()
			defer cancel()
			b.exec(`CREATE TABLE waits (id integer PRIMARY KEY, until timestamptz, note text);
				CREATE INDEX waits_until ON waits (until);
				INSERT INTO waits VALUES (1, payonce_now() + interval '1 second', '')`)
			tx := b.open(ctx)
			if _, err := tx.Exec(ctx, "UPDATE waits SET note = 'rival'"); err != nil {
				t.Fatal(err)
			}
			conn, err := b.pool.Acquire(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			if _, err := conn.Exec(ctx, "SET enable_seqscan = off; SET enable_bitmapscan = off"); err != nil {
				t.Fatal(err)
			}
			late := make(chan pgconn.CommandTag, 1)
			go func() {
				tag, _ := conn.Exec(ctx, c.sql) // a failure has changed -1 rows
				late <- tag
			}()
			b.awaitBlocked(ctx)
			b.awaitOver(ctx, "SELECT until <= payonce_now() FROM waits")
			if err := c.rivals(tx, ctx); err != nil {
				t.Fatal(err)
			}
			if tag := <-late; !tag.Update() || tag.RowsAffected() != c.changed {
				t.Errorf("%d rows were changed, want %d", tag.RowsAffected(), c.changed)
			}
		})
	}
}

// awaitOver waits until the database's clock has made a condition true.
func (b *bench) awaitOver(ctx context.Context, sql string) {
	b.t.Helper()
	for over := false; !over; {
		if err := b.pool.QueryRow(ctx, sql).Scan(&over); err != nil {
			b.t.Fatal(err)
		}
	}
}

// The one statement of ours with such a condition is that of a retry: the PSP's memory of the key may end while it
// waits for the row. Behind a change, it does not pass then. Behind one who gave up it does, and its lease counts from
// before the wait: it is over the earlier for it. What it has beyond the PSP's memory is as long as the wait, which
// the longest wait for a lock bounds, and a retry leaves a whole lease.
func TestRetryWhoseTimeEndsWhileItWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rivals func(pgx.Tx, context.Context) error
		taken  bool
	}{"behind a change": {pgx.Tx.Commit, false}, "behind one who gave up": {pgx.Tx.Rollback, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			ctx, cancel := b.patient()
			defer cancel()
			b.putInto(FailedRetryableStatus)
			memory := testTerms().PSPMemory - testTerms().Lease // a retry has a whole lease left to send in
			b.exec("ALTER TABLE idempotency_keys DISABLE TRIGGER USER")
			b.exec("UPDATE idempotency_keys SET reserved_at = payonce_now() - $1::interval + interval '1 second'",
				memory)
			reservation := b.reservation()
			free := is[Retake](t, b.reserve(reservation))
			tx := b.open(ctx)
			if _, err := tx.Exec(ctx, "UPDATE idempotency_keys SET lookup_failures = lookup_failures"); err != nil {
				t.Fatal(err)
			}
			var d Decision
			behind := b.inBackground(ctx, b.keys.Retake(reservation, free, &d))
			b.exec("CREATE TABLE released AS SELECT payonce_now() AS at")
			b.awaitOver(ctx, "SELECT reserved_at + interval '"+memory.String()+
				"' <= payonce_now() FROM idempotency_keys")
			if err := c.rivals(tx, ctx); err != nil {
				t.Fatal(err)
			}
			if err := <-behind; err != nil {
				t.Fatal(err)
			}
			if _, taken := d.(Execute); taken != c.taken {
				t.Fatalf("decision is %T", d)
			}
			if !c.taken {
				return
			}
			var early bool
			err := b.pool.QueryRow(ctx,
				"SELECT k.locked_until <= r.at + $1::interval FROM idempotency_keys AS k, released AS r", testTerms().Lease).Scan(&early)
			if err != nil || !early {
				t.Errorf("the lease counts from after the wait: %t, %v", !early, err)
			}
		})
	}
}

// A reservation dates a key by one time, though the clock goes on while it is asked.
func TestReservationHasOneTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 20 {
		b.again().own()
		if n := b.counted("SELECT count(*) FROM idempotency_keys WHERE created_at = reserved_at AND locked_until = created_at + $1::interval", testTerms().Lease); n != 1 {
			t.Fatal("the times of a reservation differ")
		}
	}
}

func (b *bench) counted(sql string, args ...any) (n int) {
	b.t.Helper()
	if err := b.pool.QueryRow(b.t.Context(), sql, args...).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}
