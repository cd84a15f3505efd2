package invariants

import (
	"fmt"

	"github.com/google/uuid"
)

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
	for _, p := range w.books.subjects {
		if s := of[p.ID]; p.PaymentID == nil && (s.held != p.Held || s.refunded != p.Refunded) {
			found = append(found, Violation{"I4", p.keyName().String(),
				fmt.Sprintf("%s says that its refunds hold %d and have moved %d; they hold %d and have moved %d",
					p, p.Held, p.Refunded, s.held, s.refunded)})
		}
	}
	return found
}
