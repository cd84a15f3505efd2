package operator

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
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

// bounded is a read that fails with ErrTooMuch when it has taken too long.
func bounded[F, T any](
	longest time.Duration, read func(context.Context, F) (List[T], error),
) func(context.Context, F) (List[T], error) {
	return func(ctx context.Context, f F) (List[T], error) {
		inTime, cancel := context.WithTimeout(ctx, longest)
		defer cancel()
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

// Bounds of a page.
const (
	DefaultPage = 20
	MaxPage     = 100
)

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

// query reads the parameters of a list, and notes what is wrong with them.
type query struct {
	values url.Values
	bad    []problem.Detail
}

func (q *query) refuse(name, detail string) {
	q.bad = append(q.bad, problem.Detail{Parameter: name, Detail: detail})
}

func (q *query) limit() int {
	if !q.values.Has("limit") {
		return DefaultPage
	}
	limit, err := strconv.Atoi(q.values.Get("limit"))
	if err != nil || limit < 1 || limit > MaxPage {
		q.refuse("limit", fmt.Sprintf("must be an integer from 1 to %d", MaxPage))
	}
	return limit
}

// oneOf reads a parameter that has one of these values. It is "" if it is not given.
func oneOf[S ~string](q *query, name string, allowed ...S) S {
	value := S(q.values.Get(name))
	if q.values.Has(name) && !slices.Contains(allowed, value) {
		texts := make([]string, len(allowed))
		for i, a := range allowed {
			texts[i] = string(a)
		}
		last := len(texts) - 1
		q.refuse(name, "must be "+strings.Join(texts[:last], ", ")+" or "+texts[last])
	}
	return value
}

// maxText bounds a parameter that is compared as a text.
const maxText = 255

// text reads a parameter that is compared as a text. It is "" if it is not given.
func (q *query) text(name string) string {
	value := q.values.Get(name)
	if q.values.Has(name) && (value == "" || len(value) > maxText ||
		strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' })) {
		q.refuse(name, fmt.Sprintf("must be 1 to %d printable ASCII characters", maxText))
	}
	return value
}

// instant reads a time. It is nil if it is not given.
func (q *query) instant(name string) *time.Time {
	if !q.values.Has(name) {
		return nil
	}
	at, err := time.Parse(time.RFC3339, q.values.Get(name))
	if err != nil || at.Year() < 1 || at.Year() > 9999 {
		q.refuse(name, "must be a date and time as in RFC 3339, such as 2026-11-20T09:30:00Z")
		return nil
	}
	return &at
}

// order refuses two times of which the first is not before the second.
func (q *query) order(after, before string, from, until *time.Time) {
	if from != nil && until != nil && !from.Before(*until) {
		q.refuse(before, "must be later than "+after)
	}
}

// cursorOf reads the cursor. It is nil if it is not given.
func cursorOf[C any](q *query, parse func(string) (C, error)) *C {
	if !q.values.Has("cursor") {
		return nil
	}
	c, err := parse(q.values.Get("cursor"))
	if err != nil {
		q.refuse("cursor", "must be the nextCursor of an earlier page")
	}
	return &c
}
