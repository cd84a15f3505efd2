package pgproxy_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"payonce/test/pgproxy"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	put   = "-- name: Put :exec\nINSERT INTO notes (n) VALUES ($1)"
	count = "-- name: Count :one\nSELECT count(*) FROM notes"
)

// bundle is a proxy before a database with one empty table.
type bundle struct {
	proxy  *pgproxy.Proxy
	direct *pgx.Conn
}

func setup(t *testing.T) bundle {
	t.Helper()
	url := pgtest.NewURL(t)
	b := bundle{proxy: pgproxy.Start(t, url), direct: pgtest.Connect(t, url)}
	pgtest.Exec(t, b.direct, "CREATE TABLE notes (n int)")
	return b
}

// notes is what is really there.
func (b bundle) notes(t *testing.T) int {
	t.Helper()
	n := pgtest.Value[int](t, b.direct, count)
	return n
}

// puts sends a batch of two inserts, which is one round once they are prepared.
func puts(conn *pgx.Conn) error {
	batch := &pgx.Batch{}
	batch.Queue(put, 1)
	batch.Queue(put, 2)
	return conn.SendBatch(context.Background(), batch).Close()
}

func inBackground(do func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return done
}

func TestEverythingElsePassesUnchanged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := pgtest.Connect(t, b.proxy.URL())
	if _, err := conn.CopyFrom(t.Context(), pgx.Identifier{"notes"}, []string{"n"},
		pgx.CopyFromSlice(1000, func(i int) ([]any, error) {
			return []any{i}, nil
		})); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("ß", 1<<20)
	for range 3 { // prepared, then by name
		var got string
		var sum int
		if err := conn.QueryRow(t.Context(), "SELECT $1::text, (SELECT sum(n) FROM notes)", long).Scan(&got,
			&sum); err != nil {
			t.Fatal(err)
		}
		if got != long || sum != 499500 {
			t.Fatalf("%d bytes and %d came back", len(got), sum)
		}
	}
	if _, err := conn.Exec(t.Context(), "SELECT 1/0"); err == nil || !strings.Contains(err.Error(), "22012") {
		t.Fatalf("the server's error came back as %v", err)
	}
	pgtest.Exec(t, conn, "SELECT 1; SELECT 2", pgx.QueryExecModeSimpleProtocol)
}

// awaitSleep returns once a statement sleeps.
func (b bundle) awaitSleep(t *testing.T) {
	t.Helper()
	wait.Until(t, "a statement that sleeps", func() bool {
		return pgtest.Value[bool](t, b.direct, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event = 'PgSleep')`)
	})
}

func TestRequestToCancelPasses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := pgtest.Connect(t, b.proxy.URL())
	slept := inBackground(func() error {
		_, err := conn.PgConn().Exec(context.Background(), "SELECT pg_sleep(60)").ReadAll()
		return err
	})
	b.awaitSleep(t)
	if err := conn.PgConn().CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	var pg *pgconn.PgError
	if err := wait.For(t, "the client's return", slept); !errors.As(err, &pg) || pg.Code != "57014" {
		t.Fatalf("the statement ended with %v", err)
	}
}

func TestRoundsBearTheNamesOfTheirQueries(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := pgtest.Connect(t, b.proxy.URL())
	for range 2 {
		if err := puts(conn); err != nil {
			t.Fatal(err)
		}
	}
	tx := pgtest.Begin(t, conn)
	pgtest.Value[int](t, tx, count)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := [][]string{nil, {"Put", "Put"}, {"Put", "Put"}, {"begin"}, nil, {"Count"}, {"commit"}}
	if diff := cmp.Diff(want, b.proxy.Rounds()); diff != "" {
		t.Error(diff)
	}
	if b.proxy.RoundTrips() != len(want) || b.proxy.Sent("Put") != 2 || b.proxy.Sent("Get") != 0 {
		t.Errorf("%d round trips, Put sent %d times", b.proxy.RoundTrips(), b.proxy.Sent("Put"))
	}
	if b.proxy.SQL("Put") != put || b.proxy.SQL("Get") != "" {
		t.Errorf("the text of Put is %q", b.proxy.SQL("Put"))
	}
}

func TestRoundCutBeforeTheServerNeverHappens(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := pgtest.Connect(t, b.proxy.URL())
	cut := b.proxy.On("Put", pgproxy.CutBefore)
	if err := puts(conn); err == nil || !conn.IsClosed() {
		t.Fatalf("the client heard %v", err)
	}
	cut.Await(t)
	if err := puts(pgtest.Connect(t, b.proxy.URL())); err != nil {
		t.Fatalf("an event for one round has met two: %v", err)
	}
	if n := b.notes(t); n != 2 {
		t.Fatalf("%d notes, want those of the second round", n)
	}
}

func TestDroppedAcknowledgementIsOfACommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := pgtest.Connect(t, b.proxy.URL())
	lost := b.proxy.On("Put", pgproxy.DropAcknowledgement)
	err := puts(conn)
	var pg *pgconn.PgError
	if err == nil || errors.As(err, &pg) || !conn.IsClosed() {
		t.Fatalf("the client heard %v", err)
	}
	if n := b.notes(t); n != 2 { // at once: nothing to wait for
		t.Fatalf("%d notes, want 2", n)
	}
	lost.Await(t)
}

// A long answer begins to arrive before the commit.
func TestAcknowledgementIsDroppedOnlyAfterItsEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := pgtest.Connect(t, b.proxy.URL())
	b.proxy.On("Put", pgproxy.DropAcknowledgement)
	batch := &pgx.Batch{}
	batch.Queue("SELECT repeat('x', 1000000)")
	batch.Queue("SELECT pg_sleep(0.1)")
	batch.Queue(put, 1)
	if err := conn.SendBatch(t.Context(), batch).Close(); err == nil {
		t.Fatal("the client was answered")
	}
	if n := b.notes(t); n != 1 {
		t.Fatalf("%d notes, want 1", n)
	}
}

func TestExplicitCommitCanBeLostToo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := pgtest.Connect(t, b.proxy.URL())
	b.proxy.On("commit", pgproxy.DropAcknowledgement)
	err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), put, 1)
		return err
	})
	if err == nil || b.notes(t) != 1 {
		t.Fatalf("the client heard %v of %d notes", err, b.notes(t))
	}
}

func TestRoundHeldBeforeTheServerLandsWhenReleased(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := pgtest.Connect(t, b.proxy.URL())
	held := b.proxy.On("Put", pgproxy.HoldBefore)
	done := inBackground(func() error { return puts(conn) })
	held.Await(t)
	isPut := func(round []string) bool { return slices.Contains(round, "Put") }
	if n := b.notes(t); n != 0 || !slices.ContainsFunc(b.proxy.Rounds(), isPut) ||
		slices.ContainsFunc(b.proxy.Answered(), isPut) {
		t.Fatalf("%d notes while the round is held, answered are %q", n, b.proxy.Answered())
	}
	held.Release()
	held.AwaitLanding(t)
	if err := wait.For(t, "the client's return", done); err != nil {
		t.Fatal(err)
	}
	if n := b.notes(t); n != 2 || !slices.ContainsFunc(b.proxy.Answered(), isPut) {
		t.Fatalf("%d notes, want 2, answered are %q", n, b.proxy.Answered())
	}
}

func TestHeldRoundOutlivesItsClient(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := pgtest.Connect(t, b.proxy.URL())
	held := b.proxy.On("Put", pgproxy.HoldBefore)
	done := inBackground(func() error { return puts(conn) })
	held.Await(t)
	held.CutClients()
	if err := wait.For(t, "the client's return", done); err == nil {
		t.Fatal("the client was not cut off")
	}
	if n := b.notes(t); n != 0 {
		t.Fatalf("%d notes while the round is held", n)
	}
	held.Release()
	held.AwaitLanding(t)
	if n := b.notes(t); n != 2 {
		t.Fatalf("%d notes, want 2", n)
	}
}

func TestAnswerHeldAfterTheServerIsOfACommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := pgtest.Connect(t, b.proxy.URL())
	held := b.proxy.On("Put", pgproxy.HoldAfter)
	done := inBackground(func() error { return puts(conn) })
	held.Await(t)
	if n := b.notes(t); n != 2 {
		t.Fatalf("%d notes, want 2", n)
	}
	select {
	case err := <-done:
		t.Fatalf("the client was answered: %v", err)
	default:
	}
	held.Release()
	if err := wait.For(t, "the client's return", done); err != nil {
		t.Fatal(err)
	}
	if err := puts(conn); err != nil {
		t.Fatalf("the connection is of no use any more: %v", err)
	}
}

func TestEventMeetsAsManyRoundsAsAsked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.proxy.OnNext(2, "Put", pgproxy.CutBefore)
	b.proxy.On("Put", pgproxy.DropAcknowledgement) // after those
	for i, want := range []int{0, 0, 2, 4} {
		conn := pgtest.Connect(t, b.proxy.URL())
		if err := puts(conn); (err == nil) != (i == 3) {
			t.Fatalf("round %d: %v", i, err)
		}
		if n := b.notes(t); n != want {
			t.Fatalf("%d notes after round %d, want %d", n, i, want)
		}
	}
}

func TestDownCutsAndRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := pgtest.Connect(t, b.proxy.URL())
	b.proxy.Down()
	b.proxy.Down() // is down already
	if err := puts(conn); err == nil {
		t.Fatal("a connection outlived the end")
	}
	if late, err := pgx.Connect(t.Context(), b.proxy.URL()); err == nil {
		_ = late.Close(t.Context())
		t.Fatal("a connection was accepted")
	}
	b.proxy.Up(t)
	b.proxy.Up(t)
	if err := puts(pgtest.Connect(t, b.proxy.URL())); err != nil {
		t.Fatal(err)
	}
	if n := b.notes(t); n != 2 {
		t.Fatalf("%d notes, want 2", n)
	}
}

func TestDownTakesWhatIsHeldAlong(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := pgtest.Connect(t, b.proxy.URL())
	held := b.proxy.On("Put", pgproxy.HoldBefore)
	done := inBackground(func() error { return puts(conn) })
	held.Await(t)
	b.proxy.Down()
	if err := wait.For(t, "the client's return", done); err == nil {
		t.Fatal("the client was not cut off")
	}
	held.Release()
	if n := b.notes(t); n != 0 {
		t.Fatalf("%d notes, want none", n)
	}
}

func TestServerThatEndsASessionIsHeard(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := pgtest.Connect(t, b.proxy.URL())
	_, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend(pg_backend_pid())")
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "57P01" || pg.SeverityUnlocalized != "FATAL" {
		t.Fatalf("the client heard %v", err)
	}
}

// The round of a client that was cut off lands whole. That client's own wish to have it cancelled comes at any time,
// and must not decide.
func TestRequestToCancelOfAClientThatWasCutOffIsDropped(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := pgtest.Connect(t, b.proxy.URL())
	key := conn.PgConn()
	held := b.proxy.On("Put", pgproxy.HoldBefore)
	done := inBackground(func() error {
		batch := &pgx.Batch{}
		batch.Queue(put, 1)
		batch.Queue("SELECT pg_sleep(0.2)")
		return conn.SendBatch(context.Background(), batch).Close()
	})
	held.Await(t)
	held.CutClients()
	if err := wait.For(t, "the client's return", done); err == nil {
		t.Fatal("the client was not cut off")
	}
	held.Release()
	b.awaitSleep(t)
	if err := key.CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	held.AwaitLanding(t)
	if n := b.notes(t); n != 1 {
		t.Fatalf("%d notes, want 1: the statement was cancelled", n)
	}
}

func TestChosenRoundsFailAndAreNotRemembered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	turn := 0
	b.proxy.Choose(func(queries []string) pgproxy.Action {
		if !slices.Contains(queries, "Put") {
			return pgproxy.Pass
		}
		turn++
		return []pgproxy.Action{pgproxy.CutBefore, pgproxy.DropAcknowledgement, pgproxy.Pass}[turn-1]
	})
	for i, want := range []int{0, 2, 4} {
		if err := puts(pgtest.Connect(t, b.proxy.URL())); (err == nil) != (i == 2) {
			t.Fatalf("round %d: %v", i, err)
		}
		if n := b.notes(t); n != want {
			t.Fatalf("%d notes after round %d, want %d", n, i, want)
		}
	}
	if n := b.proxy.RoundTrips(); n != 0 {
		t.Fatalf("%d rounds are remembered of a run without an end", n)
	}
}

func TestHeldRoundNamesTheServersSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := pgtest.Connect(t, b.proxy.URL())
	held := b.proxy.On("Put", pgproxy.HoldBefore)
	done := inBackground(func() error { return puts(conn) })
	if err := held.Reached(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(held.Backends()) != 1 {
		t.Fatalf("%v hold the round", held.Backends())
	}
	pgtest.Exec(t, b.direct, "SELECT pg_terminate_backend($1)", held.Backends()[0])
	held.Release()
	if err := wait.For(t, "the client's return", done); err == nil || b.notes(t) != 0 {
		t.Fatalf("the client heard %v of %d notes, though its session was ended", err, b.notes(t))
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := held.Reached(over); !errors.Is(err, context.Canceled) {
		t.Fatalf("a wait that nobody needs ended with %v", err)
	}
}
