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

// Reader is a DBTX for sqlc's generated code that only reads. Each query has its own connection and its own snapshot,
// outside any transaction, and a time limit. Errors are classified as those of statements that write nothing.
//
//	row, err := dbsqlc.New(db.Reader()).GetPayment(ctx, params)
//
// A write must not go through a Reader: after a lost acknowledgement, the error would say that nothing was written. Use
// Pipeline or Transact for writes.
type Reader struct{ db *DB }

// DBTX is what sqlc's generated code runs a query on: a Reader, or a Statement of a pipeline.
type DBTX interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Query is one statement that only reads. A Reading runs it: ReadNow, or ReadDurably.
type (
	Query   func(ctx context.Context, q DBTX) error
	Reading func(ctx context.Context, query Query) error
)

// Call is the query in a pipeline.
func (read Query) Call(ctx context.Context, q Statement) error { return read(ctx, q) }

// ReadNow runs a query on a Reader.
func (db *DB) ReadNow(ctx context.Context, query Query) error { return query(ctx, db.Reader()) }

// Reader returns a Reader of db.
func (db *DB) Reader() Reader { return Reader{db} }

// errReaderExecutes is a bug of ours. The first test that runs such code finds it.
var errReaderExecutes = errors.New("a Reader executes nothing: use Pipeline or Transact")

// Exec refuses, because a statement without rows can only be a write.
func (Reader) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, errReaderExecutes
}

// Query runs a query. Its connection returns to the pool when the rows are closed or have been read to their end.
func (r Reader) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	ctx, cancel := bounded(ctx, r.db.answer)
	conn, err := r.db.borrow(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	rows, err := conn.Query(ctx, sql, args...)
	read := &readRows{Rows: rows, end: func() { r.db.giveBack(ctx, conn); cancel() }}
	if err != nil {
		read.Close()
		return nil, classifyRead(err)
	}
	return read, nil
}

// QueryRow runs a query for one row. As in pgx, only Scan returns the connection.
func (r Reader) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := r.Query(ctx, sql, args...)
	return readRow{rows, err}
}

// readRows are rows that hold a connection until they are closed.
type readRows struct {
	pgx.Rows
	end    func()
	closed bool
}

// Close returns the connection to the pool, once.
func (r *readRows) Close() {
	r.Rows.Close()
	if !r.closed {
		r.closed = true
		r.end()
	}
}

// Next closes the rows at their end.
func (r *readRows) Next() bool {
	more := r.Rows.Next()
	if !more {
		r.Close()
	}
	return more
}

// Scan reads the row.
func (r *readRows) Scan(dest ...any) error { return classifyRead(r.Rows.Scan(dest...)) }

// Err returns the error that ended the rows early.
func (r *readRows) Err() error { return classifyRead(r.Rows.Err()) }

// readRow is the first row of rows, or the error of the query.
type readRow struct {
	rows pgx.Rows
	err  error
}

// Scan reads the row. It fails with pgx.ErrNoRows if there is none.
func (r readRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		return cmp.Or(r.rows.Err(), pgx.ErrNoRows)
	}
	err := r.rows.Scan(dest...)
	r.rows.Close() // The server may still report an error after the row.
	return cmp.Or(err, r.rows.Err())
}

// Clock is the time by the database's clock, by which leases end and dead letters are opened.
func (db *DB) Clock(ctx context.Context) (at time.Time, err error) {
	if err := db.Reader().QueryRow(ctx, "SELECT payonce_now()").Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("read clock: %w", err)
	}
	return at, nil
}

// Ping checks whether the database answers.
func (db *DB) Ping(ctx context.Context) error {
	var one int
	if err := db.Reader().QueryRow(ctx, "SELECT 1").Scan(&one); err != nil {
		return fmt.Errorf("ping database: %w", err)
	}
	return nil
}
