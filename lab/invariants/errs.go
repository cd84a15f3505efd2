package invariants

import (
	"context"
	"slices"
	"strings"

	"payonce/internal/deadletters"
	"payonce/internal/payment"
)

const (
	wrongID           = "pm_wrong_id"
	wrongAccount      = "pm_wrong_account"
	declineAfter      = "pm_decline_after_charge"
	declineAfterWrong = "pm_decline_after_wrong_amount"
)

// wrongPSPKey is the fault with which the PSP has something under the key of another movement.
const wrongPSPKey = "pm_wrong_key"

// Errs reports whether by a fault the PSP does something else than it was asked for, or writes what is hard to read.
// What it moves then is exactly a payment or refund of ours, or a dead letter names it.
func Errs(fault string) bool {
	return slices.Contains([]string{
		"pm_wrong_currency", "pm_wrong_reference", "pm_no_reference", wrongPSPKey, wrongAccount, "pm_wrong_charge",
		wrongID,
		"pm_charged_twice", declineAfter, declineAfterWrong,
		"pm_duplicate_member", "pm_invalid_utf8", "pm_huge_member", "pm_large_metadata", "pm_unknown_status",
	}, fault)
}

// kindsOfStrays are the dead letters that name what the PSP has done of its own accord.
func kindsOfStrays() []deadletters.Kind {
	return []deadletters.Kind{
		deadletters.PSPContradicts, deadletters.DuplicateMovement, deadletters.OtherAccount,
		deadletters.UnknownMovement,
		deadletters.UnreadableRecord, deadletters.ContradictsCompleted, deadletters.LateAfterExpiry,
	}
}

// noteNamed notes which records of the PSP the dead letters hold or name. An id is one of 130 random bits, so it needs
// no account.
func (b *books) noteNamed() {
	b.deadLettered, b.told = map[string]bool{}, map[outsideName]bool{}
	for _, l := range b.deadLetters {
		strays := slices.Contains(kindsOfStrays(), deadletters.Kind(l.Kind))
		for _, id := range l.records() {
			if strays {
				b.deadLettered[id] = true
			}
			if l.Subject != nil {
				b.told[outsideName{*l.Subject, id}] = true
			}
		}
	}
}

// records are the PSP's ids of what a dead letter is about.
func (l deadLetterRow) records() (ids []string) {
	kept := readDocument(l.Evidence)
	ids = append(ids, kept.text("id"))
	for _, member := range []string{"record", "answer"} {
		ids = append(ids, readDocument(kept.member(member)).text("id"))
	}
	if strings.HasPrefix(l.Finding, "record ") || strings.Contains(l.Finding, " record ") {
		ids = append(ids, l.Finding[strings.LastIndex(l.Finding, " ")+1:])
	}
	return slices.DeleteFunc(ids, func(id string) bool { return id == "" })
}

// stray reports whether an entry is what the PSP has done of its own accord, by its fault, and a dead letter names it.
// Without the dead letter it is none.
func (b *books) stray(e *Entry) bool { return Errs(e.Fault) && b.deadLettered[e.ID] }

// Strays lists the PSP's ids of what it has done of its own accord, and a dead letter names.
func Strays(ctx context.Context, e Evidence) (map[string]bool, error) {
	e, done := e.withClient()
	defer done()
	w, err := look(ctx, e)
	if err != nil {
		return nil, err
	}
	strays := map[string]bool{}
	for _, entry := range slices.Concat(w.ledger.Charges, w.ledger.Refunds) {
		if w.books.stray(&entry) {
			strays[entry.ID] = true
		}
	}
	return strays, nil
}

// asAsked is a ledger without the strays.
func (b *books) asAsked(entries []Entry) []Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return b.stray(&e) })
}

// misled reports whether a row has gone by the id of another movement because the PSP has answered that. Its own record
// must have a dead letter.
func (w world) misled(row *movementRow) bool {
	return row != nil && slices.ContainsFunc(slices.Concat(w.ledger.Charges, w.ledger.Refunds), func(e Entry) bool {
		return e.Fault == wrongID && e.Reference == row.String() && w.books.stray(&e)
	})
}

// elsewhere reports whether a row that an operator has called executed has the id of its own record, which the PSP has
// put into another account.
func (w world) elsewhere(row *movementRow) bool {
	return w.books.calledExecuted(row) && slices.ContainsFunc(slices.Concat(w.ledger.Charges, w.ledger.Refunds),
		func(e Entry) bool {
			return e.Fault == wrongAccount && e.ID == row.PSPID && e.Reference == row.String() && w.books.stray(&e)
		})
}

// robbed reports whether the id of an entry has gone to a row that was misled. The entry must have a dead letter, too.
// Or an operator has called its own row executed: nothing else can be done about a charge that neither a lookup nor a
// list shows.
func (w world) robbed(e *Entry, own *movementRow) bool {
	if e == nil || !w.books.deadLettered[e.ID] && (own == nil || !w.books.calledExecuted(own)) {
		return false
	}
	for _, m := range w.books.subjects {
		if m.PSPID == e.ID && w.books.accounts[m.Tenant] == e.Account && m.String() != e.Reference {
			return w.misled(m)
		}
	}
	return false
}

// refusedThoughCharged is the part of I4 about declines: nobody is told of one while an open dead letter of the key
// says that money has moved for it.
func refusedThoughCharged(w world, _ Evidence) []Violation {
	var found []Violation
	for _, l := range w.books.deadLetters {
		m := w.books.subjectOfDeadLetter(l)
		if m == nil || m.Status != string(payment.Declined) || !l.saysCharged() {
			continue
		}
		k := w.books.lives[m.ID]
		if k == nil || k.Finished == nil || !l.Opened.Before(*k.Finished) || l.Resolved != nil &&
			l.Resolved.Before(*k.Finished) {
			continue
		}
		found = append(found, Violation{"I4", m.keyName().String(), "it was told as declined while the dead letter " +
			l.ID.String() + " said that money had moved"})
	}
	return found
}

// saysCharged reports whether the record or the answer that a dead letter holds says that money has moved.
func (l deadLetterRow) saysCharged() bool {
	kept := readDocument(l.Evidence)
	return slices.ContainsFunc([]string{"record", "answer"}, func(member string) bool {
		return readDocument(kept.member(member)).text("status") == "succeeded"
	})
}

func (b *books) subjectOfDeadLetter(l deadLetterRow) *movementRow {
	if l.Subject == nil {
		return nil
	}
	return b.subjects[*l.Subject]
}
