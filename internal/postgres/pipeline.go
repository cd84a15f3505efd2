package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

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
// Each call is run once. It stops inside the generated method until the statements of all calls are known and the
// server has answered. Then it continues with the rows of its own statement. So a call cannot use the rows of another
// call in the same pipeline. If a statement depends on an earlier one, its WHERE must check that.
//
// Pipeline may fail after a call has read its rows. The transaction has not happened then. The rows are valid only if
// Pipeline returns nil.
type Call func(ctx context.Context, q Statement) error

// Pipeline runs the statements of the calls as one transaction: one round trip, one commit. If it returns nil, every
// call has its rows and the transaction has committed.
//
// Every other error is either RolledBack or an AmbiguousError. pgconn.SafeToRetry is not used: it tells how many bytes
// this process has written, and not what the server has done.
func (db *DB) Pipeline(ctx context.Context, calls ...Call) error {
	ctx, cancel := bounded(ctx, db.answer)
	defer cancel()
	conn, err := db.borrow(ctx)
	if err != nil {
		return err
	}
	defer db.giveBack(ctx, conn)
	block := db.spread.Load()
	if block {
		// Without BEGIN, Citus would treat each statement of a batch as a transaction of its own, and a worker would
		// commit each one separately.
		calls = slices.Concat([]Call{execute("BEGIN")}, calls, []Call{execute("COMMIT")})
	}
	var p pipeline
	defer p.stop()
	if err := p.start(ctx, calls); err != nil {
		return err
	}
	results := conn.SendBatch(ctx, p.batch())
	if !block {
		return classifyCommit(p.finish(results))
	}
	return db.finishBlock(ctx, conn, p, results)
}

// finishBlock gives the results to the calls of a pipeline whose last call is the COMMIT.
func (db *DB) finishBlock(ctx context.Context, conn *pgxpool.Conn, p pipeline, results pgx.BatchResults) error {
	commit := len(p) - 1
	if err := p[:commit].hand(results); err != nil {
		_ = results.Close()
		if !conn.Conn().IsClosed() {
			// After an error of the server, the COMMIT has rolled back and the ROLLBACK does nothing. After an error of
			// ours, such as a row that could not be read, the COMMIT may have passed. That error is not the server's,
			// so classifyCommit calls it ambiguous.
			_, _ = conn.Exec(ctx, "ROLLBACK")
		}
		return classifyCommit(err)
	}
	return db.classifyEnd(p[commit:].finish(results))
}

// Sender sends calls as one transaction, as Pipeline does, or in a transaction.
type Sender func(ctx context.Context, calls ...Call) error

// In is the Sender of the caller's transaction.
func In(tx pgx.Tx) Sender {
	return func(ctx context.Context, calls ...Call) error { return PipelineTx(ctx, tx, calls...) }
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

// Statement is a DBTX for sqlc's generated code. It takes exactly one statement.
type Statement struct{ c *coroutine }

var (
	errNoStatement  = errors.New("a call has sent no statement")
	errOneStatement = errors.New("a call sends one statement")
	errNotSent      = errors.New("the statement was not sent")
)

// Exec sends sql and returns the number of rows that were written.
func (s Statement) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	results, err := s.c.exchange(sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return results.Exec()
}

// Query sends sql and returns its rows.
func (s Statement) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	results, err := s.c.exchange(sql, args)
	if err != nil {
		return nil, err
	}
	s.c.rows, err = results.Query()
	return s.c.rows, err
}

// QueryRow sends sql and returns its first row.
func (s Statement) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := s.Query(ctx, sql, args...)
	return readRow{rows, err}
}

// coroutine is a call that is running. It runs until it has a statement to send, and waits there. It continues when it
// gets the results.
type coroutine struct {
	sql     string
	args    []any
	results pgx.BatchResults // of the whole batch, with the results of this call next; nil before they arrive
	rows    pgx.Rows
	err     error // what the call returned

	wait   func(struct{}) bool               // called inside: waits for the results; false if there will be none
	resume func() (_ struct{}, waiting bool) // called outside: runs the call until it waits or ends
	stop   func()                            // called outside: ends the call without results
}

func newCoroutine(ctx context.Context, call Call) *coroutine {
	c := &coroutine{}
	c.resume, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.wait = yield
		c.err = call(ctx, Statement{c})
	})
	return c
}

// start runs the call until it has its statement.
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

// exchange stores the statement to send, and waits for the results.
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

// pipeline is a list of calls whose statements are sent together.
type pipeline []*coroutine

// start runs each call until it has its statement.
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

// stop ends the calls that have not ended.
func (p *pipeline) stop() {
	for _, c := range *p {
		c.stop()
	}
}

func (p pipeline) batch() *pgx.Batch {
	b := &pgx.Batch{}
	for _, c := range p {
		b.Queue(c.sql, c.args...)
	}
	return b
}

// finish gives the results to the calls. It always closes the results, because the last one is the result of the
// commit.
func (p pipeline) finish(results pgx.BatchResults) error {
	failed := p.hand(results)
	return cmp.Or(failed, results.Close())
}

// hand gives the results to the calls, in order, until a call fails.
func (p pipeline) hand(results pgx.BatchResults) error {
	for _, c := range p {
		if err := c.finish(results); err != nil {
			return err
		}
	}
	return nil
}

// execute is a Call of a statement whose rows are not needed.
func execute(sql string, args ...any) Call {
	return func(ctx context.Context, q Statement) error {
		_, err := q.Exec(ctx, sql, args...)
		return err
	}
}

// setting is a Call that sets a parameter for the rest of the transaction.
func setting(name, value string) Call { return execute("SELECT set_config($1, $2, true)", name, value) }

// Text reads a nullable column. NULL is the empty text.
func Text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Nullable is the reverse of Text.
func Nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// maxRecalls is how often, at most, a commit whose acknowledgement was lost is sent again or read.
const maxRecalls = 3

// recallPause is the pause between two tries.
const recallPause = 100 * time.Millisecond

// Recall is for a commit whose acknowledgement was lost. It calls ask, which may send the transaction again or read
// whether it was committed, until ask returns done, at most three times and with a pause between. It reports whether
// ask was done. If ask gave up waiting (GaveUp), it should return done, because the next try would wait as long. try
// counts from 1.
func Recall(ctx context.Context, ask func(try int) (done bool)) bool {
	for try := 1; ; try++ {
		if ask(try) {
			return true
		}
		if try == maxRecalls {
			return false
		}
		select {
		case <-time.After(recallPause):
		case <-ctx.Done():
			return false
		}
	}
}
