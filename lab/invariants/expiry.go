package invariants

import (
	"fmt"
	"net/http"
	"time"

	"payonce/internal/idempotency"
	"payonce/lab/history"
)

// expiryTolerance is between readings of the database's clock in one statement that has waited for a lock.
const expiryTolerance = 2 * time.Second

// kept is the part of I3 about how long an answer stands: a key is kept for a whole retention from when it was last
// reserved, or resolved by evidence, and its clients were told so.
func kept(w world, e Evidence) []Violation {
	var found []Violation
	last := w.books.lastTaken()
	if e.Retention > 0 {
		for name, k := range w.books.keys {
			if least := last[name].Add(e.Retention); k.Expires.Sub(least).Abs() > expiryTolerance {
				found = append(found, Violation{"I3", name.String(),
					fmt.Sprintf("it expires %s, and by its retention %s", stampOf(&k.Expires), stampOf(&least))})
			}
		}
	}
	for _, o := range e.History {
		if !keyed(o) || !o.Answered() {
			continue
		}
		k := w.books.keys[nameOf(o)]
		m := w.books.named(o)
		if k == nil || m == nil && (o.Status != http.StatusUnprocessableEntity || o.At.Before(k.Reserved)) ||
			m != nil && m.ID != k.Subject {
			continue // it is about another generation, or about none
		}
		if wrong := k.toldExpiry(o, e.Retention); wrong != "" {
			found = append(found, Violation{"I3", nameOf(o).String(),
				fmt.Sprintf("client %d was answered %d: %s", o.Client, o.Status, wrong)})
		}
	}
	return found
}

// lastTaken is when each key was last reserved, completed by evidence, or found to be free, which begins its retention.
func (b *books) lastTaken() map[keyName]time.Time {
	last := map[keyName]time.Time{}
	for name, k := range b.keys {
		last[name] = k.Reserved
	}
	for _, e := range b.events {
		name := keyName{e.Tenant, e.Operation, e.Key}
		k := b.keys[name]
		begins := e.To == string(idempotency.InProgressStatus) || e.To == string(idempotency.CompletedStatus) ||
			e.From == string(idempotency.UnknownStatus) && e.To == string(idempotency.FailedRetryableStatus)
		if k != nil && e.From != e.To && begins && e.Generation == k.Generation && e.At.After(last[name]) {
			last[name] = e.At
		}
	}
	return last
}

// toldExpiry holds the header against the row. A final answer names the very time; an earlier one what was true then.
func (k *keyRow) toldExpiry(o history.Operation, retention time.Duration) string {
	header := o.Header.Get("Idempotency-Key-Expires")
	told, err := http.ParseTime(header)
	if err != nil {
		return "" // whether there has to be one, surfaces looks at
	}
	whole := k.Expires.UTC().Truncate(time.Second)
	switch {
	case isFinal(o) && !told.Equal(whole):
		return fmt.Sprintf("Idempotency-Key-Expires is %q, and the key expires at %q", header,
			whole.Format(http.TimeFormat))
	case told.After(whole):
		return fmt.Sprintf("Idempotency-Key-Expires is %q, and the key expires earlier, at %q", header,
			whole.Format(http.TimeFormat))
	case retention > 0 && told.Before(k.Reserved.Add(retention-expiryTolerance)):
		return fmt.Sprintf("Idempotency-Key-Expires is %q, less than a retention of %s after the reservation", header,
			retention)
	}
	return ""
}
