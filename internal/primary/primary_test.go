package primary_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/demo/embeddedpg"
	"payonce/internal/postgres"
	"payonce/internal/primary"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// several is the connection string of a database on the server of any of these.
func several(t *testing.T, urls ...string) string {
	t.Helper()
	var hosts, ports []string
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		hosts, ports = append(hosts, u.Query().Get("host")), append(ports, u.Query().Get("port"))
	}
	u, _ := url.Parse(urls[0])
	q := u.Query()
	q.Set("host", strings.Join(hosts, ","))
	q.Set("port", strings.Join(ports, ","))
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	return u.String()
}

// open is a DB that follows the primary.
func open(t *testing.T, url string) *postgres.DB {
	t.Helper()
	l := pgtest.Limits()
	l.Follow = func(cfg *pgxpool.Config) func() { return primary.Follow(cfg, time.Now, slog.New(slog.DiscardHandler)) }
	return pgtest.Open(t, url, l)
}

const socketSQL = "SELECT trim(chr(34) FROM current_setting('unix_socket_directories'))"

// where is the folder of the socket of the server that a connection leads to.
func where(t *testing.T, db *postgres.DB) (socket string) {
	t.Helper()
	err := db.Reader().QueryRow(t.Context(), socketSQL).Scan(&socket)
	if err != nil && !postgres.Unavailable(err) {
		t.Fatal(err)
	}
	return socket
}

func socketOf(server *embeddedpg.Server) string {
	u, _ := url.Parse(server.URL("postgres"))
	return u.Query().Get("host")
}

// standby makes a server one that can be promoted: it replays its own log to the end, and waits for more.
func standby(t *testing.T, server *embeddedpg.Server) *embeddedpg.Server {
	t.Helper()
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	clusters, err := filepath.Glob(filepath.Join(server.DataDir(), "pg[0-9][0-9]"))
	if err != nil || len(clusters) != 1 {
		t.Fatal(clusters, err)
	}
	if err := os.WriteFile(filepath.Join(clusters[0], "standby.signal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return pgtest.Restart(t, server, false)
}

func promote(t *testing.T, server *embeddedpg.Server) {
	t.Helper()
	conn := pgtest.Connect(t, server.URL("postgres"))
	if !pgtest.Value[bool](t, conn, "SELECT pg_promote()") {
		t.Fatal("not promoted")
	}
}

// Patroni was killed, and nobody fences the old primary: it accepts writes, and is named first.
func TestServerOfTheLatestPromotionIsThePrimary(t *testing.T) {
	t.Parallel()
	old, next := pgtest.OwnServer(t, false), pgtest.OwnServer(t, false)
	next = standby(t, next)
	db := open(t, several(t, old.URL("postgres"), next.URL("postgres")))
	if at := where(t, db); at != socketOf(old) {
		t.Fatalf("connected to %s, want the only server that accepts writes", at)
	}
	waits := make(chan error, 1)
	go func() {
		waits <- db.Pipeline(t.Context(), func(ctx context.Context, q postgres.Statement) error {
			_, err := q.Exec(ctx, "SELECT pg_sleep(60)")
			return err
		})
	}()
	outside := pgtest.Connect(t, old.URL("postgres"))
	wait.Until(t, "the statement's beginning", func() bool {
		return pgtest.Value[bool](t, outside, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')")
	})
	promote(t, next)
	// Its commit would wait for a standby that is gone, and the client with it.
	err := wait.For(t, "the end of what waits on the old primary", waits)
	if ambiguous := new(postgres.AmbiguousError); !errors.As(err, &ambiguous) || postgres.GaveUp(err) {
		t.Fatalf("ended with %v, want an error after which the commit is looked for at once", err)
	}
	for range 10 {
		if at := where(t, db); at != socketOf(next) {
			t.Fatalf("connected to %q, want the primary", at)
		}
	}
}

// A server that is shut down waits for its clients.
func TestNobodyAsksAfterTheEnd(t *testing.T) {
	t.Parallel()
	one, other := pgtest.OwnServer(t, false), pgtest.OwnServer(t, false)
	db := open(t, several(t, one.URL("postgres"), other.URL("postgres")))
	if err := db.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	outside := pgtest.Connect(t, other.URL("postgres"))
	asks := func() bool {
		return pgtest.Value[bool](t, outside,
			"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'payonce')")
	}
	wait.Until(t, "a question to the second host", asks)
	db.Close()
	wait.Until(t, "the end of the questions", func() bool { return !asks() })
}

// Nothing is used of the time of the last primary, also what was idle and looks as good as new.
func TestIdleConnectionOfAnEarlierTermIsNotHandedOut(t *testing.T) {
	t.Parallel()
	old, next := pgtest.OwnServer(t, false), pgtest.OwnServer(t, false)
	next = standby(t, next)
	cfg, err := pgxpool.ParseConfig(several(t, old.URL("postgres"), next.URL("postgres")))
	if err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 2)
	end := primary.Follow(cfg, time.Now, slog.New(recorder{slog.DiscardHandler, found}))
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	defer pool.Close()
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the first primary", found)
	promote(t, next)
	wait.For(t, "the second primary", found)
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatalf("the pool has handed out a connection that was cut: %v", err)
	}
}

type recorder struct {
	slog.Handler

	said chan<- string
}

func (recorder) Enabled(context.Context, slog.Level) bool { return true }

func (r recorder) Handle(_ context.Context, record slog.Record) error {
	r.said <- record.Message
	return nil
}

// A host that was stopped takes connections and never answers.
func TestHostThatHangsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("unix", filepath.Join(shortDir(t), ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	server := pgtest.OwnServer(t, false)
	hangs := "postgres://payonce@/postgres?port=5432&sslmode=disable&host=" + filepath.Dir(silent.Addr().String())
	l := pgtest.Limits()
	l.Connect = time.Hour // Who tries the silent host with a connection of the pool waits for ever.
	l.Acquire = time.Minute
	l.Follow = func(cfg *pgxpool.Config) func() { return primary.Follow(cfg, time.Now, slog.New(slog.DiscardHandler)) }
	db := pgtest.Open(t, several(t, hangs, server.URL("postgres")), l)
	if at := where(t, db); at != socketOf(server) {
		t.Fatalf("connected to %q", at)
	}
}

func TestServerThatOnlyReadsIsNobodysPrimary(t *testing.T) {
	t.Parallel()
	one, other := standby(t, pgtest.OwnServer(t, false)), standby(t, pgtest.OwnServer(t, false))
	db := open(t, several(t, one.URL("postgres"), other.URL("postgres")))
	if err := db.Ping(t.Context()); !postgres.Unavailable(err) {
		t.Fatalf("connected to a server that only reads: %v", err)
	}
	promote(t, other)
	wait.Until(t, "the primary", func() bool { return where(t, db) == socketOf(other) })
}

func TestOneHostIsLeftAlone(t *testing.T) {
	t.Parallel()
	cfg, err := pgxpool.ParseConfig("postgres://payonce@127.0.0.1:1/payonce?sslmode=prefer")
	if err != nil {
		t.Fatal(err)
	}
	defer primary.Follow(cfg, time.Now, slog.New(slog.DiscardHandler))()
	if cfg.BeforeConnect != nil || cfg.PrepareConn != nil || cfg.ConnConfig.ValidateConnect != nil {
		t.Error("one host with two ways of TLS is followed")
	}
}

// shortDir is a folder whose path fits into the address of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "p")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// A machine that has disappeared from the network answers not even a dial.
func TestDialOfAnEarlierTermEndsWithIt(t *testing.T) {
	t.Parallel()
	old, next := pgtest.OwnServer(t, false), pgtest.OwnServer(t, false)
	next = standby(t, next)
	cfg, err := pgxpool.ParseConfig(several(t, old.URL("postgres"), next.URL("postgres")))
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns, cfg.ConnConfig.ConnectTimeout = 2, time.Hour
	var gone atomic.Bool
	dials := make(chan bool)
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if gone.Load() && strings.HasPrefix(address, socketOf(old)) {
			select {
			case dials <- true:
			case <-ctx.Done():
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return dial(ctx, network, address)
	}
	end := primary.Follow(cfg, time.Now, slog.New(slog.DiscardHandler))
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	defer pool.Close()
	first, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Release()
	gone.Store(true)
	second := make(chan error, 1)
	go func() {
		c, err := pool.Acquire(t.Context())
		if err == nil {
			c.Release()
		}
		second <- err
	}()
	wait.For(t, "the dial", dials)
	promote(t, next)
	// Nobody has given up: who is told of a cancellation would not try again.
	if err := wait.For(t, "the end of the dial", second); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the dial has ended with %v", err)
	}
}
