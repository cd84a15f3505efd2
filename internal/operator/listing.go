package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5/pgconn"

	"payonce/internal/operator/internal/dbsqlc"
	"payonce/internal/query"
)

// Listing is a list that operators read, in the console and by the operator's API. It reads the parameters of q, and
// returns how their page is read. If something is wrong with the parameters, nothing may be read.
type Listing[T any] func(q *query.Query) Page[T]

// Page reads a page of a list.
type Page[T any] func(context.Context) (query.List[T], error)

// longestList bounds how long a list may be read. A list without an index for all of its filters may have to read very
// many rows to find a few.
const longestList = 5 * time.Second

// ErrTooMuch says that a list has read too many rows for its filters.
var ErrTooMuch = errors.New("the list has too much to read")

// TooMuch is what a person can do about ErrTooMuch.
const TooMuch = "Too many rows would have to be read for these filters. Give a tenant or a shorter time, or leave the " +
	"status out."

// longLists is how many such lists are read at the same time. Each holds a connection of the pool, and the pool is for
// payments. With the default pool, this is a quarter of it.
const longLists = 4

// bounded is a read that takes a place, and fails with ErrTooMuch when it has taken too long, or got no place.
func bounded[T any](d *Service, longest time.Duration, read Page[T]) Page[T] {
	return func(ctx context.Context) (query.List[T], error) {
		inTime, cancel := context.WithTimeout(ctx, longest)
		defer cancel()
		select {
		case d.lists <- struct{}{}:
			defer func() { <-d.lists }()
		case <-inTime.Done():
			if err := ctx.Err(); err != nil {
				return query.List[T]{}, err
			}
			return query.List[T]{}, fmt.Errorf("%w: other lists are being read", ErrTooMuch)
		}
		l, err := read(inTime)
		pg, refused := errors.AsType[*pgconn.PgError](err)
		stopped := inTime.Err() != nil || refused && pg.Code == "57014"
		if err != nil && stopped && ctx.Err() == nil {
			return query.List[T]{}, fmt.Errorf("%w: %w", ErrTooMuch, err)
		}
		return l, err
	}
}

// rowsRead reads a page by a statement, which may find one row more than limit. That row is not shown: it says that
// there is another page.
func rowsRead[Params, Row, T any](
	s *Service, read func(*dbsqlc.Queries, context.Context, Params) ([]Row, error), p Params, limit int,
	show func(Row) T, cursor func(Row) string,
) Page[T] {
	return func(ctx context.Context) (query.List[T], error) {
		rows, err := read(dbsqlc.New(s.config.DB.Reader()), ctx, p)
		if err != nil {
			return query.List[T]{}, fmt.Errorf("read list: %w", err)
		}
		l := query.List[T]{Rows: make([]T, 0, min(len(rows), limit))}
		for _, row := range rows[:min(len(rows), limit)] {
			l.Rows = append(l.Rows, show(row))
		}
		if len(rows) > limit {
			l.Next = cursor(rows[limit-1])
		}
		return l, nil
	}
}

// date is a day in the form of the operator's API.
type date struct{ time.Time }

// MarshalJSON writes the day as YYYY-MM-DD.
func (d date) MarshalJSON() ([]byte, error) { return json.Marshal(d.Format(time.DateOnly)) }

// rowsFor is one row more than the page shows: it says whether there is another page.
func rowsFor(limit int) int32 { return int32(min(limit, query.MaxPage) + 1) } //nolint:gosec // bounded by MaxPage
