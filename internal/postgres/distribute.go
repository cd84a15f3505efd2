package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
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
		db.becomeSpread()
	}
	return nil
}

// becomeSpread also lets no payments share a transaction: one of several tenants would be one of several servers.
func (db *DB) becomeSpread() {
	db.spread.Store(true)
	db.slots.mu.Lock()
	defer db.slots.mu.Unlock()
	db.slots.Members = 1
}

// sendSpread sends a pipeline if the tables are distributed. Without BEGIN, Citus would treat each statement of a batch
// as a transaction of its own, and a worker would commit each one separately.
func (db *DB) sendSpread(ctx context.Context, conn *pgxpool.Conn, batch *pgx.Batch) error {
	block, ended := &pgx.Batch{}, false
	block.Queue("BEGIN")
	for _, q := range batch.QueuedQueries {
		q.SQL = NameTenant(q.SQL)
		block.QueuedQueries = append(block.QueuedQueries, q)
	}
	block.Queue("COMMIT").Fn = func(results pgx.BatchResults) error {
		ended = true
		_, err := results.Exec()
		return err
	}
	err := conn.SendBatch(ctx, block).Close()
	if err != nil && !ended {
		// After an error of the server, the COMMIT has rolled back and the ROLLBACK does nothing. After an error of
		// ours, such as a row that could not be read, the COMMIT may have passed. That error is not the server's, so
		// classifyCommit calls it ambiguous.
		_, _ = conn.Exec(ctx, "ROLLBACK")
		return classifyCommit(err)
	}
	return db.classifyEnd(err)
}

// classifyEnd says what is known after an explicit COMMIT was sent. If the tables are distributed, an ERROR does not
// prove that the transaction was rolled back. The coordinator sends the COMMIT to a worker, and reports an error if the
// worker's answer is lost.
func (db *DB) classifyEnd(err error) error {
	if _, answered := errors.AsType[*pgconn.PgError](err); answered && db.spread.Load() {
		return &AmbiguousError{Err: err}
	}
	return classifyCommit(err)
}

var (
	tenantIDs  = regexp.MustCompile(`unnest\((\$\d+::text\[\])\) AS tenant_id`)
	sameTenant = regexp.MustCompile(`(\w+\.tenant_id) = \w+\.tenant_id`)
)

// NameTenant adds the tenants to each join of a statement over arrays. By the join alone, Citus does not see which
// shards have the rows, and would send the statement to all workers.
func NameTenant(sql string) string {
	array := tenantIDs.FindStringSubmatch(sql)
	if array == nil {
		return sql
	}
	return sameTenant.ReplaceAllString(sql, "$0 AND $1 = ANY ($"+array[1]+")")
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
