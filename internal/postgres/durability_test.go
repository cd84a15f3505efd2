package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// The servers of the tests may forget, except what a session asks to be kept.
func TestSettingsByWhichAServerMayForgetAreListed(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	for parameter, want := range map[string][]string{
		"": {"fsync = off", "full_page_writes = off", "synchronous_commit = off"},
		// These commits wait for no standby, or not for its disk.
		"&synchronous_commit=local": {"fsync = off", "full_page_writes = off", "synchronous_commit = local"},
		"&synchronous_commit=remote_write": {"fsync = off", "full_page_writes = off",
			"synchronous_commit = remote_write"},
		"&synchronous_commit=on":           {"fsync = off", "full_page_writes = off"},
		"&synchronous_commit=remote_apply": {"fsync = off", "full_page_writes = off"},
	} {
		got, err := pgtest.Open(t, url+parameter, limits()).Forgetful(t.Context())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", parameter, err, diff)
		}
	}
}

// A transaction that writes nothing is acknowledged without the log.
func TestReadThatIsToBeDurableHasSomethingToCommit(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	for _, durable := range []bool{false, true} {
		var written bool
		all := calls("SELECT n FROM notes")
		if durable {
			all = append(all, postgres.Durable)
		}
		all = append(all, func(ctx context.Context, q postgres.Statement) error {
			return q.QueryRow(ctx, "SELECT pg_current_xact_id_if_assigned() IS NOT NULL").Scan(&written)
		})
		if err := db.Pipeline(t.Context(), all...); err != nil || written != durable {
			t.Errorf("durable %v: something to commit %v, error %v", durable, written, err)
		}
	}
}

// Only a wait that we have ended ourselves would be as long again. After a broken connection, another one may do.
func TestAcknowledgementThatWasNotAwaitedIsToldFromALostOne(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t) + "&statement_timeout=0"
	l := limits()
	l.StatementTimeout = 100 * time.Millisecond
	slow := pgtest.Open(t, url, l)
	if err := slow.Pool().Ping(t.Context()); err != nil { // to connect takes some of the time, too
		t.Fatal(err)
	}
	if err := slow.Pipeline(t.Context(), execute("SELECT pg_sleep(60)")); !postgres.GaveUp(err) ||
		postgres.RolledBack(err) {
		t.Errorf("of a wait that was given up: %v", err)
	}
	db := open(t, limits())
	if err := db.Pipeline(t.Context(), execute("SELECT pg_terminate_backend(pg_backend_pid())")); err == nil ||
		postgres.GaveUp(err) {
		t.Errorf("of a connection that broke: %v", err)
	}
	if err := db.Pipeline(t.Context(), execute("SELECT 1/0")); err == nil || postgres.GaveUp(err) ||
		postgres.GaveUp(nil) {
		t.Errorf("of a refusal: %v", err)
	}
}

// While the standby is away, each durable read keeps its connection until it gives up. Clients that ask again and again
// for what is processing must not take all connections that way.
func TestDurableReadsForClientsTakeFewConnections(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	readNotes := func(ctx context.Context, q postgres.DBTX) error {
		_, err := q.Exec(ctx, "SELECT n FROM notes")
		return err
	}
	const most = 4
	waiting, back, done := make(chan struct{}), make(chan struct{}), make(chan error, most)
	for range most {
		go func() {
			done <- db.ReadDurably(t.Context(), func(ctx context.Context, q postgres.DBTX) error {
				if err := readNotes(ctx, q); err != nil {
					return err
				}
				waiting <- struct{}{}
				<-back
				return nil
			})
		}()
	}
	for range most {
		<-waiting
	}
	read := func(ctx context.Context) error { return db.ReadDurably(ctx, readNotes) }
	if err := read(t.Context()); !postgres.Unavailable(err) {
		t.Errorf("one more: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := read(gone); !postgres.Unavailable(err) {
		t.Errorf("one more, whose client is gone: %v", err)
	}
	close(back)
	for range most {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := read(t.Context()); err != nil {
		t.Errorf("when there is a place again: %v", err)
	}
}
