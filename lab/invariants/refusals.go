package invariants

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"payonce/internal/payment"
	"payonce/internal/problem"
	"payonce/lab/history"
)

// refusals is the part of I4 about refunds that were not granted: what is left of a payment can be refunded. All that
// other refunds have ever held of it is more than they held at the moment, and so is all that others have ever moved.
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
		if p == nil || p.Status != string(payment.Succeeded) {
			continue
		}
		var ask order
		_ = json.Unmarshal(o.Body, &ask) // what cannot be read asks for nothing
		left := p.Amount
		for _, r := range w.books.outside {
			if r.Payment == p.ID && !slices.Contains([]string{"inquiry", "closed"}, r.Status) {
				left -= w.books.takes(r)
			}
		}
		for _, refund := range refunds[p.ID] {
			if !madeLater(refund, o) {
				left -= refund.Amount
			}
		}
		switch vouched := strings.HasPrefix(p.PSPID, payment.OperatorPSPID) || w.books.calledExecuted(p); {
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

// outsideLag is how long the statement that reserves a refund may take. It may have missed what was noticed meanwhile.
const outsideLag = 6 * time.Second

// begunBeyond finds the refunds of ours that were reserved although it was known by then that others, and refunds of
// ours that had succeeded, left less of the payment. The time is that of the last reservation.
func (w world) begunBeyond() []Violation {
	gone := map[uuid.UUID][]moved{}
	for _, r := range w.books.outside {
		if r.holds() && !w.books.isOwn(r) {
			gone[r.Payment] = append(gone[r.Payment], moved{r.seen(), w.books.takes(r)})
		}
	}
	for _, m := range w.books.subjects {
		if k := w.books.lives[m.ID]; m.PaymentID != nil && m.Status == string(payment.Succeeded) && k != nil &&
			k.Finished != nil && len(gone[*m.PaymentID]) > 0 {
			gone[*m.PaymentID] = append(gone[*m.PaymentID], moved{*k.Finished, m.Amount})
		}
	}
	var found []Violation
	for _, m := range w.books.subjects {
		if m.PaymentID == nil || w.books.subjects[*m.PaymentID] == nil || w.books.lives[m.ID] == nil {
			continue
		}
		p, left := w.books.subjects[*m.PaymentID], w.books.subjects[*m.PaymentID].Amount
		for _, by := range gone[p.ID] {
			if by.at.Before(w.books.lives[m.ID].Reserved.Add(-outsideLag)) {
				left -= by.amount
			}
		}
		if m.Amount > left && left < p.Amount {
			found = append(found, Violation{"I10", m.keyName().String(),
				fmt.Sprintf("%s of %d was begun, and of %s no more than %d was left by then", m, m.Amount, p, max(left, 0))})
		}
	}
	return found
}

// moved is an amount that has gone from a payment, and when that was known.
type moved struct {
	at     time.Time
	amount int64
}
