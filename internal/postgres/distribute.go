package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Distribute is Migrate, and then distributes the tables of tenants over the workers of Citus. url names the
// coordinator. db/migrations/citus/distribute.sql says which table becomes what, and what is refused. Distribute may be
// repeated. After it, Migrate also distributes the tables of later schemas. There is no way back.
//
// No other process may run meanwhile. A process that has opened its connections before does not know that each pipeline
// must now be a transaction block.
func Distribute(ctx context.Context, url string, log *slog.Logger) error {
	return migrate(ctx, url, true, log)
}

// distributed asks whether the tables of tenants are distributed over workers. It reads PostgreSQL's own catalogs,
// because the catalogs of Citus do not exist without Citus.
const distributed = `SELECT EXISTS (SELECT FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
	WHERE t.tgrelid = to_regclass('idempotency_keys') AND p.proname = 'citus_truncate_trigger')`

// askWhetherSpread asks on each new connection, until the answer is yes once. Tables that are distributed stay
// distributed.
func (db *DB) askWhetherSpread(ctx context.Context, c *pgx.Conn) error {
	if db.spread.Load() {
		return nil
	}
	var yes bool
	if err := c.QueryRow(ctx, distributed, pgx.QueryExecModeSimpleProtocol).Scan(&yes); err != nil {
		return fmt.Errorf("ask whether tables are distributed: %w", err)
	}
	if yes {
		db.spread.Store(true)
	}
	return nil
}

// OnlyTenant is the tenant of all elements of a statement over arrays, if the tables are distributed and there is only
// one tenant. Citus cannot see the tenant in an array, and would send the statement to all workers. On one server, and
// for several tenants, the result is nil.
func (db *DB) OnlyTenant(tenants []string) *string {
	if !db.spread.Load() || len(tenants) == 0 ||
		slices.ContainsFunc(tenants, func(t string) bool { return t != tenants[0] }) {
		return nil
	}
	return &tenants[0]
}

// spread distributes the tables that are not distributed yet.
func spread(ctx context.Context, cfg *pgx.ConnConfig, log *slog.Logger) error {
	err := connected(ctx, cfg, func(conn *pgx.Conn) error { return runFile(ctx, conn, "citus/distribute.sql") })
	if err != nil {
		return fmt.Errorf("distribute: %w", err)
	}
	log.InfoContext(ctx, "the tables of tenants are distributed")
	return nil
}
