// Package cituscluster runs a PostgreSQL that has the extension Citus as one coordinator and its workers, for tests and
// for lab/citus.
//
// It owns the servers, which know each other by their sockets, and databases that lie on all of them: a database of
// Citus is one of the same name on each node, and only the coordinator's knows the others. It refuses to know what is
// in them.
//
// Invariant: a database can be copied as any other is, node by node, as long as nobody is connected to it. What a
// coordinator knows of its workers is in the database, and names servers, not databases.
package cituscluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"payonce/demo/embeddedpg"
)

// ErrNoCitus says that this PostgreSQL came without the extension, and which ones have it.
var ErrNoCitus = errors.New("this PostgreSQL has no Citus: package postgresql-15-citus-13.0 of packages.citusdata.com, or image citusdata/citus:13; name its programs by PG_BINDIR")

// Workers is how many there are beside the coordinator.
const Workers = 2

// Move is the statement that moves the shards that a tenant's rows are in ($1) to the other worker, while they are in
// use. The rows of other tenants in these shards move with them. The mode ($2) says whether writers wait.
const Move = `
	SELECT citus_move_shard_placement(p.shardid, p.nodename, p.nodeport, n.nodename, n.nodeport,
	    $2::text::citus.shard_transfer_mode)
	FROM citus_shards AS p, pg_dist_node AS n
	WHERE p.shardid = get_shard_id_for_distribution_column('idempotency_keys', $1::text) AND n.shouldhaveshards
	  AND (n.nodename, n.nodeport) <> (p.nodename, p.nodeport)`

// Shards is how many shards a distributed table gets. Citus' own default, 32, is for more machines.
const Shards = 8

// Cluster is a coordinator and its workers.
type Cluster struct {
	mu      sync.Mutex
	nodes   []*embeddedpg.Server // the coordinator is the first
	options []embeddedpg.Options
}

// Start starts all nodes, each in a directory of its own below that of o.
func Start(ctx context.Context, o embeddedpg.Options) (_ *Cluster, err error) {
	c := &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
		}
	}()
	for i := range 1 + Workers {
		node := o
		node.DataDir = filepath.Join(o.DataDir, []string{"coordinator", "worker-1", "worker-2"}[i])
		node.Settings = settings(o.Settings)
		if i == 0 {
			if err := os.MkdirAll(o.DataDir, 0o711); err != nil {
				return nil, err
			}
			// The server's user has to pass through, whatever our umask says.
			if err := os.Chmod(o.DataDir, 0o711); err != nil {
				return nil, err
			}
		}
		server, err := embeddedpg.Start(ctx, node)
		if err != nil {
			if strings.Contains(err.Error(), `could not access file "citus"`) {
				err = ErrNoCitus
			}
			return nil, err
		}
		c.nodes, c.options = append(c.nodes, server), append(c.options, node)
		// What a node tells another one, to which a shard moves, to connect to itself by.
		host, _ := address(server)
		if err := Run(ctx, server.URL("postgres"), "ALTER SYSTEM SET citus.local_hostname TO '"+host+"'",
			"SELECT pg_reload_conf()"); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func settings(more map[string]string) map[string]string {
	s := map[string]string{
		"shared_preload_libraries":           "citus",
		"wal_level":                          "logical", // shards are moved by logical replication
		"max_prepared_transactions":          "400",
		"max_worker_processes":               "200", // Citus keeps one for each database
		"max_replication_slots":              "30",
		"max_wal_senders":                    "30",
		"citus.node_conninfo":                "sslmode=disable",
		"citus.shard_count":                  fmt.Sprint(Shards),
		"citus.enable_statistics_collection": "off",
		// What is in doubt after a crash keeps its rows locked until the next look. By default that is every minute,
		// longer than any lease of ours.
		"citus.recover_2pc_interval": "1s",
		// A statement over arrays goes to all shards: Citus cannot tell from an array whose the rows are. By default
		// one such statement waits for another.
		"citus.enable_deadlock_prevention": "off",
	}
	maps.Copy(s, more)
	return s
}

// Coordinator is the node that processes connect to.
func (c *Cluster) Coordinator() *embeddedpg.Server { return c.Node(0) }

// Node is the coordinator (0), or a worker.
func (c *Cluster) Node(i int) *embeddedpg.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i]
}

// Crash kills a node at once, and starts it again: it recovers from its log.
func (c *Cluster) Crash(ctx context.Context, i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[i].Abort()
	server, err := embeddedpg.Start(ctx, c.options[i])
	if err != nil {
		return fmt.Errorf("start a node after its crash: %w", err)
	}
	c.nodes[i] = server
	return nil
}

// Stop ends all nodes.
func (c *Cluster) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, node := range c.nodes {
		errs = append(errs, node.Stop(ctx))
	}
	return errors.Join(errs...)
}

// Remove deletes the data of all nodes. They must have ended.
func (c *Cluster) Remove() error {
	var errs []error
	for _, node := range c.nodes {
		errs = append(errs, os.RemoveAll(node.DataDir()))
	}
	return errors.Join(errs...)
}

// CreateDatabase makes an empty database on all nodes, which know each other.
func (c *Cluster) CreateDatabase(ctx context.Context, name string) error {
	if err := c.Everywhere(ctx, "CREATE DATABASE "+name); err != nil {
		return err
	}
	for i := range 1 + Workers {
		if err := Run(ctx, c.Node(i).URL(name), "CREATE EXTENSION citus"); err != nil {
			return err
		}
	}
	host, port := address(c.Node(0))
	join := []string{fmt.Sprintf("SELECT citus_set_coordinator_host('%s', %s)", host, port)}
	for i := range Workers {
		host, port := address(c.Node(1 + i))
		join = append(join, fmt.Sprintf("SELECT citus_add_node('%s', %s)", host, port))
	}
	// Tests switch guards off, to stage what cannot be. The superuser of the cluster alone may.
	join = append(join, "ALTER ROLE payonce SET citus.enable_unsafe_triggers TO on",
		"ALTER ROLE payonce SET citus.propagate_set_commands TO 'local'")
	return Run(ctx, c.Coordinator().URL(name), join...)
}

// Freeze lets nobody into a database any more, so that it can be copied.
func (c *Cluster) Freeze(ctx context.Context, name string) error {
	return c.Everywhere(ctx, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false IS_TEMPLATE true",
		"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '"+name+"'")
}

// Everywhere runs statements on all nodes, in database postgres, which is none of Citus'.
func (c *Cluster) Everywhere(ctx context.Context, statements ...string) error {
	for i := range 1 + Workers {
		if err := Run(ctx, c.Node(i).URL("postgres"), statements...); err != nil {
			return err
		}
	}
	return nil
}

// address is what other nodes know a node by.
func address(s *embeddedpg.Server) (host, port string) {
	u, err := url.Parse(s.URL("postgres"))
	if err != nil {
		return "", ""
	}
	return u.Query().Get("host"), u.Query().Get("port")
}

// Run runs statements on a connection of its own, each in a transaction of its own.
func Run(ctx context.Context, url string, statements ...string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	for _, sql := range statements {
		if _, err = conn.Exec(ctx, sql); err != nil {
			err = fmt.Errorf("%s: %w", sql, err)
			break
		}
	}
	return errors.Join(err, conn.Close(ctx))
}
