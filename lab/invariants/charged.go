package invariants

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"payonce/internal/payment"
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
		if !e.Executed() && !e.cameBack() {
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

// totals is the part of I4 between our own rows: what a payment says of its refunds is what they are. A share that is
// never given back is a refund that is refused for good.
func totals(w world) []Violation {
	type sum struct{ held, refunded int64 }
	of := map[uuid.UUID]sum{}
	var found []Violation
	for _, m := range w.books.subjects {
		if m.PaymentID == nil {
			continue
		}
		p := w.books.subjects[*m.PaymentID]
		if p == nil || p.Tenant != m.Tenant || p.Currency != m.Currency {
			found = append(found, Violation{"I4", m.keyName().String(),
				fmt.Sprintf("%s is no refund in the tenant and the currency of its payment", m)})
			continue
		}
		s := of[p.ID]
		switch m.Status {
		case "succeeded":
			s.held, s.refunded = s.held+m.Amount, s.refunded+m.Amount
		case "processing":
			s.held += m.Amount
		}
		of[p.ID] = s
	}
	for _, r := range w.books.outside {
		if s := of[r.Payment]; r.Status == string(payment.Succeeded) && !w.books.isOwn(r) {
			s.refunded += w.books.takes(r)
			of[r.Payment] = s
		}
	}
	for _, p := range w.books.subjects {
		if s := of[p.ID]; p.PaymentID == nil && (s.held != p.Held || s.refunded != p.Refunded) {
			found = append(found, Violation{"I4", p.keyName().String(),
				fmt.Sprintf("%s says that its refunds hold %d and have moved %d; they hold %d and have moved %d",
					p, p.Held, p.Refunded, s.held, s.refunded)})
		}
	}
	return found
}
