package postgres_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func limits() postgres.Limits { return pgtest.Limits() }

// open is a DB with one empty table, notes.
func open(t *testing.T, l postgres.Limits) *postgres.DB {
	t.Helper()
	db := pgtest.Open(t, pgtest.NewURL(t), l)
	run(t, db, `CREATE TABLE notes (
		n    int CONSTRAINT notes_n_unique UNIQUE CONSTRAINT notes_n_small CHECK (n < 100),
		late int CONSTRAINT notes_late_unique UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	return db
}

func run(t *testing.T, db *postgres.DB, sql string) {
	t.Helper()
	pgtest.Exec(t, db.Pool(), sql)
}

func read[T any](t *testing.T, db *postgres.DB, sql string) T {
	t.Helper()
	return pgtest.Value[T](t, db.Reader(), sql)
}

func notes(t *testing.T, db *postgres.DB) int {
	t.Helper()
	return read[int](t, db, "SELECT count(*) FROM notes")
}

// execute is a call of a statement without arguments.
func execute(sql string) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		_, err := q.Exec(ctx, sql)
		return err
	}
}

func calls(statements ...string) []postgres.Call {
	var all []postgres.Call
	for _, sql := range statements {
		all = append(all, execute(sql))
	}
	return all
}

func TestErrorInALaterStatementRollsBackTheEarlierOnes(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]string{
		"refused by a constraint": "INSERT INTO notes VALUES (100)",
		"refused at the commit":   "INSERT INTO notes VALUES (2, 7), (3, 7)",
		"refused while preparing": "INSERT INTO notes VALUES (1, 2, 3)",
	} {
		db := open(t, limits())
		err := db.Pipeline(t.Context(), calls("INSERT INTO notes VALUES (1)", second)...)
		// Of several servers, one cannot say so for the others.
		doubt := name == "refused at the commit" && pgtest.ByServers(false, true)
		if postgres.RolledBack(err) == doubt || postgres.Unavailable(err) != doubt {
			t.Errorf("%s: rolled back %v, unavailable %v: %v", name, postgres.RolledBack(err),
				postgres.Unavailable(err), err)
		}
		if n := notes(t, db); n != 0 {
			t.Errorf("%s: %d rows are left", name, n)
		}
	}
}

func TestTimeoutsOfTheServerRollBackAndAreNoRefusal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  func(*postgres.Limits)
		then string
		code string
	}{
		"statement": {func(l *postgres.Limits) { l.StatementTimeout = 2 * time.Second }, "SELECT pg_sleep(60)",
			"57014"},
		"lock": {func(l *postgres.Limits) { l.LockTimeout = 50 * time.Millisecond }, "SELECT FROM held FOR UPDATE",
			"55P03"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := limits()
			l.StatementTimeout, l.LockTimeout = 30*time.Second, 30*time.Second
			c.set(&l)
			db := open(t, l)
			run(t, db, "CREATE TABLE held AS SELECT 1")
			done := make(chan error, 1)
			err := pgx.BeginFunc(t.Context(), db.Pool(), func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "SELECT FROM held FOR UPDATE")
				done <- db.Pipeline(t.Context(), calls("INSERT INTO notes VALUES (1)", c.then)...)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			err = <-done
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != c.code || !postgres.RolledBack(err) || !postgres.Unavailable(err) {
				t.Fatalf("rolled back %v, unavailable %v: %v", postgres.RolledBack(err), postgres.Unavailable(err), err)
			}
			if n := notes(t, db); n != 0 {
				t.Fatalf("%d rows are left", n)
			}
		})
	}
}

func TestFatalWordIsAmbiguous(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	err := db.Pipeline(t.Context(), calls("INSERT INTO notes VALUES (1)",
		"SELECT pg_terminate_backend(pg_backend_pid())")...)
	var ambiguous *postgres.AmbiguousError
	if !errors.As(err, &ambiguous) || postgres.RolledBack(err) || !postgres.Unavailable(err) {
		t.Fatalf("the error is %v", err)
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.SeverityUnlocalized != "FATAL" {
		t.Fatalf("the cause is %v", err)
	}
}

// An error of our own comes after the commit, or before it; who knows.
func TestErrorOfACallAfterItsStatementIsAmbiguous(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	unreadable := errors.New("unreadable")
	err := db.Pipeline(t.Context(), func(ctx context.Context, q postgres.Statement) error {
		if _, err := q.Exec(ctx, "INSERT INTO notes VALUES (1)"); err != nil {
			return err
		}
		return unreadable
	})
	var ambiguous *postgres.AmbiguousError
	if !errors.As(err, &ambiguous) || !errors.Is(err, unreadable) || postgres.RolledBack(err) {
		t.Fatalf("the error is %v", err)
	}
	if n := notes(t, db); n != 1 {
		t.Fatalf("%d rows, want 1", n)
	}
}

func TestServerThatIsAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	// Open does not connect: a process may start before its database.
	db := pgtest.Open(t, "postgres://nobody@127.0.0.1:1/none", postgres.DefaultLimits())
	for name, err := range map[string]error{
		"send": db.Pipeline(t.Context(), calls("SELECT 1")...),
		"ping": db.Ping(t.Context()),
	} {
		if !postgres.Unavailable(err) || !postgres.RolledBack(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWaitForAConnectionIsBounded(t *testing.T) {
	t.Parallel()
	l := limits()
	l.MaxConns, l.Acquire = 1, 50*time.Millisecond
	// Connecting may take longer than the wait that is under test.
	pool := pgtest.New(t)
	config := pool.Config()
	config.MaxConns = 1
	single, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer single.Close()
	if err := single.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := postgres.Wrap(single, l.Acquire)
	held, err := single.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = db.Pipeline(t.Context(), calls("SELECT 1")...)
	held.Release()
	if !postgres.Unavailable(err) || !postgres.RolledBack(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the error is %v", err)
	}
	if err := db.Ping(t.Context()); err != nil {
		t.Fatalf("the connection did not come back: %v", err)
	}
}

func TestSessionsAreLimitedUnlessTheURLSaysOtherwise(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	for suffix, want := range map[string]map[string]string{
		"": {
			"application_name": "payonce", "statement_timeout": "5s", "lock_timeout": "2s",
			"idle_in_transaction_session_timeout": "10s",
		},
		"&statement_timeout=7s&application_name=other": {
			"application_name": "other", "statement_timeout": "7s", "lock_timeout": "2s",
			"idle_in_transaction_session_timeout": "10s",
		},
	} {
		db := pgtest.Open(t, url+suffix, postgres.DefaultLimits())
		got := map[string]string{}
		for name := range maps.Keys(want) {
			got[name] = read[string](t, db, "SELECT current_setting('"+name+"')")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if n := db.Stat().MaxConns(); n != 16 {
			t.Errorf("up to %d connections, want 16", n)
		}
	}
}

func TestURLThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), "postgres://u:secret@host:notaport/db", limits())
	if err == nil || !strings.Contains(err.Error(), "DATABASE_URL") || strings.Contains(err.Error(), "secret") {
		t.Fatalf("the error is %v", err)
	}
}

// DB_POOLER=true would replace the mode. Without it there may be a pooler all the same.
func TestModeOfPgxIsNotTheURLsToChoose(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_describe", "describe_exec", "exec", "simple_protocol"} {
		for _, pooler := range []bool{false, true} {
			l := limits()
			l.Pooler = pooler
			_, err := postgres.Open(t.Context(), "postgres://u:secret@host/db?default_query_exec_mode="+mode, l)
			if err == nil || !strings.Contains(err.Error(), "remove it") || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s, pooler %v: the error is %v", mode, pooler, err)
			}
		}
	}
}

// backends fills the pool and gives the server's process behind each connection.
func backends(t *testing.T, db *postgres.DB, n int) map[int]bool {
	t.Helper()
	pids := map[int]bool{}
	for range n {
		c, err := db.Pool().Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		pids[pgtest.Value[int](t, c, "SELECT pg_backend_pid()")] = true
	}
	return pids
}

func common(a, b map[int]bool) int {
	n := 0
	for pid := range a {
		if b[pid] {
			n++
		}
	}
	return n
}

func TestConnectionThatDiesTakesTheIdleOnesAlong(t *testing.T) {
	t.Parallel()
	const n = 4
	db := open(t, limits())
	before := backends(t, db, n)
	if err := db.Pipeline(t.Context(), calls("SELECT pg_terminate_backend(pg_backend_pid())")...); err == nil {
		t.Fatal("the session outlived its end")
	}
	if left := common(before, backends(t, db, n)); left != 0 {
		t.Fatalf("%d connections are still there", left)
	}
}

// Otherwise, clients that hang up could make the pool open all its connections again and again.
func TestConnectionThatWeGiveUpDoesNot(t *testing.T) {
	t.Parallel()
	const n = 4
	db := open(t, limits())
	before := backends(t, db, n)
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	ended := make(chan error, 1)
	go func() { ended <- db.Reader().QueryRow(ctx, "SELECT pg_sleep(60)").Scan(nil) }()
	const asleep = `SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event = 'PgSleep')`
	wait.Until(t, "the statement's beginning", func() bool { return read[bool](t, db, asleep) })
	hangUp()
	if err := <-ended; !postgres.Unavailable(err) {
		t.Fatalf("the error is %v", err)
	}
	if left := common(before, backends(t, db, n)); left != n-1 {
		t.Fatalf("%d connections are still there, want %d", left, n-1)
	}
}

// A session keeps what it was told when it began. So a session from a time when the database only took reads refuses
// writes for as long as it lives, also when the database takes writes again. The pool would keep it for an hour.
func TestSessionThatOnlyReadsIsReplaced(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	outside := pgtest.Connect(t, url)
	name := pgx.Identifier{outside.Config().Database}.Sanitize()
	pgtest.Exec(t, outside, "CREATE TABLE notes (n int)")
	pgtest.Exec(t, outside, "ALTER DATABASE "+name+" SET default_transaction_read_only = on")

	l := limits()
	l.MaxConns = 2
	db := pgtest.Open(t, url, l)
	write := func() error { return db.Pipeline(t.Context(), calls("INSERT INTO notes VALUES (1)")...) }
	if err := write(); err == nil || !postgres.RolledBack(err) || !postgres.Unavailable(err) ||
		!strings.Contains(err.Error(), "25006") {
		t.Fatalf("written while the database only reads: %v", err)
	}
	if n := notes(t, db); n != 0 { // on a session that is as old
		t.Fatalf("%d notes", n)
	}
	pgtest.Exec(t, outside, "ALTER DATABASE "+name+" RESET default_transaction_read_only")
	_ = write() // It may be refused by the session that has read.
	if err := write(); err != nil {
		t.Fatalf("the database takes writes again, and the pool does not: %v", err)
	}
}

// What a full disk does to it is for lab/failover, which has one. Here: that the disk is written to, and not asked more
// often than it must.
func TestRoomIsFoundOutByWritingToTheDisk(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	db := pgtest.Open(t, url, limits())
	now := time.Unix(1_800_000_000, 0)
	room := postgres.NewRoom(db, func() time.Time { return now })
	for range 3 {
		if err := room.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(5 * time.Second)
	if err := room.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.Close() // a session that ends has told what it did
	other := pgtest.Connect(t, url)
	const tries, megabyte = 2, 1 << 20
	var files, bytes int64
	deadline, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for bytes < tries*megabyte {
		row := other.QueryRow(deadline,
			"SELECT temp_files, temp_bytes FROM pg_stat_database WHERE datname = current_database()")
		if err := row.Scan(&files, &bytes); err != nil {
			t.Fatalf("%d bytes in %d files: %v", bytes, files, err)
		}
	}
	if files != tries {
		t.Errorf("%d files for %d tries", files, tries)
	}
}

// Who asks for the primary would go on for ever.
func TestNobodyIsFollowedIfThereIsNoPool(t *testing.T) {
	t.Parallel()
	followed := false
	l := limits()
	l.Follow = func(cfg *pgxpool.Config) func() {
		followed, cfg.MaxConns = true, 0 // which a pool refuses
		return func() { followed = false }
	}
	if _, err := postgres.Open(t.Context(), "postgres://", l); err == nil || followed {
		t.Errorf("%v, still followed: %t", err, followed)
	}
}
