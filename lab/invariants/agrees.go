package invariants

import (
	"fmt"
	"slices"
	"strings"

	"payonce/internal/deadletters"
	"payonce/internal/payment"
)

// difference is between an entry of the PSP's ledger and a row of ours. One of the two may be missing.
type difference struct {
	entry   *Entry
	row     *movementRow
	what    string
	excuses []deadletters.Kind // the kinds of dead letters that such a difference is given to
	// unresolved: it is of the kind that a scan or a webhook resolves.
	unresolved bool
}

// alreadyMoved is a refund that was declined because the money has gone already: we never ask for more than is left, so
// others have moved it.
const alreadyMoved = "already_returned_or_held"

// code is the entry's decline code, in our words.
func (e Entry) code() string {
	if e.DeclineCode == "refund_exceeds_charge" {
		return alreadyMoved
	}
	return e.DeclineCode
}

// unrecorded is the one decline of which the PSP keeps no record.
const unrecorded = "unknown_payment_method"

// isUnrecorded reports whether the PSP need not have a record of a decline. At Stripe, Payonce itself declines what the
// PSP could never take, such as a refund of one fils. What Stripe refuses to make leaves no record either.
func (b *books) isUnrecorded(row *movementRow) bool {
	if b.psps[row.Tenant] != stripePSP {
		return row.Decline == unrecorded
	}
	return row.Decline == "resource_missing" || row.Decline == alreadyMoved ||
		strings.HasPrefix(row.Decline, "invalid_")
}

// ledgerAgrees is I4: all differences that no dead letter excuses.
func ledgerAgrees(w world) []Violation {
	var found []Violation
	for _, d := range differences(w) {
		if !w.excused(d) {
			found = append(found, Violation{"I4", d.name(), d.what})
		}
	}
	return found
}

func differences(w world) []difference {
	var all []difference
	listed := map[string]*Entry{} // by the tenant's account and the PSP's id
	for _, entries := range [][]Entry{w.ledger.Charges, w.ledger.Refunds} {
		for i := range entries {
			e := &entries[i]
			listed[e.Account+" "+e.ID] = e
			if w.isOutside(*e) {
				continue // that is I10
			}
			if d, differs := w.books.compare(e); differs {
				d.unresolved = d.unresolved || Errs(e.Fault) // there will be a dead letter
				all = append(all, d)
			}
		}
	}
	for _, row := range w.books.subjects {
		if !row.isFinal() {
			continue // whether the PSP has it nevertheless is seen from the other side
		}
		e := listed[w.books.accounts[row.Tenant]+" "+row.PSPID]
		switch {
		case row.PSPID == "" && w.books.isUnrecorded(row):
			// If it has a record all the same, that is seen from the other side.
		case row.PSPID == "" && slices.ContainsFunc(w.ledger.Charges,
			func(e Entry) bool { return w.books.declinedUnderAnothersID(e, row) }),
			row.PSPID == "" && slices.ContainsFunc(w.ledger.Refunds,
				func(e Entry) bool { return w.books.declinedUnderAnothersID(e, row) }):
			// The PSP has declined it under an id that another row has.
		case strings.HasPrefix(row.PSPID, payment.OperatorPSPID):
			if !w.books.calledExecuted(row) {
				all = append(all, difference{row: row,
					what: "an operator has vouched for it, and no dead letter says so"})
			}
		case e == nil && w.elsewhere(row):
			// An operator has taken the id from a dead letter. The PSP has the record in another account.
		case e == nil:
			all = append(all, difference{row: row, what: fmt.Sprintf("%s here as %s, which the PSP does not have",
				row.Status, row.PSPID)})
		case e.Reference != row.String():
			all = append(all, difference{row: row, entry: e,
				what: fmt.Sprintf("%s here as %s, which the PSP has for %s", row.Status, row.PSPID, e.Reference)})
		}
	}
	return all
}

// chargedTwice and declineAfter are the faults with which the mock PSP makes two entries for one request.
const chargedTwice = "pm_charged_twice"

// wrongAmount is the only fault with which the mock PSP moves another amount than it was asked for.
const wrongAmount = "pm_wrong_amount"

// compare holds an entry against the row that it names. The mock never changes an entry, and a row becomes final by
// evidence of what the PSP did. So a final row differs in nothing, and no dead letter excuses a difference. The one
// exception is a wrong amount that an operator has let pass.
func (b *books) compare(e *Entry) (difference, bool) {
	row := b.subjectOf(*e)
	d := difference{entry: e, row: row}
	switch {
	case row == nil:
		d.what = fmt.Sprintf("the PSP has %s (%s) for %q, which is nothing of ours", e.ID, e.Status, e.Reference)
	case b.accounts[row.Tenant] != e.Account:
		d.what = fmt.Sprintf("the PSP has %s of tenant %s under account %s", row, row.Tenant, e.Account)
	case e.Currency != row.Currency, e.AmountCents != row.Amount && e.Fault != wrongAmount:
		d.what = b.otherTerms(e, row)
	case e.PaymentMethod != row.Method, e.Reason != row.Reason:
		d.what = fmt.Sprintf("asked of the PSP with %q, and here it is %q", e.PaymentMethod+e.Reason, row.Method+
			row.Reason)
	case row.PaymentID != nil && e.ChargeID != b.subjects[*row.PaymentID].pspID():
		d.what = fmt.Sprintf("a refund of %s at the PSP, here of %s", e.ChargeID, b.subjects[*row.PaymentID].pspID())
	case e.AmountCents != row.Amount && !row.isFinal():
		d.what, d.unresolved = b.otherTerms(e, row), true
		d.excuses = []deadletters.Kind{deadletters.PSPContradicts, deadletters.LookupsExhausted}
	case e.AmountCents != row.Amount && !b.letPass(e, row):
		d.what = b.otherTerms(e, row)
	case !e.Executed() && row.Status == string(payment.Failed):
		return d, false // neither says that money has moved
	case e.cameBack() && row.Status == string(payment.Succeeded):
		return d, false // that is I10
	case e.Status != row.Status && (!e.cameBack() || !row.isFinal()):
		d.what = fmt.Sprintf("%s at the PSP as %s, %s here", e.Status, e.ID, row.Status)
		d.unresolved = !row.isFinal()
		d.excuses = kindsFor(payment.Status(row.Status))
		if b.psps[row.Tenant] == stripePSP && row.PaymentID == nil && row.Status == string(payment.Failed) {
			d.excuses = nil // its intent was cancelled, or never confirmed: nothing is late
		}
	case b.declinedUnderAnothersID(*e, row):
		return d, false
	case !e.Executed() && row.PSPID != "" && (e.Fault == chargedTwice || e.Fault == declineAfter):
		return d, false // It was sent once and declined twice. The other decline is the one that is compared.
	case e.ID != strings.TrimPrefix(row.PSPID, payment.OperatorPSPID): // an operator may have named it
		d.what = fmt.Sprintf("%s at the PSP, %s here", e.ID, row.PSPID)
		// the first record that comes to light gives it its name
		d.unresolved = strings.HasPrefix(row.PSPID, payment.OperatorPSPID)
	case row.Status == string(payment.Reversed) && row.Decline == "":
		return d, false // a statement does not say why
	case e.code() != row.Decline:
		d.what = fmt.Sprintf("declined as %q at the PSP, as %q here", e.DeclineCode, row.Decline)
	default:
		return d, false
	}
	return d, true
}

// declinedUnderAnothersID reports whether both sides have declined it, and here it has no id since another row has the
// PSP's: an operator has taken that id for the other row. A decline moves no money, so it counts without its id.
func (b *books) declinedUnderAnothersID(e Entry, row *movementRow) bool {
	if e.Executed() || row.Status != string(payment.Declined) || row.PSPID != "" || e.Reference != row.String() {
		return false
	}
	for _, m := range b.subjects {
		if m != row && m.PSPID == e.ID {
			return true
		}
	}
	return false
}

func (b *books) otherTerms(e *Entry, row *movementRow) string {
	return fmt.Sprintf("%d %s at the PSP, %d %s here (%s)", e.AmountCents, e.Currency, row.Amount, row.Currency,
		row.Status)
}

// kindsFor lists the dead letters that are written when the PSP has a verdict and a row stands so. Behind an end there
// is none that would do.
func kindsFor(s payment.Status) []deadletters.Kind {
	switch s {
	case payment.Processing:
		return []deadletters.Kind{deadletters.LookupsExhausted, deadletters.PSPMemoryOver, deadletters.PSPContradicts,
			deadletters.RefundExceeds}
	case payment.Failed:
		return []deadletters.Kind{deadletters.LateAfterExpiry, deadletters.RefundExceeds, deadletters.PSPContradicts}
	case payment.Succeeded, payment.Declined:
	}
	return nil
}

// excused looks for a dead letter of a fitting kind about the very row, or about the very record. What the PSP has done
// of its own accord is excused by a dead letter that names it, and by nothing else.
func (w world) excused(d difference) bool {
	switch {
	case d.entry != nil && Errs(d.entry.Fault):
		return w.books.deadLettered[d.entry.ID]
	case w.misled(d.row) || w.robbed(d.entry, d.row):
		return true
	}
	return w.books.excused(d)
}

func (b *books) excused(d difference) bool {
	return slices.ContainsFunc(b.deadLetters, func(l deadLetterRow) bool {
		aboutRow := d.row != nil && l.Subject != nil && *l.Subject == d.row.ID
		aboutRecord := d.entry != nil &&
			strings.TrimPrefix(l.Finding, "refund ") == "record "+d.entry.Account+" "+d.entry.ID
		return (aboutRow || aboutRecord) && slices.Contains(d.excuses, deadletters.Kind(l.Kind))
	})
}

// letPass reports whether an operator has completed the row as the PSP's record has it: as executed, or, if the record
// is a decline, as not executed (ADR 0018).
func (b *books) letPass(e *Entry, row *movementRow) bool {
	if e.Executed() {
		return b.calledExecuted(row)
	}
	return row.Status == string(payment.Declined) && b.called(deadletters.NotExecuted, row)
}

// calledExecuted reports whether an operator has called the row executed. Any dead letter about an unknown key can be
// closed so, such as that of a discarded job.
func (b *books) calledExecuted(row *movementRow) bool { return b.called(deadletters.Executed, row) }

func (b *books) called(a deadletters.Action, row *movementRow) bool {
	return slices.ContainsFunc(b.deadLetters, func(l deadLetterRow) bool {
		return l.Action == string(a) && l.Subject != nil && *l.Subject == row.ID
	})
}

func (d difference) name() string {
	if d.row != nil {
		return d.row.keyName().String() + " " + d.row.String()
	}
	return d.entry.name() + " " + d.entry.ID
}
