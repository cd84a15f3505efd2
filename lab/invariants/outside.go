package invariants

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"payonce/internal/payment"
)

// outsideRow is what a payment has kept of an object of the PSP's by which others have moved its money.
type outsideRow struct {
	Tenant        string
	Payment       uuid.UUID
	Object, PSPID string
	Amount        int64
	Currency      string
	Status        string
	Seen          time.Time // first
}

const readOutside = `
SELECT tenant_id, payment_id, object, psp_id, amount_minor, currency, status, first_seen FROM outside_movements`

// movedOutside is the kind of the dead letters about what others have moved.
const movedOutside = "moved_outside"

// outsideLag is how long the statement that reserves a refund may take. It may have missed what was noticed meanwhile.
const outsideLag = 6 * time.Second

// outsideMove is a refund of the PSP's that is none of ours and yet changes a payment of ours.
type outsideMove struct {
	of      *movementRow
	missing string // what we have not noticed of it, or ""
}

// outsideMoves are the refunds that others have made, by account and id. They do not bear our mark. One that does is
// compared with the refund that it names (I4).
func (w world) outsideMoves() map[string]outsideMove {
	sent, charges, found := map[pspKey]bool{}, map[string]Entry{}, map[string]outsideMove{}
	for _, m := range w.books.subjects {
		sent[w.books.passThrough(m)] = true
	}
	for _, c := range w.ledger.Charges {
		charges[c.Account+" "+c.ID] = c
	}
	kept, told := w.books.keptOutside(), w.books.toldOutside()
	for _, e := range w.ledger.Refunds {
		// The PSP may put what others have asked for under a key of ours. What we have asked for has our reference.
		misfiled := e.Fault == wrongPSPKey && e.Reference == ""
		if w.books.subjectOf(e) != nil || sent[pspKey{e.Account, e.IdempotencyKey}] && !misfiled {
			continue
		}
		charge := e.Account + " " + e.ChargeID
		of := w.books.byPSPID[charge]
		if of == nil {
			of = w.books.subjectOf(charges[charge]) // its id may not be known here
		}
		if of != nil && of.PaymentID == nil {
			at := outsideName{of.ID, e.ID}
			found[e.Account+" "+e.ID] = outsideMove{of, w.missing(e, of, kept[at], told[at])}
		}
	}
	return found
}

// outsideName names what others have moved of a payment, by the PSP's id.
type outsideName struct {
	payment uuid.UUID
	pspID   string
}

func (b *books) keptOutside() map[outsideName]bool {
	kept := map[outsideName]bool{}
	for _, r := range b.outside {
		kept[outsideName{r.Payment, r.PSPID}] = r.Object == refundObject
	}
	return kept
}

// toldOutside is what dead letters tell of, each about the payment.
func (b *books) toldOutside() map[outsideName]bool {
	told := map[outsideName]bool{}
	for _, l := range b.deadLetters {
		if l.Kind != movedOutside || l.Subject == nil {
			continue
		}
		for _, id := range l.records() {
			told[outsideName{*l.Subject, id}] = true
		}
	}
	return told
}

// missing says what we have not noticed of a refund, or "". The payment keeps the refund, and a dead letter about this
// very payment names it. Any dead letter does if nobody can tell whose refund it is: we do not know the PSP's id of the
// payment, or know it from an operator alone, perhaps too late; or the PSP writes the refund in a way that is hard to
// read.
func (w world) missing(e Entry, of *movementRow, kept, told bool) string {
	text := fmt.Sprintf("others have refunded %d of %s as %s, and ", e.AmountCents, of, e.ID)
	known := (e.ChargeID == of.PSPID || e.ChargeID == of.ObjectID) && !w.books.calledExecuted(of)
	switch {
	case !e.Executed(), (!known || Errs(e.Fault)) && w.books.deadLettered[e.ID]:
		return ""
	case known && !kept:
		return text + "it has kept nothing of that"
	case !told:
		return text + "no dead letter about it says so"
	}
	return ""
}

// isOutside reports whether others have made the entry, and it changes a payment of ours.
func (w world) isOutside(e Entry) bool { return w.outside[e.Account+" "+e.ID].of != nil }

// keyToldOf is the key that a dead letter names. The key of others means nothing here, and may be left out.
func (w world) keyToldOf(e Entry, kept document) string {
	if w.isOutside(e) {
		return kept.text("idempotencyKey")
	}
	return e.IdempotencyKey
}

// unnoticed is the part of I10 that a scan may still bring to light.
func unnoticed(w world) (found []Violation) {
	for _, name := range slices.Sorted(maps.Keys(w.outside)) {
		if m := w.outside[name]; m.missing != "" {
			found = append(found, Violation{"I10", m.of.keyName().String(), m.missing})
		}
	}
	return found
}

// outsideAgrees is I10, as far as refunds go: what the PSP's ledger has that others have moved is what our payments
// have kept of it, both ways and in sum; each has its dead letter; and no refund of ours was begun that exceeds what
// was known to be left.
func outsideAgrees(w world) []Violation {
	found := unnoticed(w)
	theirs, sums := map[string]Entry{}, map[uuid.UUID]int64{}
	for _, e := range w.ledger.Refunds {
		theirs[e.Account+" "+e.ID] = e
	}
	for _, r := range w.books.outside {
		if wrong := w.keptWrongly(r, theirs); wrong != "" {
			found = append(found, Violation{"I10", r.Tenant + " " + r.PSPID, wrong})
		}
		if w.books.counts(r) {
			sums[r.Payment] += w.books.takes(r)
		}
	}
	for _, p := range w.books.subjects {
		if p.PaymentID == nil && p.Outside != sums[p.ID] {
			found = append(found, Violation{"I10", p.keyName().String(), fmt.Sprintf(
				"%s says that others have moved %d of it, and has kept %d of that", p, p.Outside, sums[p.ID])})
		}
	}
	return append(found, w.begunBeyond()...)
}

// counts reports whether money has moved outside, by what was kept. What turned out to be a refund of ours counts as
// that.
func (b *books) counts(r outsideRow) bool {
	own := b.byPSPID[b.accounts[r.Tenant]+" "+r.PSPID]
	isOwn := own != nil && own.PaymentID != nil && own.Status == string(payment.Succeeded)
	return r.Status != string(payment.Declined) && !isOwn
}

// takes is how much of its payment an object counts for. What is in another currency counts as the whole payment.
func (b *books) takes(r outsideRow) int64 {
	if p := b.subjects[r.Payment]; p != nil && p.Currency != r.Currency && r.Amount > 0 {
		return p.Amount
	}
	return r.Amount
}

// keptWrongly says how the PSP's ledger differs from what was kept of it, or "".
func (w world) keptWrongly(r outsideRow, theirs map[string]Entry) string {
	p := w.books.subjects[r.Payment]
	moved := r.Status != string(payment.Declined)
	e, there := theirs[w.books.accounts[r.Tenant]+" "+r.PSPID]
	switch {
	case p == nil || p.PaymentID != nil || p.Tenant != r.Tenant:
		return "it is kept for no payment of the tenant"
	case r.Object != refundObject:
		return "" // nothing but refunds is made here
	case !there || e.Executed() != moved:
		return fmt.Sprintf("%d are kept as %s for %s, and at the PSP it is %q", r.Amount, r.Status, p, e.Status)
	case e.AmountCents != r.Amount || e.Currency != r.Currency || e.ChargeID != p.PSPID && e.ChargeID != p.ObjectID:
		return fmt.Sprintf("%d %s of %s are kept for %s, and at the PSP it is %d %s of %s", r.Amount, r.Currency, p.PSPID, p,
			e.AmountCents, e.Currency, e.ChargeID)
	}
	return ""
}

// begunBeyond finds the refunds of ours that were reserved although it was known by then that others, and refunds of
// ours that had succeeded, left less of the payment. The time is that of the last reservation.
func (w world) begunBeyond() []Violation {
	gone := map[uuid.UUID][]moved{}
	for _, r := range w.books.outside {
		if w.books.counts(r) {
			gone[r.Payment] = append(gone[r.Payment], moved{r.Seen, w.books.takes(r)})
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
