package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Distribute is Migrate, and then spreads the tables of tenants over the workers of Citus. url names the coordinator. Which table becomes what, and what is
// refused, is in db/migrations/citus/distribute.sql. Safe to repeat; after it, Migrate does the same for tables that a later schema brings. There is no way
// back.
//
// No process may run meanwhile. One that opened its connections before does not know that each pipeline is to be a transaction block from now on.
func Distribute(ctx context.Context, url string, log *slog.Logger) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return errUnreadableURL
	}
	return migrate(ctx, cfg, true, log)
}

// distributed asks whether the tables of tenants are spread over workers. It is a question to PostgreSQL's own catalogs: without Citus, its own do not exist.
const distributed = `SELECT EXISTS (SELECT FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
	WHERE t.tgrelid = to_regclass('idempotency_keys') AND p.proname = 'citus_truncate_trigger')`

// askWhetherSpread asks each new connection, until one has said so: tables that are distributed stay so.
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

// OnlyTenant is what a statement over arrays is told of the tenants in them: the one that there is, where tables are distributed. Citus cannot see it in an
// array, and would send the statement to all workers. nil says nothing: on one server, and of several tenants.
func (db *DB) OnlyTenant(tenants []string) *string {
	if !db.spread.Load() || len(tenants) == 0 || slices.ContainsFunc(tenants, func(t string) bool { return t != tenants[0] }) {
		return nil
	}
	return &tenants[0]
}

// spread distributes what is not distributed yet.
func spread(ctx context.Context, cfg *pgx.ConnConfig, log *slog.Logger) error {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	err = runFile(ctx, conn, "citus/distribute.sql")
	if err := errors.Join(err, conn.Close(context.WithoutCancel(ctx))); err != nil {
		return fmt.Errorf("distribute: %w", err)
	}
	log.InfoContext(ctx, "the tables of tenants are distributed")
	return nil
}

// isDistributed asks the same for a migration.
func isDistributed(ctx context.Context, cfg *pgx.ConnConfig) (yes bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return false, fmt.Errorf("migrate: %w", err)
	}
	if err := errors.Join(conn.QueryRow(ctx, distributed).Scan(&yes), conn.Close(context.WithoutCancel(ctx))); err != nil {
		return false, fmt.Errorf("migrate: %w", err)
	}
	return yes, nil
}
