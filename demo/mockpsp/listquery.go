package mockpsp

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	defaultLimit = 20
	maxLimit     = 100
)

// listQuery selects an account's entries of one object. Empty filters match all.
type listQuery struct {
	account, object string
	key, reference  string
	createdAfter    string // in timeLayout
	from            int    // the position to start at
	limit           int
}

func parseListQuery(rawQuery, object, account string) (listQuery, error) {
	q := listQuery{account: account, object: object, limit: defaultLimit}
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return q, invalid("the query string is malformed")
	}
	for name, given := range values {
		if len(given) > 1 {
			return q, invalid(fmt.Sprintf("the query parameter %q is repeated", name))
		}
		if err := q.set(name, given[0]); err != nil {
			return q, err
		}
	}
	return q, nil
}

func (q *listQuery) set(name, value string) error {
	known := []string{"idempotencyKey", "reference", "createdAfter", "cursor", "limit"}
	if !slices.Contains(known, name) {
		return invalid(fmt.Sprintf("there is no query parameter %q", name))
	}
	if value == "" {
		return nil
	}
	switch name {
	case "idempotencyKey":
		q.key = value
	case "reference":
		q.reference = value
	case "createdAfter":
		t, err := time.Parse(time.RFC3339Nano, value)
		if err != nil {
			return invalid("createdAfter must be an RFC 3339 time")
		}
		// Cutting off nanoseconds is safe: entries have whole microseconds, and "after" is strict.
		// In years of another width, text order would no longer be time order.
		if t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
			return invalid("createdAfter must be in a year from 0 to 9999")
		}
		q.createdAfter = t.Format(timeLayout)
	case "cursor":
		from, err := parseCursor(q.object, value)
		if err != nil {
			return err
		}
		q.from = from
	case "limit":
		limit, err := strconv.Atoi(value)
		if err != nil || limit < 1 || limit > maxLimit {
			return invalid(fmt.Sprintf("limit must be an integer from 1 to %d", maxLimit))
		}
		q.limit = limit
	}
	return nil
}

// A cursor is the position to go on from. Positions never change, so entries that are appended between two pages
// are neither skipped nor repeated, also across a restart.
func formatCursor(object string, position int) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s:%d", object, position))
}

func parseCursor(object, cursor string) (int, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		number, ok := strings.CutPrefix(string(text), object+":")
		if position, err := strconv.Atoi(number); ok && err == nil && position >= 0 &&
			formatCursor(object, position) == cursor {
			return position, nil
		}
	}
	return 0, invalid("cursor is none that this list has given out")
}
