package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/db/migrations/citus"
)

// cluster is the servers of a DB whose tables of tenants are distributed by Citus (docs/citus.md). The DB is connected
// to the coordinator. A transaction that package citus names is sent as one call of a function,
// which the worker of the tenant runs and commits alone. Every other transaction is sent as statements, between BEGIN
// and COMMIT.
type cluster struct {
	oneServer             // what it does if the tables are not distributed
	is        atomic.Bool // whether the tables are distributed; they stay so
	callers   func() map[string]citus.Caller
}

var _ servers = (*cluster)(nil)

// cluster is of every DB: only the database knows whether its tables are distributed.
func (*DB) cluster() servers { return &cluster{callers: sync.OnceValue(citus.Callers)} }

// distributed asks whether the tables of tenants are distributed. It reads PostgreSQL's own catalogs, because the
// catalogs of Citus do not exist without Citus.
const distributed = `SELECT EXISTS (SELECT FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
	WHERE t.tgrelid = to_regclass('idempotency_keys') AND p.proname = 'citus_truncate_trigger')`

// connected asks on each new connection, until the answer is yes once. Then it refuses every connection until api
// migrate has made the functions. Under a generic plan, Citus passes on no call.
func (c *cluster) connected(ctx context.Context, conn *pgx.Conn) error {
	if !c.is.Load() {
		var yes bool
		if err := conn.QueryRow(ctx, distributed, pgx.QueryExecModeSimpleProtocol).Scan(&yes); err != nil {
			return fmt.Errorf("ask whether tables are distributed: %w", err)
		}
		if !yes {
			return nil
		}
		if err := citus.Ready(ctx, conn); err != nil {
			return err
		}
		c.is.Store(true)
	}
	conn.PgConn().CustomData()[statementAs] = citus.NameTenant
	_, err := conn.Exec(ctx, "SET plan_cache_mode = auto", pgx.QueryExecModeSimpleProtocol)
	return err
}

// maxPassed is how many groups go before a key that has waited longer.
const maxPassed = 8

// together: a call is of one tenant, the first word of a key. It costs as much for one payment as for several, so the
// group is of the tenant with the most that wait, until maxPassed groups were taken without the one that has waited
// longest.
func (c *cluster) together(waiting []string, passed int) func(key string) bool {
	if !c.is.Load() || len(waiting) == 0 {
		return c.oneServer.together(waiting, passed)
	}
	tenantOf := func(key string) string { return key[:max(0, strings.Index(key, " "))] } // "" of a provider's event
	next, members := tenantOf(waiting[0]), map[string]int{}
	for _, key := range waiting {
		tenant := tenantOf(key)
		if members[tenant]++; passed < maxPassed && members[tenant] > members[next] {
			next = tenant
		}
	}
	return func(key string) bool { return tenantOf(key) == next }
}

// maxMoves is how often a call is sent, at most: again whenever the tenant moves to another worker meanwhile.
const maxMoves = 3

func (c *cluster) send(ctx context.Context, conn *pgxpool.Conn, batch *pgx.Batch, calls []Call) error {
	if !c.is.Load() {
		return c.oneServer.send(ctx, conn, batch, calls)
	}
	call := c.callOf(batch)
	if call == nil {
		return c.sendBlock(ctx, conn, batch)
	}
	for try := 1; ; try++ {
		results, err := citus.Call(ctx, conn.Conn(), call.sql, call.args, len(calls)-call.skipped)
		if err == nil {
			return give(ctx, results, calls[call.skipped:])
		}
		pg, answered := errors.AsType[*pgconn.PgError](err)
		if !answered || pg.Code != "40001" || try == maxMoves {
			return classifyCall(err)
		}
	}
}

// ended: an ERROR at the end of a transaction does not prove that it was rolled back. The coordinator sends the COMMIT
// to a worker, and reports an error if the worker's answer is lost.
func (c *cluster) ended(err error) error {
	if _, answered := errors.AsType[*pgconn.PgError](err); answered && c.is.Load() {
		return &AmbiguousError{Err: err}
	}
	return c.oneServer.ended(err)
}

// sendBlock sends the statements as one transaction. Without BEGIN, Citus would treat each statement of a batch as a
// transaction of its own, and a worker would commit each one separately.
func (c *cluster) sendBlock(ctx context.Context, conn *pgxpool.Conn, batch *pgx.Batch) error {
	block, ended := &pgx.Batch{}, false
	block.Queue("BEGIN")
	for _, q := range batch.QueuedQueries {
		q.SQL = citus.NameTenant(q.SQL)
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
	return c.ended(err)
}

// classifyCall says what is known after a call. The worker commits before the coordinator answers, so most errors do
// not say whether the transaction has happened: a coordinator that is told to stop waiting (57014), or that has lost
// the worker (08006), reports an ERROR after the commit. These are errors that end the transaction before it commits.
func classifyCall(err error) error {
	pg, answered := errors.AsType[*pgconn.PgError](err)
	if answered && pg.SeverityUnlocalized == "ERROR" {
		if pg.Code == "0A000" { // Citus has not passed the call on. No payment is the cause.
			return &UnavailableError{Op: "call", Err: err}
		}
		if slices.Contains([]string{"40001", "40P01", "55P03", onlyReads}, pg.Code) ||
			slices.Contains([]string{"22", "23", "42", "P0"}, pg.Code[:2]) {
			return unlessRefused(opRun, err)
		}
	}
	return &AmbiguousError{Err: err}
}

// call is a transaction as one call.
type call struct {
	sql     string
	args    []any
	skipped int // Calls that are no statement of it
}

// callOf is the call of a transaction, or nil if it has no function. The lock_timeout that GroupPipeline sets first is
// set by the function, on the worker.
func (c *cluster) callOf(batch *pgx.Batch) *call {
	statements, lockTimeout := batch.QueuedQueries, ""
	if first := statements[0]; first.SQL == setsLocally && first.Arguments[0] == "lock_timeout" {
		lockTimeout, statements = first.Arguments[1].(string), statements[1:]
	}
	var texts []string
	args := []any{nil, lockTimeout}
	for _, q := range statements {
		texts, args = append(texts, q.SQL), append(args, q.Arguments...)
	}
	caller, has := c.callers()[strings.Join(texts, "")]
	if !has {
		return nil
	}
	tenant := oneTenant(statements[0].Arguments[caller.Tenant-1])
	if tenant == "" {
		return nil
	}
	args[0] = tenant
	return &call{caller.SQL, args, len(batch.QueuedQueries) - len(statements)}
}

// oneTenant is the tenant that a parameter has, or nothing if that is not one for sure: a call writes to the rows of
// one tenant, and nobody would find another's there.
func oneTenant(parameter any) string {
	switch of := parameter.(type) {
	case []string:
		if len(slices.Compact(slices.Clone(of))) == 1 {
			return of[0]
		}
	case string:
		return of
	}
	return ""
}

// give hands each Call the rows of its statement. The transaction has committed, so it may have happened if one fails.
func give(ctx context.Context, results []pgx.Rows, calls []Call) error {
	for i, do := range calls {
		if err := do(ctx, Statement{rows: results[i], read: new(bool)}); err != nil {
			return &AmbiguousError{Err: err}
		}
	}
	return nil
}

var _ distributes = (*Migration)(nil)

// Distribute is Run, and then distributes the tables of tenants over the workers of Citus. The URL names the
// coordinator. db/migrations/citus/distribute.sql says which table becomes what, and what is refused. Distribute may be
// repeated. After it, Run also distributes the tables of later schemas. There is no way back.
//
// No other process may run meanwhile. A process that has opened its connections before does not know that each pipeline
// must now be a transaction block, or a call.
func (m *Migration) Distribute(ctx context.Context) error {
	m.distribute = true
	return m.Run(ctx)
}

// begin prepares the configuration of the connection that migrates.
func (m *Migration) begin(ctx context.Context, own *pgx.ConnConfig) error {
	err := connected(ctx, m.cfg, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, distributed).Scan(&m.spread) })
	if m.spread {
		// Migrations may bring triggers for tables that are distributed.
		own.RuntimeParams["citus.enable_unsafe_triggers"] = "on"
	}
	return err
}

// end distributes the tables that are not distributed yet, and makes the functions of transactions, also for the shards
// that a split has made.
func (m *Migration) end(ctx context.Context, later bool) error {
	if m.spread = m.spread || m.distribute; !m.spread {
		return nil
	}
	err := connected(ctx, m.cfg, func(conn *pgx.Conn) error {
		if !later {
			if _, err := conn.Exec(ctx, citus.File("distribute.sql")); err != nil {
				return err
			}
		}
		return citus.MakeFunctions(ctx, conn, later)
	})
	if err != nil {
		return fmt.Errorf("distribute: %w", err)
	}
	m.log.InfoContext(ctx, "the tables of tenants are distributed")
	return nil
}

// beforeGrants has rights on several tables sent over one connection to each worker.
func (m *Migration) beforeGrants(ctx context.Context, tx pgx.Tx) (err error) {
	if m.spread {
		_, err = tx.Exec(ctx, "SET LOCAL citus.multi_shard_modify_mode TO 'sequential'")
	}
	return err
}

// grant gives a role its rights. Citus cannot pass on rights on columns. So the role's file runs on the coordinator
// only. Then the same rights are given on whole tables, on all servers.
func (m *Migration) grant(ctx context.Context, tx pgx.Tx, role Role, file func() error) error {
	if !m.spread {
		return file()
	}
	if _, err := tx.Exec(ctx, "SET LOCAL citus.enable_ddl_propagation TO off"); err != nil {
		return err
	}
	if err := file(); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "SET LOCAL citus.enable_ddl_propagation TO on"); err != nil {
		return err
	}
	return runAnswer(ctx, tx, citus.WideGrants, role)
}
