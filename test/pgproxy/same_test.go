package pgproxy_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/test/pgproxy"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// inTransaction puts one note in an explicit transaction.
func inTransaction(conn *pgx.Conn) error {
	return pgx.BeginFunc(context.Background(), conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(context.Background(), put, 1)
		return err
	})
}

func TestCommitOfAHeldStatementCanBeToldFromOtherCommits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	statement, conn := b.proxy.On("Put", pgproxy.HoldAfter), pgtest.Connect(t, b.proxy.URL())
	done := inBackground(func() error { return inTransaction(conn) })
	statement.Await(t)
	commit := b.proxy.OnSame(statement, "commit", pgproxy.HoldBefore)
	if err := inTransaction(pgtest.Connect(t, b.proxy.URL())); err != nil {
		t.Fatalf("another session's commit: %v", err)
	}
	statement.Release()
	commit.Await(t)
	if n := b.notes(t); n != 1 {
		t.Fatalf("%d notes before the commit, want the other's alone", n)
	}
	commit.Release()
	if landed, err := commit.Landed(t.Context()); err != nil || !landed {
		t.Fatalf("landed: %t, %v", landed, err)
	}
	if err := wait.For(t, "the client's return", done); err != nil || b.notes(t) != 2 {
		t.Fatalf("%v; %d notes, want 2", err, b.notes(t))
	}
}

func TestEveryRoundThatFitsIsHeldWhateverItsQuery(t *testing.T) {
	t.Parallel()
	b := setup(t)
	held := b.proxy.HoldWhere(func(round []byte) bool { return bytes.Contains(round, []byte("Put")) })
	var done []<-chan error
	for range 2 {
		conn := pgtest.Connect(t, b.proxy.URL())
		done = append(done, inBackground(func() error { return puts(conn) }))
		held.Await(t)
	}
	pgtest.Exec(t, pgtest.Connect(t, b.proxy.URL()), "SELECT 1") // it does not fit
	if n := b.notes(t); n != 0 {
		t.Errorf("%d notes while the rounds are held", n)
	}
	b.proxy.Forget(held)
	for _, d := range done {
		if err := wait.For(t, "the client's return", d); err != nil {
			t.Error(err)
		}
	}
	if n := b.notes(t); n != 4 {
		t.Errorf("%d notes, want two of each", n)
	}
}

// A test that waits for a late packet is told, too, when there will be none.
func TestRoundThatIsDroppedWithItsSessionDoesNotLand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	held, conn := b.proxy.On("Put", pgproxy.HoldBefore), pgtest.Connect(t, b.proxy.URL())
	done := inBackground(func() error { return puts(conn) })
	held.Await(t)
	pgtest.Exec(t, b.direct, "SELECT pg_terminate_backend(id) FROM unnest($1::bigint[]::int[]) AS id",
		held.Backends())
	if landed, err := held.Landed(t.Context()); err != nil || landed {
		t.Fatalf("landed: %t, %v", landed, err)
	}
	if err := wait.For(t, "the client's return", done); err == nil || b.notes(t) != 0 {
		t.Fatalf("the client heard %v of %d notes", err, b.notes(t))
	}
}

// It was released, and has reached the server, and yet there is no answer to it.
func TestRoundWhoseSessionEndsUnderItDoesNotLand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	held := b.proxy.On("SELECT", pgproxy.HoldBefore)
	conn := pgtest.Connect(t, b.proxy.URL())
	done := inBackground(func() error {
		_, err := conn.Exec(context.Background(), "SELECT pg_terminate_backend(pg_backend_pid())")
		return err
	})
	held.Await(t)
	held.Release()
	if landed, err := held.Landed(t.Context()); err != nil || landed {
		t.Fatalf("landed: %t, %v", landed, err)
	}
	if err := wait.For(t, "the client's return", done); err == nil {
		t.Fatal("the client heard of no error")
	}
}

// A program that stops one of its own requests must not stop those of others.
func TestRoundMeetsTheEventThatItsParametersFit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const say = "-- name: Say :one\nSELECT unnest($1::text[])"
	held := b.proxy.OnWhere("Say", func(round []byte) bool { return bytes.Contains(round, []byte("the-key")) },
		pgproxy.HoldBefore)
	conn := pgtest.Connect(t, b.proxy.URL())
	asks := func(key string) error {
		var got string
		return conn.QueryRow(context.Background(), say, []string{key}).Scan(&got)
	}
	if err := asks("another"); err != nil {
		t.Fatal(err)
	}
	done := inBackground(func() error { return asks("the-key") })
	held.Await(t)
	held.Release()
	if err := wait.For(t, "the client's return", done); err != nil {
		t.Fatal(err)
	}
}

func TestForgottenEventMeetsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := pgtest.Connect(t, b.proxy.URL())
	b.proxy.Forget(b.proxy.On("Put", pgproxy.CutBefore))
	if err := puts(conn); err != nil {
		t.Fatal(err)
	}
	held := b.proxy.On("Put", pgproxy.HoldAfter)
	done := inBackground(func() error { return puts(conn) })
	held.Await(t)
	b.proxy.Forget(held)
	if err := wait.For(t, "the client's return", done); err != nil {
		t.Fatalf("what it held was not let go: %v", err)
	}
}

func TestRoundThatIsCutBeforeTheServerNeverHappens(t *testing.T) {
	t.Parallel()
	b := setup(t)
	held, conn := b.proxy.On("Put", pgproxy.HoldBefore), pgtest.Connect(t, b.proxy.URL())
	done := inBackground(func() error { return puts(conn) })
	held.Await(t)
	held.Cut()
	if err := wait.For(t, "the client's return", done); err == nil {
		t.Fatal("the client was not cut off")
	}
	<-held.Dropped()
	if n := b.notes(t); n != 0 {
		t.Fatalf("%d notes, want none", n)
	}
}
