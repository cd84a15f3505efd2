package primary_test

import (
	"context"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/demo/embeddedpg"
	"payonce/internal/primary"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// names says which server a host's name stands for, as a name server does.
type names struct{ of sync.Map }

func (n *names) are(name string, server *embeddedpg.Server) { n.of.Store(name, socketOf(server)) }

func (n *names) lookup(_ context.Context, name string) ([]string, error) {
	if at, ok := n.of.Load(name); ok {
		return []string{at.(string)}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// follow is a pool whose connection string names one.test and two.test. said has what is logged.
func (n *names) follow(t *testing.T, role string, like *embeddedpg.Server) (pool *pgxpool.Pool, said chan string) {
	t.Helper()
	u, err := url.Parse(like.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := pgxpool.ParseConfig("postgres://" + role + "@/postgres?sslmode=disable&application_name=" + role +
		"&host=one.test,two.test&port=" + u.Query().Get("port") + "," + u.Query().Get("port"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.LookupFunc = n.lookup
	said = make(chan string, 100)
	end := primary.Follow(cfg, time.Now, slog.New(recorder{slog.DiscardHandler, said}))
	if pool, err = pgxpool.NewWithConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close(); end() })
	return pool, said
}

func awaitMessage(t *testing.T, said <-chan string, message string) {
	t.Helper()
	for wait.For(t, message, said) != message {
	}
}

// After a failover, the name of the group of standbys may stand for the new primary for a moment.
func TestNameThatStandsForAnotherServerByNowIsLeft(t *testing.T) {
	t.Parallel()
	server, reader := pgtest.OwnServer(t, false), standby(t, pgtest.OwnServer(t, false))
	n := new(names)
	n.are("one.test", server)
	pool, said := n.follow(t, "payonce", server)
	awaitMessage(t, said, "primary found")
	n.are("two.test", server)
	n.are("one.test", reader)
	awaitMessage(t, said, "primary found")
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the primary has another name, and is not used: %v", err)
	}
}

// pg_upgrade and a restore begin at timeline 1 again.
func TestPrimaryThatWasReplacedIsUsedWithAWarning(t *testing.T) {
	t.Parallel()
	before, after := standby(t, pgtest.OwnServer(t, false)), pgtest.OwnServer(t, false)
	promote(t, before)
	n := new(names)
	n.are("one.test", before)
	pool, said := n.follow(t, "payonce", before)
	awaitMessage(t, said, "primary found")
	n.are("one.test", after)
	awaitMessage(t, said, "primary has gone back to an earlier timeline")
	awaitMessage(t, said, "primary found")
	if at := pgtest.Value[string](t, pool, socketSQL); at != socketOf(after) {
		t.Errorf("connected to %s", at)
	}
}

// Some services have no log whose files have names. Their hosts are tried in their order.
func TestServersThatTellNoTimelineAreUsedInTheirOrder(t *testing.T) {
	t.Parallel()
	one, two := pgtest.OwnServer(t, false), pgtest.OwnServer(t, false)
	for _, server := range []*embeddedpg.Server{one, two} {
		straight := pgtest.Connect(t, server.URL("postgres"))
		pgtest.Exec(t, straight, "CREATE ROLE stranger LOGIN IN ROLE pg_read_all_settings")
		pgtest.Exec(t, straight, "REVOKE EXECUTE ON FUNCTION pg_walfile_name FROM PUBLIC")
	}
	n := new(names)
	n.are("one.test", one)
	n.are("two.test", two)
	pool, said := n.follow(t, "stranger", one)
	if at := pgtest.Value[string](t, pool, socketSQL); at != socketOf(one) {
		t.Errorf("connected to %s, want the first host", at)
	}
	const refused = "server cannot be asked whether it is the primary"
	awaitMessage(t, said, refused)
	awaitMessage(t, said, refused)
	straight := pgtest.Connect(t, one.URL("postgres"))
	wait.Until(t, "a connection that several questions are asked on", func() bool {
		return pgtest.Value[bool](t, straight, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'stranger'
			AND query LIKE '%pg_walfile_name%' AND query_start > backend_start + interval '0.6 s')`)
	})
	if more := len(said); more > 0 {
		t.Errorf("%d messages more, though nothing has changed: %q", more, <-said)
	}
	pgtest.Exec(t, straight, "GRANT EXECUTE ON FUNCTION pg_walfile_name TO PUBLIC")
	awaitMessage(t, said, "primary found")
	awaitMessage(t, said, "server can be asked again")
}
