// Package query reads the parameters of a list from the query of a request, and writes a page of the list, for clients,
// for operators and for the console. It notes everything that is wrong with the parameters, so that a list never
// silently differs from what was asked for.
package query

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"payonce/internal/problem"
)

// Bounds of a page.
const (
	DefaultPage = 20
	MaxPage     = 100
)

// List is a page of a list. Next is the cursor of the next page, and "" on the last page. More says of a list without
// pages that it is not whole.
type List[T any] struct {
	Rows []T
	Next string
	More bool
}

// ListOf is a page with these rows. next is where the next page begins, and nil on the last page.
func ListOf[T any, C fmt.Stringer](rows []T, next *C) List[T] {
	l := List[T]{Rows: rows}
	if next != nil {
		l.Next = (*next).String()
	}
	return l
}

// MarshalJSON writes the page as the APIs show it.
func (l List[T]) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Data       []T    `json:"data"`
		HasMore    bool   `json:"hasMore"`
		NextCursor string `json:"nextCursor,omitempty"`
	}{Data: l.Rows, HasMore: l.Next != "" || l.More, NextCursor: l.Next}, json.Deterministic(true))
}

// Query is the parameters of a request. It notes which of them are read, and what is wrong with them.
type Query struct {
	Values url.Values

	bad   []problem.Detail
	known []string
}

// Parse reads the query of a request. If a query cannot be parsed, it has no values.
func Parse(rawQuery string) *Query {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return &Query{bad: []problem.Detail{{Parameter: "query", Detail: "is not a valid query string"}}}
	}
	return &Query{Values: values}
}

// Bad is what is wrong with the query. A parameter that nobody has read until now is refused. Its name is not repeated.
func (q *Query) Bad() []problem.Detail {
	bad := q.bad
	for name := range q.Values {
		if !slices.Contains(q.known, name) {
			return append(bad, problem.Detail{Parameter: "query",
				Detail: "has a parameter other than " + strings.Join(q.known, ", ")})
		}
	}
	return bad
}

// Get reads a parameter, which must not be repeated.
func (q *Query) Get(name string) (value string, given bool) {
	q.known = append(q.known, name)
	if len(q.Values[name]) > 1 {
		q.Refuse(name, "is given twice")
	}
	return q.Values.Get(name), q.Values.Has(name)
}

// Refuse notes what is wrong with a parameter.
func (q *Query) Refuse(name, detail string) {
	q.bad = append(q.bad, problem.Detail{Parameter: name, Detail: detail})
}

// Limit reads the size of a page.
func (q *Query) Limit() int {
	value, given := q.Get("limit")
	if !given {
		return DefaultPage
	}
	limit, err := strconv.Atoi(value)
	if err != nil || limit < 1 || limit > MaxPage {
		q.Refuse("limit", fmt.Sprintf("must be an integer from 1 to %d", MaxPage))
	}
	return limit
}

// OneOf reads a parameter that has one of these values. It is "" if it is not given.
func OneOf[S ~string](q *Query, name string, allowed ...S) S {
	value, given := q.Get(name)
	if given && !slices.Contains(allowed, S(value)) {
		texts := make([]string, len(allowed))
		for i, a := range allowed {
			texts[i] = string(a)
		}
		last := len(texts) - 1
		q.Refuse(name, "must be "+strings.Join(texts[:last], ", ")+" or "+texts[last])
	}
	return S(value)
}

// maxText bounds a parameter that is compared as a text.
const maxText = 255

// Text reads a parameter that is compared as a text. It is "" if it is not given.
func (q *Query) Text(name string) string {
	value, given := q.Get(name)
	if given && (value == "" || utf8.RuneCountInString(value) > maxText || !utf8.ValidString(value) ||
		strings.ContainsFunc(value, unicode.IsControl)) {
		q.Refuse(name, fmt.Sprintf("must be 1 to %d characters, and no control characters", maxText))
	}
	return value
}

func (q *Query) instant(name string) *time.Time {
	value, given := q.Get(name)
	if !given {
		return nil
	}
	at, err := time.Parse(time.RFC3339, value)
	if year := at.UTC().Year(); err != nil || year < 0 || year > 9999 { // JSON has no others
		q.Refuse(name, "must be a date and time as in RFC 3339, such as 2026-11-20T09:30:00Z")
		return nil
	}
	return &at
}

// Between reads two times, of which the first must be before the second. Each is nil if it is not given.
func (q *Query) Between(after, before string) (from, until *time.Time) {
	from, until = q.instant(after), q.instant(before)
	if from != nil && until != nil && !from.Before(*until) {
		q.Refuse(before, "must be later than "+after)
	}
	return from, until
}

// CursorOf reads the cursor. It is nil if it is not given.
func CursorOf[C any](q *Query, parse func(string) (C, error)) *C {
	value, given := q.Get("cursor")
	if !given {
		return nil
	}
	c, err := parse(value)
	if err != nil {
		q.Refuse("cursor", "must be the nextCursor of an earlier page")
	}
	return &c
}
