package httpapi

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"payonce/internal/problem"
)

// queryOf reads a query, and says what is wrong with it: parameters that are repeated or not allowed. It does not
// repeat the name of a parameter that is not allowed. If a query cannot be parsed, it is empty.
func queryOf(rawQuery string, allowed ...string) (url.Values, []problem.Detail) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, []problem.Detail{{Parameter: "query", Detail: "is not a valid query string"}}
	}
	var bad []problem.Detail
	known := 0
	for _, name := range allowed {
		values, given := query[name]
		if given {
			known++
		}
		if len(values) > 1 {
			bad = append(bad, problem.Detail{Parameter: name, Detail: "is given twice"})
		}
	}
	if known < len(query) {
		bad = append(bad, problem.Detail{Parameter: "query", Detail: "has a parameter other than " +
			strings.Join(allowed, ", ")})
	}
	return query, bad
}

const cursorRefusal = "must be the nextCursor of an earlier page"

// limitOf reads the size of a page.
func limitOf(value string, most int, refuse func(detail string)) int {
	limit, err := strconv.Atoi(value)
	if err != nil || limit < 1 || limit > most {
		refuse(fmt.Sprintf("must be an integer from 1 to %d", most))
	}
	return limit
}

// listPage is a page of a list, as the client gets it.
type listPage[T any] struct {
	Data       []T    `json:"data"`
	HasMore    bool   `json:"hasMore"`
	NextCursor string `json:"nextCursor,omitempty"`
}

// pageOf is a page with these rows. next is nil on the last page.
func pageOf[T any, C fmt.Stringer](rows []T, next *C) listPage[T] {
	page := listPage[T]{Data: rows, HasMore: next != nil}
	if next != nil {
		page.NextCursor = (*next).String()
	}
	return page
}
