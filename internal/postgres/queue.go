package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Queue is a DBTX for sqlc's generated code that puts a query on a batch instead of running it. The
// generated method keeps the SQL and its arguments together; its result means nothing and is discarded.
// The real one arrives through the callback set by One or Affected:
//
//	q := postgres.On(batch)
//	_, _ = dbsqlc.New(q).ReserveKey(ctx, params)
//	postgres.One(q, func(row *dbsqlc.ReserveKeyRow) error { … })
type Queue struct{ batch *pgx.Batch }

// On queues on b.
func On(b *pgx.Batch) Queue { return Queue{batch: b} }

// One has fn called with the single row of the query queued last, or with nil if it gives none.
func One[Row any](q Queue, fn func(row *Row) error) {
	q.last().Query(func(rows pgx.Rows) error {
		row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByPos[Row])
		if errors.Is(err, pgx.ErrNoRows) {
			return fn(nil)
		}
		if err != nil {
			return err
		}
		return fn(row)
	})
}

// Scalar is One for a query of a single column.
func Scalar[T any](q Queue, fn func(value *T) error) {
	q.last().Query(func(rows pgx.Rows) error {
		value, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOf[T])
		if errors.Is(err, pgx.ErrNoRows) {
			return fn(nil)
		}
		if err != nil {
			return err
		}
		return fn(value)
	})
}

// Affected has fn called with the number of rows that the query queued last has written.
func Affected(q Queue, fn func(rows int64) error) {
	q.last().Exec(func(tag pgconn.CommandTag) error { return fn(tag.RowsAffected()) })
}

func (q Queue) last() *pgx.QueuedQuery { return q.batch.QueuedQueries[q.batch.Len()-1] }

// Exec queues sql.
func (q Queue) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	q.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// Query queues sql. A generated :many method reads its rows at once, which a queued query cannot offer.
func (q Queue) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return nil, errors.New("a :many query cannot be queued")
}

// QueryRow queues sql.
func (q Queue) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	q.batch.Queue(sql, args...)
	return pending{}
}

// pending stands in for a row that has not been asked for yet.
type pending struct{}

func (pending) Scan(...any) error { return nil }
