package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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
// Each call is run twice: first to learn its statement, and again with the statement's rows when the server has
// answered. The first time, the generated method gets an error instead of rows, and the call must return it. So a call
// does nothing before its statement, and it cannot use the rows of another call in the same pipeline. If a statement
// depends on an earlier one, its WHERE must check that.
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
	batch, err := batchOf(ctx, calls)
	if err != nil {
		return err
	}
	conn, err := db.borrow(ctx)
	if err != nil {
		return err
	}
	defer db.giveBack(ctx, conn)
	return db.servers.send(ctx, conn, batch, calls)
}

// Sender sends calls as one transaction, as Pipeline does, or in a transaction.
type Sender func(ctx context.Context, calls ...Call) error

// In is the Sender of the caller's transaction.
func In(tx pgx.Tx) Sender {
	return func(ctx context.Context, calls ...Call) error { return PipelineTx(ctx, tx, calls...) }
}

// PipelineTx runs the statements of the calls in the caller's transaction, in one round trip.
func PipelineTx(ctx context.Context, tx pgx.Tx, calls ...Call) error {
	batch, err := batchOf(ctx, calls)
	if err != nil {
		return err
	}
	if as, other := tx.Conn().PgConn().CustomData()[statementAs].(func(sql string) string); other {
		for _, q := range batch.QueuedQueries {
			q.SQL = as(q.SQL)
		}
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("run statements: %w", err)
	}
	return nil
}

// batchOf has the statements of the calls.
func batchOf(ctx context.Context, calls []Call) (*pgx.Batch, error) {
	batch := &pgx.Batch{}
	for _, call := range calls {
		if err := call(ctx, Statement{batch: batch}); !errors.Is(err, errQueued) {
			return nil, fmt.Errorf("prepare statement: %w", cmp.Or(err, errNoStatement))
		}
		batch.QueuedQueries[batch.Len()-1].Query(func(rows pgx.Rows) error {
			return call(ctx, Statement{rows: rows, read: new(bool)})
		})
	}
	return batch, nil
}

// Statement is a DBTX for sqlc's generated code. It takes exactly one statement: in the first run of a call for the
// batch, and in the second run with its rows.
type Statement struct {
	batch *pgx.Batch
	rows  pgx.Rows
	read  *bool
}

var (
	errQueued       = errors.New("the statement is queued, and has no rows yet")
	errNoStatement  = errors.New("a call has sent no statement")
	errOneStatement = errors.New("a call sends one statement")
)

// Query sends sql, or returns its rows.
func (s Statement) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	switch {
	case s.batch != nil:
		s.batch.Queue(sql, args...)
		return nil, errQueued
	case *s.read:
		return nil, errOneStatement
	}
	*s.read = true
	return s.rows, s.rows.Err()
}

// Exec sends sql, or returns the number of rows that were written.
func (s Statement) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	rows, err := s.Query(ctx, sql, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return rows.CommandTag(), rows.Err()
}

// QueryRow sends sql, or returns its first row.
func (s Statement) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := s.Query(ctx, sql, args...)
	return readRow{rows, err}
}

// execute is a Call of a statement whose rows are not needed.
func execute(sql string, args ...any) Call {
	return func(ctx context.Context, q Statement) error {
		_, err := q.Exec(ctx, sql, args...)
		return err
	}
}

// setting is a Call that sets a parameter for the rest of the transaction.
func setting(name, value string) Call { return execute(setsLocally, name, value) }

const setsLocally = "SELECT set_config($1, $2, true)"

// Text reads a nullable column. NULL is the empty text.
func Text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Nullable is the reverse of Text.
func Nullable[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
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
