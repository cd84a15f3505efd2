package mockpsp

import (
	"fmt"
	"net/http"
	"sort"
)

// lookupFails is what every lookup of a stuck charge is answered.
func lookupFails() apiError {
	return apiError{http.StatusInternalServerError, "internal_error", "something went wrong"}
}

func (s *Server) getOne(object string) func(*call) (Reply, error) {
	return func(c *call) (Reply, error) {
		found := s.ledger.find(object, c.account, c.r.PathValue("id"))
		if found == nil {
			return Reply{}, apiError{http.StatusNotFound, object + "_not_found", "the account has no such " + object}
		}
		if found.lookupsFail() {
			return Reply{}, lookupFails()
		}
		return Reply{Status: http.StatusOK, Body: found.shown()}, nil
	}
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
// key or reference; a page of everything leaves them out, or one of them would end all scans for good.
func (l *ledger) list(q listQuery) (page []*record, more bool, err error) {
	for _, r := range l.candidates(q) {
		if (q.key != "" && r.Entry.IdempotencyKey != q.key) || (q.reference != "" && r.Entry.Reference != q.reference) {
			continue
		}
		if r.lookupsFail() {
			if q.key != "" || q.reference != "" {
				return nil, false, lookupFails()
			}
			continue
		}
		if len(page) == q.limit {
			return page, true, nil
		}
		page = append(page, r)
	}
	return page, false, nil
}

// candidates returns the narrowest indexed list from the query's start on.
func (l *ledger) candidates(q listQuery) []*record {
	l.mu.RLock()
	defer l.mu.RUnlock()
	b := l.books[bookRef{q.account, q.object}]
	if b == nil {
		return nil
	}
	records := b.records
	switch {
	case q.key != "":
		records = b.byKey[q.key]
	case q.reference != "":
		records = b.byReference[q.reference]
	}
	start := sort.Search(len(records), func(i int) bool {
		return records[i].position >= q.from && records[i].Entry.CreatedAt > q.createdAfter
	})
	return records[start:]
}
