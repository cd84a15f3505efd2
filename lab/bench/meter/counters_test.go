package meter

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"payonce/test/pgtest"
)

// quietServer is one on which nobody writes but us, nor counts; it holds a table.
func quietServer(t *testing.T) (url string, conn *pgx.Conn) {
	t.Helper()
	url = pgtest.OwnServer(t, false).URL("postgres")
	conn = connect(t, url)
	for _, sql := range []string{
		"ALTER SYSTEM SET autovacuum = off", "ALTER SYSTEM SET checkpoint_timeout = '1h'",
		"ALTER SYSTEM SET bgwriter_lru_maxpages = 0",
		"CREATE TABLE counted (id int PRIMARY KEY, free int, indexed int) WITH (fillfactor = 50)",
		"CREATE INDEX ON counted (indexed)",
		"SELECT pg_reload_conf()", "CHECKPOINT",
	} {
		run(t, conn, sql)
	}
	return url, conn
}

// told is a session that has nothing to itself.
func told(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn := connect(t, url)
	run(t, conn, "SELECT pg_stat_force_next_flush()")
	return conn
}

func atRest(t *testing.T, conn *pgx.Conn) Counters {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	counters, err := AtRest(ctx, conn, "counted")
	if err != nil {
		t.Fatal(err)
	}
	return counters
}

// work is 7 transactions, 6 of which write; 4 updates, 3 of them HOT.
func work(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for _, sql := range []string{
		"INSERT INTO counted VALUES (1, 1, 1)", "INSERT INTO counted VALUES (2, 2, 2)",
		"UPDATE counted SET free = 5 WHERE id = 1",
		"UPDATE counted SET free = 6", "SELECT count(*) FROM counted", "UPDATE counted SET indexed = 9 WHERE id = 2",
		"DELETE FROM counted WHERE id = 2",
	} {
		run(t, conn, sql)
	}
}

// expect compares what can be known beforehand.
func expect(t *testing.T, spent Counters) {
	t.Helper()
	got := Counters{Writers: spent.Writers, Commits: spent.Commits, Tables: spent.Tables}
	want := Counters{Writers: 6, Commits: 7, Tables: map[string]TableCounters{"counted": {Updates: 4, HOTUpdates: 3}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// Page headers are in the one and not in the other.
	if spent.WALRecords < 6 || spent.WALBytes <= 0 || spent.InsertLSN < spent.WALBytes {
		t.Errorf("%d records of %d bytes of WAL, which fill %d", spent.WALRecords, spent.WALBytes, spent.InsertLSN)
	}
	if share, some := spent.Tables["counted"].HOTShare(); !some || share != 0.75 {
		t.Errorf("%v of the updates were HOT (%t), want 3/4", share, some)
	}
}

func TestCountersAreCompleteOnceTheSessionsAreClosed(t *testing.T) {
	t.Parallel()
	url, conn := quietServer(t)
	worker := told(t, url)
	before, err := ReadCounters(t.Context(), conn, "counted")
	if err != nil {
		t.Fatal(err)
	}
	work(t, worker)
	if err := worker.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, atRest(t, conn).Since(before))
}

func TestCountersAreCompleteOnceTheSessionsHaveIdledForLong(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: PostgreSQL takes ten seconds for this")
	}
	url, conn := quietServer(t)
	worker := told(t, url)
	before, err := ReadCounters(t.Context(), conn, "counted")
	if err != nil {
		t.Fatal(err)
	}
	work(t, worker)
	expect(t, atRest(t, conn).Since(before))
}

func TestReadingCountersCostsNothingThatIsCounted(t *testing.T) {
	t.Parallel()
	_, conn := quietServer(t)
	before := atRest(t, conn)
	for range 3 {
		atRest(t, conn)
	}
	if diff := cmp.Diff((Counters{Tables: map[string]TableCounters{"counted": {}}}),
		atRest(t, conn).Since(before)); diff != "" {
		t.Error(diff)
	}
}

func TestSessionThatMayKeepCountersHoldsThemUp(t *testing.T) {
	t.Parallel()
	url, conn := quietServer(t)
	worker := connect(t, url)
	keeping := func(idle time.Duration) int {
		t.Helper()
		n, err := sessionsKeeping(t.Context(), conn, idle)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	run(t, worker, "SELECT 1")
	if n := keeping(time.Hour); n != 1 {
		t.Errorf("%d sessions keep what they have counted, want the one that has just worked", n)
	}
	if n := keeping(0); n != 0 {
		t.Errorf("%d sessions keep what they have counted, want none: the only one is idle", n)
	}
	run(t, worker, "BEGIN")
	if n := keeping(0); n != 1 {
		t.Errorf("%d sessions keep what they have counted, want the one inside a transaction", n)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*lookInterval, errors.New("enough"))
	defer cancel()
	if c, err := AtRest(ctx, conn); err == nil || !strings.Contains(err.Error(), "wait for the counters") {
		t.Errorf("%+v (%v), want that it is waited for in vain", c, err)
	}
}

func TestTableThatDoesNotExistIsAnError(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.NewURL(t))
	if c, err := ReadCounters(t.Context(), conn, "payments", "nobodys"); err == nil ||
		!strings.Contains(err.Error(), "nobodys") {
		t.Errorf("%+v (%v), want an error that names the table", c, err)
	}
	if _, err := ReadCounters(t.Context(), conn, "public.payments", "idempotency_keys"); err != nil {
		t.Errorf("the session is of no use after that: %v", err)
	}
}

func TestTableThatAppearedMeanwhileIsNotInTheDifference(t *testing.T) {
	t.Parallel()
	now := Counters{Tables: map[string]TableCounters{"new": {Updates: 5}}}
	if difference := now.Since(Counters{}); len(difference.Tables) != 0 {
		t.Errorf("%+v, want nothing: what it had before is not known", difference.Tables)
	}
	if share, some := (TableCounters{}).HOTShare(); some {
		t.Errorf("%v of no updates were HOT", share)
	}
}
