package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Reader is a DBTX for sqlc's generated code that reads: each query has a connection and a snapshot of its own, outside any transaction, under a
// context that ends in time. Errors come back classified, as those of statements that have written nothing.
//
//	row, err := dbsqlc.New(db.Reader()).GetPayment(ctx, params)
//
// What writes must not go through a Reader: a lost acknowledgement would be called "nothing was written". Pipeline and Transact are for that.
type Reader struct{ db *DB }

// Reader reads from db.
func (db *DB) Reader() Reader { return Reader{db} }

// errReaderExecutes is a mistake of ours, which the first test that comes by it finds.
var errReaderExecutes = errors.New("a Reader executes nothing: use Pipeline or Transact")

// Exec refuses: what gives no rows can only be a write.
func (Reader) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, errReaderExecutes
}

// Query runs a query. Its connection goes back to the pool when the rows are closed, or at their end.
func (r Reader) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	ctx, cancel := r.db.bounded(ctx)
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

// QueryRow runs a query for one row. As with pgx's own, only Scan gives the connection back.
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

// Close gives the connection back, once.
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

// Err tells what has ended the rows early.
func (r *readRows) Err() error { return classifyRead(r.Rows.Err()) }

// readRow is the first of rows, or why there are none.
type readRow struct {
	rows pgx.Rows
	err  error
}

// Scan reads the row, or fails with pgx.ErrNoRows.
func (r readRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if r.rows.Next() {
		if err := r.rows.Scan(dest...); err != nil {
			return err
		}
		r.rows.Close() // what the server says after the row counts, too
		return r.rows.Err()
	}
	if err := r.rows.Err(); err != nil {
		return err
	}
	return pgx.ErrNoRows
}

// Ping asks the database for a sign of life.
func (db *DB) Ping(ctx context.Context) error {
	ctx, cancel := db.bounded(ctx)
	defer cancel()
	conn, err := db.borrow(ctx)
	if err != nil {
		return err
	}
	defer db.giveBack(ctx, conn)
	if err := conn.Ping(ctx); err != nil {
		return classifyRead(fmt.Errorf("ping database: %w", err))
	}
	return nil
}
