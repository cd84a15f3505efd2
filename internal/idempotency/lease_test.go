package idempotency

import (
	"context"
	"testing"
	"time"
	"unsafe"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

func TestRunningLeaseIsNotOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease := b.own()
	// Not even for one who has read it as over, wrongly or long ago.
	seen := snapshot{KeyRow: b.row(), leaseOver: true}
	b.expireLease(InProgress{KeyRow: seen.KeyRow})
	b.wantStatus(InProgressStatus, 1, 1)
	if !b.complete(lease, answer("done")) {
		t.Fatal("the owner could not complete")
	}
}

func TestRequestThatMeetsAnExpiredLeaseMakesTheKeyUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease := b.own()
	b.endLease()
	over := isOver(t, b.reserve(b.reservation()))
	if over.Subject != lease.Subject || !over.Expires.Equal(lease.KeyExpires()) {
		t.Fatalf("lease over is %+v", over)
	}
	b.wantStatus(InProgressStatus, 1, 1) // reading it decides nothing
	b.expireLease(over)
	b.wantStatus(UnknownStatus, 1, 1)
	is[Unknown](t, b.reserve(b.reservation()))
	if n := b.count("SELECT count(*) FROM idempotency_keys WHERE reconcile_after <= clock_timestamp()"); n != 1 {
		t.Fatal("nobody will look after the unknown key")
	}
	b.expireLease(over) // a second request that saw the same
	b.wantTimeline("request in_progress>unknown 1/1 lease over")
}

func TestExpiredLeaseOfAnotherAttemptIsNotTouched(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.release(b.own())
	c := b.reservation()
	is[Execute](t, b.retake(c, is[Free](t, b.reserve(c))))
	b.endLease()
	seen := snapshot{KeyRow: b.row()}
	for name, change := range map[string]func(*snapshot){
		"attempt":    func(s *snapshot) { s.Attempt-- },
		"generation": func(s *snapshot) { s.Generation++ },
	} {
		stale := seen
		change(&stale)
		b.expireLease(InProgress{KeyRow: stale.KeyRow})
		if b.row().Status != InProgressStatus {
			t.Fatalf("a request that saw another %s ended the lease", name)
		}
	}
	b.expireLease(InProgress{KeyRow: seen.KeyRow})
	b.wantStatus(UnknownStatus, 2, 1)
}

// The lease is the database's: a process whose clock is wrong neither sees leases end early nor gives longer ones.
func TestExpiredLeaseDecidedByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"fast": 10 * time.Minute, "slow": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.keys = New(b.db, testTerms(), func() time.Time { return time.Now().Add(skew) })
			b.own()
			is[InProgress](t, b.reserve(b.reservation()))
			if left := b.count("SELECT extract(epoch FROM locked_until - clock_timestamp())::int FROM idempotency_keys"); left < 5 || left > 30 {
				t.Fatalf("%d s are left of a lease of 30 s", left)
			}
			b.endLease()
			over := isOver(t, b.reserve(b.reservation()))
			peeked, err := b.keys.Peek(t.Context(), b.reservation())
			if err != nil {
				t.Fatal(err)
			}
			is[Unknown](t, peeked)
			b.expireLease(over)
			b.wantStatus(UnknownStatus, 1, 1)
		})
	}
}

// clock_timestamp and not now(): a statement that has waited for a lock lives in a transaction that began long before.
func TestLeaseIsCountedFromTheStatementAndNotFromItsTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tx := pgtest.Begin(t, b.pool)
	begun := pgtest.Value[time.Time](t, tx, "SELECT now() FROM pg_sleep(0.05)")
	var d Decision
	if err := postgres.PipelineTx(t.Context(), tx, b.reserving(b.reservation(), &d)); err != nil {
		t.Fatal(err)
	}
	locked := pgtest.Value[time.Time](t, tx, "SELECT locked_until FROM idempotency_keys")
	if late := locked.Sub(begun) - testTerms().Lease; late < 50*time.Millisecond {
		t.Fatalf("the lease was counted from %s after the transaction's start", late)
	}
}

// A paused owner is one that was not running: asleep with its machine, stopped, or starved. The monotonic clock stands
// still while a machine is suspended, the wall clock may have been set back meanwhile: either one is enough.
func TestPausedOwner(t *testing.T) {
	t.Parallel()
	limit := testTerms().MaxPause()
	if limit != 10*time.Second {
		t.Fatalf("an owner of a lease of 30 s may be paused for %s, want a third", limit)
	}
	for name, c := range map[string]struct {
		monotonic, wall time.Duration
		paused          bool
	}{
		"at once":                          {0, 0, false},
		"at the limit":                     {limit, limit, false},
		"past the limit":                   {limit + time.Second, limit + time.Second, true},
		"suspended within the limit":       {time.Second, limit, false},
		"suspended past the limit":         {time.Second, limit + time.Second, true},
		"starved, with the clock set back": {limit + time.Second, -time.Hour, true},
		"clock set back":                   {time.Second, -time.Hour, false},
	} {
		asked := time.Now()
		now := asked
		k := New(nil, testTerms(), func() time.Time { return now })
		reservation := k.NewReservation(Ref{}, Fingerprint{}, uuid.New(), uuid.New())
		now = clocksAt(t, asked, c.monotonic, c.wall)
		if got := k.Paused(Lease{asked: reservation.asked}); got != c.paused {
			t.Errorf("%s: paused is %t", name, got)
		}
	}
}

// clocksAt is what time.Now gives after the two clocks have gone different ways. Package time lets nobody build that,
// so it is written into the bits that time/time.go describes; the check below notices if they change.
func clocksAt(t *testing.T, start time.Time, monotonic, wall time.Duration) time.Time {
	t.Helper()
	later := start.Add(monotonic)
	apart := int64((wall - monotonic) / time.Second)
	*(*uint64)(unsafe.Pointer(&later)) += uint64(apart) << 30
	if later.Sub(start) != monotonic || later.Round(0).Sub(start.Round(0)) != wall {
		t.Fatalf("package time has changed: clocks went %s and %s, want %s and %s",
			later.Sub(start), later.Round(0).Sub(start.Round(0)), monotonic, wall)
	}
	return later
}

func TestPauseIsCountedFromTheReservationAndNotFromTheLease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := time.Now()
	b.keys = New(b.db, testTerms(), func() time.Time { return now })
	c := b.reservation()
	now = now.Add(testTerms().MaxPause() + 1) // the database took that long
	lease := is[Execute](t, b.reserve(c)).Lease
	if !b.keys.Paused(lease) {
		t.Fatal("the time that the reservation took does not count")
	}
	// A reservation that is sent again is as old as before.
	if again := is[Execute](t, b.reserve(c)).Lease; !b.keys.Paused(again) {
		t.Fatal("repeating the reservation has made it young again")
	}
}

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
			pgtest.Exec(t, tx, "UPDATE waits SET note = 'rival'")
			conn, err := b.pool.Acquire(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			pgtest.Exec(t, conn, "SET enable_seqscan = off; SET enable_bitmapscan = off")
			late := make(chan pgconn.CommandTag, 1)
			go func() {
				tag, _ := conn.Exec(ctx, c.sql) // a failure has changed -1 rows
				late <- tag
			}()
			pgtest.AwaitLock(b.t, b.pool)
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
			free := is[Free](t, b.reserve(reservation))
			tx := b.open(ctx)
			pgtest.Exec(t, tx, "UPDATE idempotency_keys SET lookup_failures = lookup_failures")
			var d Decision
			behind := b.inBackground(ctx, b.keys.retake(reservation, free.snapshot, &d))
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
			if !pgtest.Value[bool](t, b.pool, "SELECT k.locked_until <= r.at + $1::interval FROM idempotency_keys AS k, released AS r",
				testTerms().Lease) {
				t.Error("the lease counts from after the wait")
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
		if n := b.count("SELECT count(*) FROM idempotency_keys WHERE created_at = reserved_at AND locked_until = created_at + $1::interval", testTerms().Lease); n != 1 {
			t.Fatal("the times of a reservation differ")
		}
	}
}
