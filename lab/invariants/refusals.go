package invariants

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"payonce/internal/payments"
	"payonce/internal/problem"
	"payonce/lab/history"
)

// refusals is the part of I4 about refunds that were not granted: what is left of a payment can be refunded. All that
// other refunds have ever held of it is more than they held at the moment, and so is all that others have moved.
func refusals(w world, e Evidence) []Violation {
	refunds := map[uuid.UUID][]*movementRow{}
	for _, m := range w.books.subjects {
		if m.PaymentID != nil {
			refunds[*m.PaymentID] = append(refunds[*m.PaymentID], m)
		}
	}
	var found []Violation
	for _, o := range e.History {
		code := problem.Code(readDocument(o.Answer).text("code"))
		if o.Route != history.RefundsRoute || code != problem.RefundExceedsPayment &&
			code != problem.PaymentNotRefundable {
			continue
		}
		p := w.books.paymentAt(o.Path)
		if p == nil || p.Status != string(payments.Succeeded) {
			continue
		}
		var ask order
		_ = json.Unmarshal(o.Body, &ask) // what cannot be read asks for nothing
		left := p.Amount - p.Outside
		for _, refund := range refunds[p.ID] {
			if !madeLater(refund, o) {
				left -= refund.Amount
			}
		}
		switch vouched := strings.HasPrefix(p.PSPID, payments.OperatorPSPID) || w.books.calledExecuted(p); {
		case code == problem.PaymentNotRefundable && !vouched && w.books.succeededBefore(p, o):
			found = append(found, Violation{"I4", nameOf(o).String(),
				fmt.Sprintf("client %d was refused a refund of %s, which has succeeded", o.Client, p)})
		case code == problem.RefundExceedsPayment && max(ask.AmountCents, 1) <= left:
			found = append(found, Violation{"I4", nameOf(o).String(),
				fmt.Sprintf("client %d was refused %d of %s, and at least %d of %d were left",
					o.Client, ask.AmountCents, p, left, p.Amount)})
		}
	}
	return found
}

// madeLater reports whether the refund is what the same key was granted after it had been refused. One that the key was
// granted in an earlier life of it takes its part like any other's.
func madeLater(refund *movementRow, o history.Operation) bool {
	return refund.Tenant == o.Tenant && refund.Key == o.Key && refund.Created.After(o.At)
}

// paymentAt is the payment that a refund was asked of.
func (b *books) paymentAt(path string) *movementRow {
	id, err := subjectOf(strings.TrimSuffix(strings.TrimPrefix(path, "/payments/"), "/refunds"))
	if err != nil {
		return nil
	}
	return b.subjects[id]
}

// succeededBefore reports whether the payment was completed when the refund was asked for.
func (b *books) succeededBefore(p *movementRow, o history.Operation) bool {
	k := b.lives[p.ID]
	return k != nil && k.Finished != nil && k.Finished.Before(o.At.Add(-tolerance))
}
