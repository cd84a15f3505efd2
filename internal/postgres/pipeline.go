package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Call runs one statement of sqlc's generated code. Pipeline sends the statements of several calls together:
//
//	var keys []dbsqlc.ReserveKeysRow
//	reserve := func(ctx context.Context, q postgres.Statement) (err error) {
//		keys, err = dbsqlc.New(q).ReserveKeys(ctx, params)
//		return err
//	}
//	err := db.Pipeline(ctx, reserve, begin)
//
// A call is run once. It stops inside the generated method until the statements of all calls are known and the server has answered, and goes on with the
// rows of its own statement. So a call cannot use what another call of the same pipeline has read: where a statement depends on the one before, its WHERE says so.
//
// Pipeline may fail after a call has read its rows: the transaction has not happened then. What a call has read counts only when Pipeline returns nil.
type Call func(ctx context.Context, q Statement) error

// Pipeline runs the statements of the calls as one transaction: one round trip, one commit. When it returns nil, every call has had its rows and the transaction
// has committed.
//
// Any other error than one that satisfies RolledBack is an AmbiguousError. pgconn.SafeToRetry is not consulted: it speaks of
// bytes written by this process, not of what the server did.
func (db *DB) Pipeline(ctx context.Context, calls ...Call) error {
	ctx, cancel := db.bounded(ctx)
	defer cancel()
	var p pipeline
	defer p.stop()
	if err := p.start(ctx, calls); err != nil {
		return err
	}
	conn, err := db.borrow(ctx)
	if err != nil {
		return err
	}
	defer db.giveBack(ctx, conn)
	if !db.spread.Load() {
		return classifyCommit(p.finish(conn.SendBatch(ctx, p.batch())))
	}
	return db.runBlock(ctx, conn, p)
}

// runBlock runs a pipeline between BEGIN and COMMIT, in one round trip as well. Citus takes a transaction that is one only because its statements travel together
// for as many transactions as it has statements, and a worker commits each by itself.
func (db *DB) runBlock(ctx context.Context, conn *pgxpool.Conn, p pipeline) error {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	p.queue(b)
	b.Queue("COMMIT")
	results := conn.SendBatch(ctx, b)
	_, err := results.Exec()
	if err == nil {
		err = p.hand(results)
	}
	if err != nil {
		_ = results.Close()
		if !conn.Conn().IsClosed() {
			// After an error of the server, the COMMIT has rolled back and this does nothing. After one of ours, such as a row that could not be read,
			// the COMMIT may have passed: then the error is not the server's, and classifyCommit calls it ambiguous.
			_, _ = conn.Exec(ctx, "ROLLBACK")
		}
		return classifyCommit(err)
	}
	_, err = results.Exec()
	return db.classifyEnd(cmp.Or(err, results.Close()))
}

// PipelineTx runs the statements of the calls in the caller's transaction, in one round trip.
func PipelineTx(ctx context.Context, tx pgx.Tx, calls ...Call) error {
	var p pipeline
	defer p.stop()
	if err := p.start(ctx, calls); err != nil {
		return err
	}
	if err := p.finish(tx.SendBatch(ctx, p.batch())); err != nil {
		return fmt.Errorf("run statements: %w", err)
	}
	return nil
}

// Statement is a DBTX for sqlc's generated code. It takes one statement.
type Statement struct{ c *coroutine }

var (
	errNoStatement  = errors.New("a call has sent no statement")
	errOneStatement = errors.New("a call sends one statement")
	errNotSent      = errors.New("the statement was not sent")
)

// Exec sends sql and gives the number of rows written.
func (s Statement) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	results, err := s.c.exchange(sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return results.Exec()
}

// Query sends sql and gives its rows.
func (s Statement) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	results, err := s.c.exchange(sql, args)
	if err != nil {
		return nil, err
	}
	s.c.rows, err = results.Query()
	return s.c.rows, err
}

// QueryRow sends sql and gives its first row.
func (s Statement) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := s.Query(ctx, sql, args...)
	return readRow{rows, err}
}

// coroutine is a call under way. It runs until it has a statement to send, waits there, and runs on to its end with the results.
type coroutine struct {
	sql     string
	args    []any
	results pgx.BatchResults // of the whole batch; those of this call are next. nil before
	rows    pgx.Rows
	err     error // what the call returned

	wait   func(struct{}) bool               // inside: until there are results, or false
	resume func() (_ struct{}, waiting bool) // outside: until it waits, or has come to its end
	stop   func()                            // outside: to its end, without results
}

func newCoroutine(ctx context.Context, call Call) *coroutine {
	c := &coroutine{}
	c.resume, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.wait = yield
		c.err = call(ctx, Statement{c})
	})
	return c
}

// start runs the call as far as its statement.
func (c *coroutine) start() error {
	_, waiting := c.resume()
	switch {
	case waiting:
		return nil
	case c.err != nil:
		return c.err
	}
	return errNoStatement
}

// exchange gives the statement away and waits for the results.
func (c *coroutine) exchange(sql string, args []any) (pgx.BatchResults, error) {
	if c.results != nil {
		return nil, errOneStatement
	}
	c.sql, c.args = sql, args
	if !c.wait(struct{}{}) {
		return nil, errNotSent
	}
	return c.results, nil
}

// finish runs the call to its end, with the next results of the batch.
func (c *coroutine) finish(results pgx.BatchResults) error {
	c.results = results
	c.resume()
	if c.rows != nil {
		c.rows.Close()
	}
	return c.err
}

// pipeline is calls whose statements travel together.
type pipeline []*coroutine

// start runs the calls as far as their statements.
func (p *pipeline) start(ctx context.Context, calls []Call) error {
	for _, call := range calls {
		c := newCoroutine(ctx, call)
		*p = append(*p, c)
		if err := c.start(); err != nil {
			return fmt.Errorf("prepare statement: %w", err)
		}
	}
	return nil
}

// stop ends the calls that have not come to their end.
func (p *pipeline) stop() {
	for _, c := range *p {
		c.stop()
	}
}

func (p pipeline) batch() *pgx.Batch {
	b := &pgx.Batch{}
	p.queue(b)
	return b
}

// queue adds the statements to a batch.
func (p pipeline) queue(b *pgx.Batch) {
	for _, c := range p {
		b.Queue(c.sql, c.args...)
	}
}

// finish hands the results to the calls. They are read to their end in any case: the last of them is that of the commit.
func (p pipeline) finish(results pgx.BatchResults) error {
	failed := p.hand(results)
	return cmp.Or(failed, results.Close())
}

// hand hands the results to the calls, in order, until one fails.
func (p pipeline) hand(results pgx.BatchResults) error {
	for _, c := range p {
		if err := c.finish(results); err != nil {
			return err
		}
	}
	return nil
}

// execute is a Call of a statement whose rows nobody needs.
func execute(sql string, args ...any) Call {
	return func(ctx context.Context, q Statement) error {
		_, err := q.Exec(ctx, sql, args...)
		return err
	}
}

// setting is a Call that sets a parameter for the rest of the transaction.
func setting(name, value string) Call { return execute("SELECT set_config($1, $2, true)", name, value) }
