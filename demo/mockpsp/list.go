package mockpsp

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// lookupFails is what every lookup of a stuck charge is answered.
func lookupFails() apiError {
	return apiError{http.StatusInternalServerError, "internal_error", "something went wrong"}
}

func (s *Server) getCharge(c *call) (Reply, error) {
	return s.get(c, ObjectCharge, noSuchCharge())
}

func (s *Server) getDispute(c *call) (Reply, error) {
	return s.get(c, ObjectDispute,
		apiError{http.StatusNotFound, "dispute_not_found", "the account has no such dispute"})
}

func (s *Server) get(c *call, object string, none error) (Reply, error) {
	found := s.ledger.find(object, c.account, c.r.PathValue("id"))
	switch {
	case found == nil:
		return Reply{}, none
	case found.lookupsFail():
		return Reply{}, lookupFails()
	}
	return Reply{Status: http.StatusOK, Body: found.shown()}, nil
}

// findAnywhere returns the entry of whatever account, kind and dialect, or nil.
func (l *ledger) findAnywhere(id string) *record {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.newest[id]
}

func noSuchCharge() apiError {
	return apiError{http.StatusNotFound, "charge_not_found", "the account has no such charge"}
}

func (s *Server) listOf(object string) func(*call) (Reply, error) {
	return func(c *call) (Reply, error) {
		q, err := parseListQuery(c.r.URL.RawQuery, object, c.account)
		if err != nil {
			return Reply{}, err
		}
		records, more, err := s.ledger.list(q)
		if err != nil {
			return Reply{}, err
		}
		next := ""
		if more {
			next = formatCursor(object, records[len(records)-1].position+1)
		}
		return Reply{Status: http.StatusOK, Body: pageOf(records, next)}, nil
	}
}

// pageOf puts a page together by hand: what a record is shown as need not be JSON. A page without a cursor is the last.
func pageOf(records []*record, next string) []byte {
	body := []byte(`{"data":[`)
	for i, r := range records {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, r.shown()...)
	}
	if next == "" {
		return append(body, `],"hasMore":false}`...)
	}
	return fmt.Appendf(body, `],"hasMore":true,"nextCursor":%q}`, next)
}

// list returns up to limit matching entries, oldest first, and whether there are more. Stuck charges fail a lookup by
// key; a page of everything leaves them out, or one of them would end all scans for good. It also lacks what is booked
// late.
func (l *ledger) list(q listQuery) (page []*record, more bool, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, r := range l.candidates(q) {
		r = l.newest[r.Entry.ID]
		if q.key != "" && r.Entry.IdempotencyKey != q.key {
			continue
		}
		if r.lookupsFail() {
			if q.key != "" {
				return nil, false, lookupFails()
			}
			continue
		}
		if q.key == "" && l.lacks(r) {
			continue
		}
		if len(page) == q.limit {
			return page, true, nil
		}
		page = append(page, r)
	}
	return page, false, nil
}

// candidates returns the narrowest indexed list from the query's start on. The caller holds l.mu.
func (l *ledger) candidates(q listQuery) []*record {
	b := l.books[bookRef{q.account, q.object}]
	if b == nil {
		return nil
	}
	records := b.records
	if q.key != "" {
		records = b.byKey[q.key]
	}
	start := sort.Search(len(records), func(i int) bool {
		return records[i].position >= q.from && records[i].Entry.CreatedAt > q.createdAfter
	})
	return records[start:]
}

const (
	defaultLimit = 20
	maxLimit     = 100
)

// listQuery selects an account's entries of one object. Empty filters match all.
type listQuery struct {
	account, object string
	key             string
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
	known := []string{"idempotencyKey", "createdAfter", "cursor", "limit"}
	if !slices.Contains(known, name) {
		return invalid(fmt.Sprintf("there is no query parameter %q", name))
	}
	if value == "" {
		return nil
	}
	switch name {
	case "idempotencyKey":
		q.key = value
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
