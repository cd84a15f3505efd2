package postgres_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
)

// ferry is a DB with one lane, which the test holds until it lets go.
type ferry struct {
	*postgres.DB
	t     *testing.T
	key   pgx.Tx // holds an advisory lock that the transaction in the lane waits for
	first chan error
}

// crowd holds the only lane by a transaction that waits.
func crowd(t *testing.T, edit ...func(*postgres.Limits)) *ferry {
	t.Helper()
	l := limits()
	l.Sharing = postgres.Sharing{Lanes: 1, Parties: 64}
	for _, e := range edit {
		e(&l)
	}
	f := &ferry{DB: open(t, l), t: t, first: make(chan error, 1)}
	run(t, f.DB, "CREATE TABLE boarded (seat bigserial, name text, CONSTRAINT boarded_name_unique UNIQUE (name))")
	f.key = f.lock(1)
	go func() {
		f.first <- f.SendShared(t.Context(), "", func(b *pgx.Batch) { b.Queue("SELECT pg_advisory_xact_lock(1)") })
	}()
	f.await(func() bool { return f.busy() == 1 })
	return f
}

// lock takes an advisory lock in a session of its own.
func (f *ferry) lock(n int) pgx.Tx {
	f.t.Helper()
	conn, err := pgx.ConnectConfig(f.t.Context(), f.Pool().Config().ConnConfig)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.Begin(f.t.Context())
	if err == nil {
		_, err = tx.Exec(f.t.Context(), "SELECT pg_advisory_xact_lock($1)", n)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return tx
}

// await returns once something is so.
func (f *ferry) await(so func() bool) {
	f.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); !so(); <-tick.C {
		if time.Since(began) > 30*time.Second {
			f.t.Fatal("it did not come about")
		}
	}
}

func (f *ferry) busy() int {
	busy, _ := f.Lanes()
	return busy
}

func (f *ferry) waiting() int {
	_, waiting := f.Lanes()
	return waiting
}

// leave lets the transaction in the lane end.
func (f *ferry) leave() {
	f.t.Helper()
	if err := f.key.Rollback(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	if err := <-f.first; err != nil {
		f.t.Fatal(err)
	}
}

// boards has a party wait for the lane, and returns when it does.
func (f *ferry) boards(ctx context.Context, order string, queue func(*pgx.Batch)) <-chan error {
	f.t.Helper()
	before, done := f.waiting(), make(chan error, 1)
	go func() { done <- f.SendShared(ctx, order, queue) }()
	f.await(func() bool { return f.waiting() == before+1 })
	return done
}

// seat is the statement of a party.
func seat(name string) func(*pgx.Batch) {
	return func(b *pgx.Batch) { b.Queue("INSERT INTO boarded (name) VALUES ($1)", name) }
}

func (f *ferry) transactions() int {
	f.t.Helper()
	return read[int](f.t, f.DB, "SELECT count(DISTINCT xmin::text) FROM boarded")
}

func TestThoseWhoWaitShareOneCommitAndLockInOrder(t *testing.T) {
	t.Parallel()
	f := crowd(t)
	var waiting []<-chan error
	for _, name := range []string{"c", "a", "e", "b", "d"} {
		waiting = append(waiting, f.boards(t.Context(), name, seat(name)))
	}
	f.leave()
	for _, done := range waiting {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if n := f.transactions(); n != 1 {
		t.Fatalf("5 parties took %d transactions", n)
	}
	order := read[[]string](t, f.DB, "SELECT array_agg(name ORDER BY seat) FROM boarded")
	if want := []string{"a", "b", "c", "d", "e"}; !slices.Equal(order, want) {
		t.Fatalf("the rows were written in the order %v", order)
	}
	if f.busy() != 0 || f.waiting() != 0 {
		t.Fatalf("%d lanes are taken, %d wait", f.busy(), f.waiting())
	}
}

func TestWhoFindsALaneSendsAtOnce(t *testing.T) {
	t.Parallel()
	f := crowd(t, func(l *postgres.Limits) { l.Sharing.Lanes = 2 })
	if err := f.SendShared(t.Context(), "a", seat("a")); err != nil {
		t.Fatal(err)
	}
	f.leave()
}

func TestWithoutLanesNobodyWaits(t *testing.T) {
	t.Parallel()
	l := limits()
	l.Sharing = postgres.Sharing{}
	db := open(t, l)
	if err := db.SendShared(t.Context(), "a", func(b *pgx.Batch) { b.Queue("INSERT INTO notes VALUES (1)") }); err != nil {
		t.Fatal(err)
	}
	if busy, _ := db.Lanes(); notes(t, db) != 1 || busy != 0 {
		t.Fatalf("%d rows, %d lanes taken", notes(t, db), busy)
	}
}

// Somebody holds the rows of a few keys: an operator's session, another program. The payments of all others go on.
func TestTransactionThatIsHeldUpGivesItsLaneAway(t *testing.T) {
	t.Parallel()
	f := crowd(t, func(l *postgres.Limits) { l.Sharing.Overtime = 20 * time.Millisecond })
	for _, name := range []string{"a", "b", "c"} {
		if err := f.SendShared(t.Context(), name, seat(name)); err != nil {
			t.Fatal(err)
		}
	}
	f.leave()
	f.await(func() bool { return f.busy() == 0 })
	// A bundle, too; and what it gave away it does not give back once more.
	f.key = f.lock(1)
	go func() {
		f.first <- f.SendShared(t.Context(), "", func(b *pgx.Batch) { b.Queue("SELECT pg_advisory_xact_lock(1)") })
	}()
	f.await(func() bool { return f.busy() == 1 })
	if err := f.SendShared(t.Context(), "d", seat("d")); err != nil {
		t.Fatal(err)
	}
	f.leave()
	if busy, waiting := f.Lanes(); busy != 0 || waiting != 0 {
		t.Fatalf("%d lanes are taken, %d wait", busy, waiting)
	}
}

// One party's row is held by somebody else. Its company waits for a moment, and it alone for as long as it takes.
func TestBundleIsNotHeldUpByOnePartysLock(t *testing.T) {
	t.Parallel()
	f := crowd(t, func(l *postgres.Limits) {
		l.StatementTimeout, l.LockTimeout, l.Sharing.LockTimeout = 0, 0, 50*time.Millisecond
	})
	elsewhere := f.lock(2)
	held := f.boards(t.Context(), "a", func(b *pgx.Batch) { b.Queue("SELECT pg_advisory_xact_lock(2)") })
	other := f.boards(t.Context(), "b", seat("b"))
	f.leave()
	if err := <-other; err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-held:
		t.Fatalf("it did not wait for its lock: %v", err)
	default:
	}
	if err := elsewhere.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	if left := read[string](t, f.DB, "SELECT current_setting('lock_timeout')"); left != "0" {
		t.Fatalf("the session's own limit has become %s", left)
	}
}

// Callbacks write to what the caller holds, so it cannot leave a bundle. One whose time is short does not enter it.
func TestCallerInAHurryGoesAlone(t *testing.T) {
	t.Parallel()
	f := crowd(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a bundle may take 30 s for a lane and 10 s for itself
	defer cancel()
	if err := f.SendShared(ctx, "a", seat("a")); err != nil {
		t.Fatal(err)
	}
	f.leave()
}

func TestBundlesAreBounded(t *testing.T) {
	t.Parallel()
	f := crowd(t, func(l *postgres.Limits) { l.Sharing.Parties = 2 })
	var waiting []<-chan error
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		waiting = append(waiting, f.boards(t.Context(), name, seat(name)))
	}
	f.leave()
	for _, done := range waiting {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if n := f.transactions(); n != 3 {
		t.Fatalf("5 parties by twos took %d transactions", n)
	}
}

// One party's error rolls the bundle back. The others must not notice, and it must hear of its own.
func TestErrorOfOnePartyIsItsOwn(t *testing.T) {
	t.Parallel()
	f := crowd(t)
	run(t, f.DB, "INSERT INTO boarded (name) VALUES ('taken')")
	var queued [3]atomic.Int32
	counting := func(i int, name string) func(*pgx.Batch) {
		return func(b *pgx.Batch) {
			queued[i].Add(1)
			seat(name)(b)
		}
	}
	first := f.boards(t.Context(), "a", counting(0, "a"))
	second := f.boards(t.Context(), "b", counting(1, "taken"))
	third := f.boards(t.Context(), "c", counting(2, "c"))
	f.leave()
	if err := errors.Join(<-first, <-third); err != nil {
		t.Fatalf("somebody else's error: %v", err)
	}
	if err := <-second; !postgres.Violates(err, "boarded_name_unique") || !postgres.RolledBack(err) {
		t.Fatalf("its own error is %v", err)
	}
	if n := read[int](t, f.DB, "SELECT count(*) FROM boarded"); n != 3 {
		t.Fatalf("%d rows, want 3", n)
	}
	for i := range queued {
		if n := queued[i].Load(); n != 2 {
			t.Errorf("party %d was queued %d times: once in company, once alone", i, n)
		}
	}
}

func TestPartyGivesUpWhenNoLaneBecomesFree(t *testing.T) {
	t.Parallel()
	f := crowd(t, func(l *postgres.Limits) { l.Acquire = time.Second }) // the first party needs its connection within it
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"no lane in time": t.Context(), "its caller has gone": gone} {
		err := f.SendShared(ctx, "a", func(*pgx.Batch) { t.Errorf("%s: it was sent all the same", name) })
		if !postgres.Unavailable(err) || !postgres.RolledBack(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := f.waiting(); n != 0 {
		t.Errorf("%d wait still", n)
	}
	f.leave()
}

// A bundle belongs to all of its parties: it does not end with the caller of the one that happens to lead.
func TestBundleOutlivesItsLeadersCaller(t *testing.T) {
	t.Parallel()
	f := crowd(t)
	inside := f.lock(2)
	ctx, cancel := context.WithCancel(t.Context())
	leader := f.boards(ctx, "a", func(b *pgx.Batch) { b.Queue("SELECT pg_advisory_xact_lock(2)") })
	other := f.boards(t.Context(), "b", seat("b"))
	f.leave()
	f.await(func() bool { return f.waiting() == 0 })
	cancel()
	if err := inside.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-leader, <-other); err != nil {
		t.Fatal(err)
	}
	if n := f.transactions(); n != 1 {
		t.Fatalf("%d transactions", n)
	}
}

// A bug in one party must not leave the others waiting for ever, nor the lane taken.
func TestPanicOfOnePartyFreesTheOthers(t *testing.T) {
	t.Parallel()
	f := crowd(t)
	recovered := make(chan any, 1)
	go func() {
		defer func() { recovered <- recover() }()
		_ = f.SendShared(t.Context(), "a", func(*pgx.Batch) { panic("a bug") })
	}()
	f.await(func() bool { return f.waiting() == 1 })
	other := f.boards(t.Context(), "b", seat("b"))
	f.leave()
	if <-recovered == nil {
		t.Fatal("the panic was swallowed")
	}
	if err := <-other; err == nil || postgres.RolledBack(err) {
		t.Fatalf("the other party is told %v: nobody knows", err)
	}
	f.await(func() bool { return f.busy() == 0 })
	if err := f.SendShared(t.Context(), "c", seat("c")); err != nil {
		t.Fatal(err)
	}
}
