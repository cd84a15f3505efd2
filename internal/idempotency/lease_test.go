package idempotency

import (
	"testing"
	"time"
	"unsafe"

	"github.com/google/uuid"

	"payonce/internal/postgres"
)

func TestRunningLeaseIsNotOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease := b.own()
	// Not even for one who has read it as over, wrongly or long ago.
	seen := snapshot{KeyRow: b.row(), leaseOver: true}
	b.expireLease(LeaseOver{seen})
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
	over := is[LeaseOver](t, b.reserve(b.reservation()))
	if over.Subject() != lease.Subject() || !over.KeyExpires().Equal(lease.KeyExpires()) {
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
	is[Execute](t, b.retake(c, is[Retake](t, b.reserve(c))))
	b.endLease()
	seen := snapshot{KeyRow: b.row()}
	for name, change := range map[string]func(*snapshot){
		"attempt":    func(s *snapshot) { s.Attempt-- },
		"generation": func(s *snapshot) { s.Generation++ },
	} {
		stale := seen
		change(&stale)
		b.expireLease(LeaseOver{stale})
		if b.row().Status != InProgressStatus {
			t.Fatalf("a request that saw another %s ended the lease", name)
		}
	}
	b.expireLease(LeaseOver{seen})
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
			is[LeaseOver](t, b.reserve(b.reservation()))
			peeked, err := b.keys.Peek(t.Context(), b.reservation())
			if err != nil {
				t.Fatal(err)
			}
			b.expireLease(is[LeaseOver](t, peeked))
			b.wantStatus(UnknownStatus, 1, 1)
		})
	}
}

// clock_timestamp and not now(): a statement that has waited for a lock lives in a transaction that began long before.
func TestLeaseIsCountedFromTheStatementAndNotFromItsTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	var begun, locked time.Time
	if err := tx.QueryRow(t.Context(), "SELECT now() FROM pg_sleep(0.05)").Scan(&begun); err != nil {
		t.Fatal(err)
	}
	var d Decision
	if err := postgres.PipelineTx(t.Context(), tx, b.reserving(b.reservation(), &d)); err != nil {
		t.Fatal(err)
	}
	if err := tx.QueryRow(t.Context(), "SELECT locked_until FROM idempotency_keys").Scan(&locked); err != nil {
		t.Fatal(err)
	}
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

func TestTermsThatWouldExecuteTwiceAreRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Terms){
		"no lease":                       func(x *Terms) { x.Lease = 0 },
		"no retention":                   func(x *Terms) { x.Retention = 0 },
		"no memory":                      func(x *Terms) { x.PSPMemory = 0 },
		"kept shorter than remembered":   func(x *Terms) { x.Retention = x.PSPMemory - 1 },
		"lease as long as the memory":    func(x *Terms) { x.Lease = x.PSPMemory },
		"lease longer than the memory":   func(x *Terms) { x.Lease = x.PSPMemory + 1 },
		"negative":                       func(x *Terms) { x.Lease = -1 },
		"all zero":                       func(x *Terms) { *x = Terms{} },
		"negative retention, and memory": func(x *Terms) { x.Retention, x.PSPMemory = -1, -2 },
		"resolved while the owner sends": func(x *Terms) { x.GracePeriod = x.Lease - 1 },
		"resolved when all is forgotten": func(x *Terms) { x.GracePeriod = x.PSPMemory },
		"lookup before the loss":         func(x *Terms) { x.FirstLookup = -1 },
		"deleted before it expires":      func(x *Terms) { x.Audit = -1 },
	} {
		terms := testTerms()
		spoil(&terms)
		if terms.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	terms := testTerms()
	terms.Retention = terms.PSPMemory
	if err := terms.Check(); err != nil {
		t.Errorf("kept as long as remembered: %v", err)
	}
	terms.GracePeriod, terms.FirstLookup, terms.Audit = terms.Lease, 0, 0
	if err := terms.Check(); err != nil {
		t.Errorf("looked up and deleted at once: %v", err)
	}
}
