package operator

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5/pgconn"

	"payonce/internal/problem"
)

// Listing is a list that operators read. The console and the operator's API show the same one: both read its parameters
// with Filter, and its rows with Read.
type Listing[F, T any] struct {
	Parameters []string // the names that a query may have
	Filter     func(url.Values) (F, []problem.Detail)
	Read       func(context.Context, F) (List[T], error)
}

// List is a page of a list. Next is the cursor of the next page, and "" on the last page.
type List[T any] struct {
	Rows []T
	Next string
}

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

// places has room for the long lists that are being read.
func (d *Service) places() chan struct{} { return d.lists }

// bounded is a read that takes a place, and fails with ErrTooMuch when it has taken too long, or got no place.
func bounded[F, T any](
	longest time.Duration, places func() chan struct{}, read func(context.Context, F) (List[T], error),
) func(context.Context, F) (List[T], error) {
	return func(ctx context.Context, f F) (List[T], error) {
		inTime, cancel := context.WithTimeout(ctx, longest)
		defer cancel()
		select {
		case places() <- struct{}{}:
			defer func() { <-places() }()
		case <-inTime.Done():
			if err := ctx.Err(); err != nil {
				return List[T]{}, err
			}
			return List[T]{}, fmt.Errorf("%w: other lists are being read", ErrTooMuch)
		}
		l, err := read(inTime, f)
		var pg *pgconn.PgError
		stopped := inTime.Err() != nil || errors.As(err, &pg) && pg.Code == "57014"
		if err != nil && stopped && ctx.Err() == nil {
			return List[T]{}, fmt.Errorf("%w: %w", ErrTooMuch, err)
		}
		return l, err
	}
}

// MarshalJSON writes the page as the operator's API shows it.
func (l List[T]) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Data       []T    `json:"data"`
		HasMore    bool   `json:"hasMore"`
		NextCursor string `json:"nextCursor,omitempty"`
	}{Data: l.Rows, HasMore: l.Next != "", NextCursor: l.Next}, json.Deterministic(true))
}

// listOf makes a page of the rows that were read for it, which may be one more than limit. That row is not shown: it
// says that there is another page.
func listOf[Row, T any](rows []Row, limit int, show func(Row) T, cursor func(Row) string) List[T] {
	l := List[T]{Rows: make([]T, 0, min(len(rows), limit))}
	for _, row := range rows[:min(len(rows), limit)] {
		l.Rows = append(l.Rows, show(row))
	}
	if len(rows) > limit {
		l.Next = cursor(rows[limit-1])
	}
	return l
}
