package world

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"payonce/test/cituscluster"
)

// AddTenant adds one with a limit of requests per second, and as many at once, and returns its API key.
func (w *World) AddTenant(ctx context.Context, name string, limit int) (string, error) {
	psp := w.plan.psp()
	_, err := w.site.run(ctx, w.URL, "tenants", "create", name, "--psp", string(psp), "--psp-account",
		AccountOf(psp, name))
	if err != nil {
		return "", err
	}
	out, err := w.site.run(ctx, w.URL, "keys", "create", "--tenant", name)
	if err != nil {
		return "", err
	}
	key, _, _ := strings.Cut(out, "\n")
	return key, w.Limit(ctx, name, limit)
}

// Limit changes a tenant's limit of requests.
func (w *World) Limit(ctx context.Context, tenant string, perSecond int) error {
	_, err := w.DB.Exec(ctx, "UPDATE tenants SET requests_per_second = $2, request_burst = $2 WHERE id = $1", tenant,
		perSecond)
	if err != nil {
		return fmt.Errorf("limit a tenant: %w", err)
	}
	return nil
}

// CrashWorker does to one of the workers of a cluster of Citus what CrashPostgres does to its coordinator.
func (s *Site) CrashWorker(ctx context.Context, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.citus.Crash(ctx, 1+n%cituscluster.Workers)
}

// move moves the shards that a tenant's rows are in to the other worker, while they are in use. The rows of other
// tenants in these shards move with them.
const move = `SELECT citus_move_shard_placement(p.shardid, p.nodename, p.nodeport, n.nodename, n.nodeport, 'force_logical')
	FROM citus_shards AS p, pg_dist_node AS n
	WHERE p.shardid = get_shard_id_for_distribution_column('idempotency_keys', $1::text) AND n.shouldhaveshards
	  AND (n.nodename, n.nodeport) <> (p.nodename, p.nodeport)`

// MoveTenant has a tenant rebalanced under load: all that it has goes to another worker.
func (w *World) MoveTenant(ctx context.Context, tenant string) error {
	tag, err := w.DB.Exec(ctx, move, tenant)
	if err == nil && tag.RowsAffected() == 0 {
		err = errors.New("there is nowhere to move to")
	}
	if err != nil {
		return fmt.Errorf("move tenant %s: %w", tenant, err)
	}
	return nil
}

// Servers are the process ids of the PostgreSQL servers, by name.
func (s *Site) Servers() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.citus == nil {
		return map[string]int{"server": s.server.PID()}
	}
	pids := map[string]int{"coordinator": s.server.PID()}
	for n := range cituscluster.Workers {
		pids[fmt.Sprintf("worker %d", 1+n)] = s.citus.Node(1 + n).PID()
	}
	return pids
}
