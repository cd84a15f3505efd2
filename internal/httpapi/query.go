package httpapi

import (
	"net/url"
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
