package invariants

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"payonce/internal/payment"
)

// outsideRow is what is kept of an object of the PSP's by which others have changed a payment: a refund or a dispute.
type outsideRow struct {
	Tenant  string
	Payment uuid.UUID
	Object  string
	ID      uuid.UUID // of a refund, ours for it
	PSPID   string
	Amount  int64
	Status  string
	Why     string // the decline code of a refund, the reason of a dispute
	Created time.Time
	Updated time.Time
	DueBy   *time.Time // of a dispute

	Currency string
}

const readOutside = `
SELECT tenant_id, payment_id, 'refund', id, psp_refund_id, amount_minor, status, coalesce(decline_code, ''), created_at, coalesce(updated_at, created_at),
       NULL::timestamptz, currency
FROM refunds WHERE origin = 'provider'
UNION ALL
SELECT tenant_id, payment_id, 'dispute', payment_id, psp_id, amount_minor, status, coalesce(reason, ''), opened_at, updated_at, evidence_due_by, currency
FROM disputes`

// holds reports whether the money is not the merchant's, or perhaps not: what is so holds a part of the payment.
func (r outsideRow) holds() bool {
	return isHeld(r.Status) || r.Status == "processing" || r.Status == "succeeded"
}

// isHeld reports whether the money of a dispute with this status is not the merchant's.
func isHeld(dispute string) bool {
	return slices.Contains([]string{"needs_response", "under_review", "lost"}, dispute)
}

// seen is when we have known of the row in its status, at the latest. The id of a refund has the time at which its row
// was written (RFC 9562, section 5.7), and what others refund holds its part of the payment from then on.
func (r outsideRow) seen() time.Time {
	if r.Object == refundObject {
		return time.UnixMilli(int64(binary.BigEndian.Uint64(r.ID[:8]) >> 16))
	}
	return r.Updated
}

// outsideName names what others have done to a payment, by the PSP's id.
type outsideName struct {
	payment uuid.UUID
	pspID   string
}

// outsideMove is a refund or a dispute of the PSP's that nothing of ours asked for, and that changes a payment of ours.
type outsideMove struct {
	of      *movementRow
	missing string // what we have not noticed of it, or ""
}

// outsideMoves are the refunds that others have made and the disputes, by account and id. They do not bear our mark. A
// refund that does is compared with the refund that it names (I4).
func (w world) outsideMoves() map[string]outsideMove {
	sent, charges, found := map[pspKey]bool{}, map[string]Entry{}, map[string]outsideMove{}
	for _, m := range w.books.subjects {
		sent[w.books.passThrough(m)] = true
	}
	for _, c := range w.ledger.Charges {
		charges[c.Account+" "+c.ID] = c
	}
	kept := w.books.keptOutside()
	for _, e := range slices.Concat(w.ledger.Refunds, w.ledger.Disputes) {
		if w.books.subjectOf(e) != nil || sent[pspKey{e.Account, e.IdempotencyKey}] {
			continue
		}
		charge := e.Account + " " + e.ChargeID
		// Its id may not be known here.
		of := cmp.Or(w.books.byPSPID[charge], w.books.subjectOf(charges[charge]))
		if of != nil && of.PaymentID == nil {
			at := outsideName{of.ID, e.ID}
			found[e.Account+" "+e.ID] = outsideMove{of, w.missing(e, of, kept[at], w.books.told[at])}
		}
	}
	return found
}

func (b *books) keptOutside() map[outsideName]string {
	kept := map[outsideName]string{}
	for _, r := range b.outside {
		kept[outsideName{r.Payment, r.PSPID}] = r.Status
	}
	return kept
}

// keptAs is the status that is kept of the entry, if we know all that the PSP does. A refund that the PSP has refused
// from the start need not be kept.
func (e Entry) keptAs() string {
	switch e.Status {
	case "pending":
		return string(payment.Processing)
	case "failed", "declined":
		return string(payment.Reversed)
	}
	return e.Status
}

// missing says what we have not noticed of a refund or a dispute, or "". The payment keeps it as the PSP has it, or a
// dead letter about this very payment names it. Any dead letter does if nobody can tell whose it is: we do not know the
// PSP's id of the payment, or know it from an operator alone, perhaps too late; or the PSP writes it in a way that is
// hard to read. For a dispute, that of its charge does.
func (w world) missing(e Entry, of *movementRow, kept string, told bool) string {
	known := (e.ChargeID == of.PSPID || e.ChargeID == of.ObjectID) && !w.books.calledExecuted(of)
	switch {
	case kept == e.keptAs(), kept == "" && e.Status == string(payment.Declined), told,
		(!known || Errs(e.Fault)) && w.books.deadLettered[e.ID],
		!known && e.Object == disputeObject && w.books.deadLettered[e.ChargeID]:
		return ""
	case kept != "":
		return fmt.Sprintf("others have changed %s, %s is %s at the PSP, and is kept as %s", of, e.ID, e.Status, kept)
	}
	return fmt.Sprintf("others have changed %s, %s of %d is %s at the PSP, and it has kept nothing of that", of, e.ID,
		e.AmountCents, e.Status)
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

// unnoticed is the part of I10 that evidence may still bring to light: what others have done, and what came back of our
// own refunds.
func unnoticed(w world) (found []Violation) {
	for _, name := range slices.Sorted(maps.Keys(w.outside)) {
		if m := w.outside[name]; m.missing != "" {
			found = append(found, Violation{"I10", m.of.keyName().String(), m.missing})
		}
	}
	for _, e := range w.ledger.Refunds {
		m := w.books.subjectOf(e)
		if m != nil && e.cameBack() && m.Status == string(payment.Succeeded) && !w.books.told[outsideName{m.ID, e.ID}] {
			found = append(found, Violation{"I10", m.keyName().String(),
				fmt.Sprintf("the money of %s came back as %s, and it is still %s", m, e.ID, m.Status)})
		}
	}
	return found
}

// outsideAgrees is I10: what a payment shows as returned and as disputed is what the PSP's ledger has, each record and
// in sum, or a dead letter says why not; and no refund of ours was begun that exceeds what was known to be left.
func outsideAgrees(w world) []Violation {
	found := unnoticed(w)
	for _, what := range w.books.reopened {
		found = append(found, Violation{"I10", "a dispute", what})
	}
	theirs, sums := map[string]Entry{}, map[uuid.UUID]int64{}
	for _, e := range slices.Concat(w.ledger.Refunds, w.ledger.Disputes) {
		theirs[e.Account+" "+e.ID] = e
	}
	for _, r := range w.books.outside {
		if wrong := w.keptWrongly(r, theirs, w.books.told[outsideName{r.Payment, r.PSPID}]); wrong != "" {
			found = append(found, Violation{"I10", r.Tenant + " " + r.PSPID, wrong})
		}
		if r.holds() && !w.books.isOwn(r) {
			sums[r.Payment] += w.books.takes(r)
		}
	}
	for _, p := range w.books.subjects {
		if p.PaymentID == nil && p.Outside != sums[p.ID] {
			found = append(found, Violation{"I10", p.keyName().String(), fmt.Sprintf(
				"%s says that others have moved %d of it, and has kept %d of that", p, p.Outside, sums[p.ID])})
		}
	}
	return slices.Concat(found, w.sumsDiffer(), w.begunBeyond())
}

// isOwn reports whether a refund turned out to be one of ours. It counts as that.
func (b *books) isOwn(r outsideRow) bool {
	own := b.ownOf(r)
	return own != nil && own.isFinal() && own.Status != string(payment.Declined)
}

// ownOf is the refund of ours that has the PSP's id of a refund of others, or nil.
func (b *books) ownOf(r outsideRow) *movementRow {
	own := b.byPSPID[b.accounts[r.Tenant]+" "+r.PSPID]
	if r.Object != refundObject || own == nil || own.PaymentID == nil {
		return nil
	}
	return own
}

// takes is how much of its payment an object counts for. What is in another currency counts as the whole payment.
func (b *books) takes(r outsideRow) int64 {
	if p := b.subjects[r.Payment]; p != nil && p.Currency != r.Currency {
		return p.Amount
	}
	return r.Amount
}

// keptWrongly says how the PSP's ledger differs from what was kept of it, or "".
func (w world) keptWrongly(r outsideRow, theirs map[string]Entry, told bool) string {
	p := w.books.subjects[r.Payment]
	e, there := theirs[w.books.accounts[r.Tenant]+" "+r.PSPID]
	switch {
	case p == nil || p.PaymentID != nil || p.Tenant != r.Tenant:
		return "it is kept for no payment of the tenant"
	case told && there:
		return "" // the dead letter says why
	case !there || e.keptAs() != r.Status && !w.books.isOwn(r):
		return fmt.Sprintf("%d are kept as %s for %s, and at the PSP it is %q", r.Amount, r.Status, p, e.Status)
	case e.AmountCents != r.Amount || e.Currency != r.Currency || e.ChargeID != p.PSPID && e.ChargeID != p.ObjectID:
		return fmt.Sprintf("%d %s of %s are kept for %s, and at the PSP it is %d %s of %s", r.Amount, r.Currency,
			p.PSPID, p, e.AmountCents, e.Currency, e.ChargeID)
	}
	return ""
}

// sumsDiffer compares what each payment shows as returned and as disputed with the sums of the PSP's ledger, by our
// refunds and by others. A dead letter says why not if it is about the payment, one of its refunds, or one of the PSP's
// records about its charge.
func (w world) sumsDiffer() (found []Violation) {
	type sums struct{ returned, disputed int64 }
	theirs, explained, named := map[string]sums{}, map[string]bool{}, map[string]bool{}
	for _, l := range w.books.deadLetters {
		for _, id := range l.records() {
			named[id] = true
		}
		if m := w.books.subjectOfDeadLetter(l); m != nil && m.PaymentID != nil {
			named[w.books.subjects[*m.PaymentID].pspID()] = true
		} else {
			named[m.pspID()] = true
		}
	}
	for _, e := range slices.Concat(w.ledger.Refunds, w.ledger.Disputes) {
		charge := e.Account + " " + e.ChargeID
		s := theirs[charge]
		switch {
		case e.Executed():
			s.returned += e.AmountCents
		case isHeld(e.Status):
			s.disputed += e.AmountCents
		}
		theirs[charge], explained[charge] = s, explained[charge] || named[e.ID]
	}
	for _, p := range w.books.subjects {
		charge := w.books.accounts[p.Tenant] + " " + p.PSPID
		if p.PaymentID != nil || p.Status != string(payment.Succeeded) || explained[charge] || named[p.PSPID] {
			continue
		}
		if ours := (sums{p.Refunded, w.books.disputed(p)}); ours != theirs[charge] {
			found = append(found, Violation{"I10", p.keyName().String(), fmt.Sprintf(
				"%s shows %d as returned and %d as disputed, and the PSP has %d and %d", p, ours.returned,
				ours.disputed, theirs[charge].returned, theirs[charge].disputed)})
		}
	}
	return found
}
