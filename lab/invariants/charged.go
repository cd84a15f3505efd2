package invariants

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// chargedOnce is I1.
func chargedOnce(w world) []Violation {
	charges, refunds := w.books.asAsked(w.ledger.Charges), w.books.asAsked(w.ledger.Refunds)
	ours := slices.DeleteFunc(slices.Clone(refunds), w.isOutside)
	found := slices.Concat(executedOnce("charge", charges), executedOnce("refund", ours))
	charged := map[string]Entry{}
	for _, c := range w.ledger.Charges {
		charged[c.Account+" "+c.ID] = c
	}
	returned := map[string]int64{}
	for _, r := range refunds {
		if r.Executed() {
			returned[r.Account+" "+r.ChargeID] += r.AmountCents
		}
	}
	for _, id := range slices.Sorted(maps.Keys(returned)) {
		if c := charged[id]; !c.Executed() || returned[id] > c.AmountCents {
			found = append(found, Violation{"I1", id,
				fmt.Sprintf("%d were refunded of a charge of %d (%s)", returned[id], c.AmountCents, c.Status)})
		}
	}
	return found
}

// executedOnce counts by what we have sent: by the key, and by the payment or refund that it was for. A key that is
// fresh for each attempt gives itself away by the second. What others do at Stripe's dashboard has neither.
func executedOnce(object string, entries []Entry) []Violation {
	byKey, byReference := map[string][]string{}, map[string][]string{}
	for _, e := range entries {
		if !e.Executed() {
			continue
		}
		if e.IdempotencyKey != "" {
			byKey[e.name()] = append(byKey[e.name()], e.ID)
		}
		if e.Reference != "" {
			byReference[e.Account+" "+e.Reference] = append(byReference[e.Account+" "+e.Reference], e.ID)
		}
	}
	var found []Violation
	for _, by := range []struct {
		what string
		ids  map[string][]string
	}{{"key", byKey}, {"reference", byReference}} {
		for _, name := range slices.Sorted(maps.Keys(by.ids)) {
			if ids := by.ids[name]; len(ids) > 1 {
				found = append(found, Violation{"I1", name,
					fmt.Sprintf("%d successful %ss for one %s: %s", len(ids), object, by.what,
						strings.Join(ids, ", "))})
			}
		}
	}
	return found
}
