package invariants

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"payonce/internal/problem"
	"payonce/lab/history"
)

// ledgerTime is how the PSP writes times.
const ledgerTime = time.RFC3339Nano

// denied is the part of I6 about what clients are told after money has moved. A 503 says that this request has charged
// nothing, and so do 409, 422, 429 and a refusal. So for each charge at the PSP, there is an earlier request that was
// not answered so.
func denied(w world, e Evidence) []Violation {
	first := map[keyName]time.Time{} // when the first request came that may have reached the PSP
	known := map[keyName]bool{}
	for _, o := range e.History {
		if !keyed(o) || o.At.IsZero() {
			continue
		}
		name := nameOf(o)
		known[name] = true
		if at, seen := first[name]; mayHaveCharged(o) && (!seen || o.At.Before(at)) {
			first[name] = o.At
		}
	}
	var found []Violation
	for _, entry := range slices.Concat(w.ledger.Charges, w.ledger.Refunds) {
		m := w.books.subjectOf(entry)
		if m == nil || !entry.Executed() || w.books.stray(&entry) {
			continue
		}
		name := m.keyName()
		k, moved := w.books.keys[name], entry.at()
		if k == nil || k.Subject != m.ID || !known[name] || moved.IsZero() {
			continue // what was asked for it is not known
		}
		if at, any := first[name]; !any || moved.Before(at) {
			found = append(found, Violation{"I6", name.String(),
				fmt.Sprintf("money has moved as %s, and until then each request with the key was told that it has not charged", entry.ID)})
		}
	}
	return found
}

// mayHaveCharged reports whether the answer, or its lack, leaves it open that this request has reached the PSP.
func mayHaveCharged(o history.Operation) bool {
	if !o.Answered() {
		return true
	}
	code := problem.Code(readDocument(o.Answer).text("code"))
	return isFinal(o) || o.Status == http.StatusAccepted || code == problem.InternalError
}

func (e Entry) at() time.Time {
	at, _ := time.Parse(ledgerTime, e.CreatedAt) // zero: not known
	return at
}
