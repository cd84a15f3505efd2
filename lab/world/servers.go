package world

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"

	"payonce/demo/embeddedpg"
	"payonce/test/cituscluster"
)

// Servers is how many PostgreSQL servers a site has: one, or three. Three are a coordinator of Citus, to which the
// processes connect, and two workers, over which the rows of tenants are distributed.
type Servers int

// TestsOnServers is the setting by which test/pgtest uses three servers.
const TestsOnServers = "PGTEST_CITUS=1"

// Ability is something that is possible on one kind of site only.
type Ability int

// The abilities.
const (
	// MoveTenants: a tenant lies on one of several servers. It may move to another, and that server may crash alone.
	MoveTenants Ability = iota
	// EndKeys: what becomes of a key that ends is kept by triggers that write to a table. On a worker they cannot.
	EndKeys
	// SeeLocks: the server's views say which session waits for a lock of which other one.
	SeeLocks
	// DateLines: the line of a timeline has the time of the row. A statement that goes to several servers writes its
	// line some round trips later.
	DateLines
	// ChangeProvider: the tenants of a world can be put at another provider before they have paid.
	ChangeProvider
)

// Can reports whether it is possible on so many servers.
func (n Servers) Can(a Ability) bool { return (n > 1) == (a == MoveTenants) }

// servers are what a site runs on.
type servers interface {
	first() *embeddedpg.Server // to which processes connect, or nil if somebody else runs it
	urlAs(role, database string) string
	all() map[string]*embeddedpg.Server
	create(ctx context.Context, database string) error
	migrate() []string // the arguments of api
	freeze(ctx context.Context, database string) error
	everywhere(ctx context.Context, sql string) error
	crash(ctx context.Context, number int) (servers, error) // and start again
	close(ctx context.Context) error
}

func (n Servers) start(ctx context.Context, o embeddedpg.Options) (servers, error) {
	switch n {
	case 0, 1:
		return startOne(ctx, o)
	case 1 + cituscluster.Workers:
		cluster, err := cituscluster.Start(ctx, o)
		return severalServers{cluster}, err
	}
	return nil, fmt.Errorf("start %d servers: there may be 1, or %d", n, 1+cituscluster.Workers)
}

// elsewhere are servers that somebody else runs, by their connection strings.
type elsewhere func(role, database string) string

func (elsewhere) first() *embeddedpg.Server { return nil }

func (s elsewhere) urlAs(role, database string) string { return s(role, database) }

func (elsewhere) all() map[string]*embeddedpg.Server { return nil }

func (elsewhere) migrate() []string { return []string{"migrate"} }

func (s elsewhere) create(ctx context.Context, database string) error {
	return s.everywhere(ctx, "CREATE DATABASE "+database)
}

func (s elsewhere) freeze(ctx context.Context, database string) error {
	return s.everywhere(ctx, "ALTER DATABASE "+database+" ALLOW_CONNECTIONS false IS_TEMPLATE true")
}

func (s elsewhere) everywhere(ctx context.Context, sql string) error {
	return cituscluster.Run(ctx, s(string(superuser), "postgres"), sql)
}

func (s elsewhere) crash(context.Context, int) (servers, error) {
	return s, errors.New("these servers are run by somebody else")
}

func (elsewhere) close(context.Context) error { return nil }

type oneServer struct {
	elsewhere // its connection strings, and what needs no more

	server  *embeddedpg.Server
	options embeddedpg.Options
}

func startOne(ctx context.Context, o embeddedpg.Options) (servers, error) {
	server, err := embeddedpg.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	return newOne(server, o), nil
}

func newOne(server *embeddedpg.Server, o embeddedpg.Options) oneServer {
	return oneServer{server.URLAs, server, o}
}

func (s oneServer) first() *embeddedpg.Server { return s.server }

func (s oneServer) all() map[string]*embeddedpg.Server {
	return map[string]*embeddedpg.Server{"server": s.server}
}

func (s oneServer) crash(ctx context.Context, _ int) (servers, error) {
	s.server.Abort()
	again, err := startOne(ctx, s.options)
	if err != nil {
		return s, fmt.Errorf("start PostgreSQL after its crash: %w", err)
	}
	return again, nil
}

func (s oneServer) close(ctx context.Context) error {
	return errors.Join(s.server.Stop(ctx), os.RemoveAll(s.server.DataDir()))
}

type severalServers struct{ cluster *cituscluster.Cluster }

func (s severalServers) first() *embeddedpg.Server { return s.cluster.Coordinator() }

func (s severalServers) urlAs(role, database string) string { return s.first().URLAs(role, database) }

func (s severalServers) all() map[string]*embeddedpg.Server {
	servers := map[string]*embeddedpg.Server{"coordinator": s.first()}
	for n := range cituscluster.Workers {
		servers[fmt.Sprintf("worker %d", 1+n)] = s.cluster.Node(1 + n)
	}
	return servers
}

func (severalServers) migrate() []string { return []string{"migrate", "--distribute"} }

func (s severalServers) create(ctx context.Context, database string) error {
	return s.cluster.CreateDatabase(ctx, database)
}

func (s severalServers) freeze(ctx context.Context, database string) error {
	return s.cluster.Freeze(ctx, database)
}

func (s severalServers) everywhere(ctx context.Context, sql string) error {
	return s.cluster.Everywhere(ctx, sql)
}

func (s severalServers) crash(ctx context.Context, number int) (servers, error) {
	return s, s.cluster.Crash(ctx, number)
}

func (s severalServers) close(ctx context.Context) error {
	return errors.Join(s.cluster.Stop(ctx), s.cluster.Remove())
}

// split gives a tenant shards of its own, while they are in use. It finds none if the tenant has its own already.
const split = `SELECT isolate_tenant_to_new_shard('idempotency_keys', $1::text, 'CASCADE', shard_transfer_mode => $2::text::citus.shard_transfer_mode)
	FROM pg_dist_shard WHERE shardminvalue <> shardmaxvalue
	  AND shardid = get_shard_id_for_distribution_column('idempotency_keys', $1::text)`

// What MoveTenant may have done.
const (
	SplitTenant = "split"
	MovedTenant = "moved"
)

// MoveTenant has a tenant rebalanced under load: it gets shards of its own, or if it has them, all that it has goes to
// another worker. It says which. To copy while others write takes long on a small machine. If nobody may wait for that,
// writers wait for the copy.
func (w *World) MoveTenant(ctx context.Context, tenant string, writersWait bool) (done string, err error) {
	mode := map[bool]string{true: "block_writes", false: "force_logical"}[writersWait]
	done = SplitTenant
	tag, err := w.DB.Exec(ctx, split, tenant, mode)
	if err == nil && tag.RowsAffected() == 0 {
		done = MovedTenant
		tag, err = w.DB.Exec(ctx, cituscluster.Move, tenant, mode)
	}
	if err == nil && tag.RowsAffected() == 0 {
		err = errors.New("there is nowhere to move to")
	}
	if err != nil {
		return "", fmt.Errorf("move tenant %s: %w", tenant, err)
	}
	return done, nil
}

// Spread is how many of the tenants each worker has.
func (w *World) Spread(ctx context.Context, tenants []string) ([]int, error) {
	rows, err := w.DB.Query(ctx, `SELECT count(t.id) FROM unnest($1::text[]) AS t(id) JOIN citus_shards AS p
			ON p.shardid = get_shard_id_for_distribution_column('idempotency_keys', t.id)
		RIGHT JOIN pg_dist_node AS n USING (nodename, nodeport) WHERE n.shouldhaveshards GROUP BY n.nodeid`, tenants)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int])
}
