package mockpsp

import (
	"fmt"
	"slices"
	"strings"
)

// member is what a PSP gets wrong about a movement. Its ledger, lists, answer, webhook and settlement file agree on the
// wrong value, as they would if a real PSP had executed something else. Only a wrong id is in the answer alone.
type member int

const (
	noMember         member = iota
	amountMember            // off by one
	currencyMember          // another currency
	referenceMember         // the reference of another movement
	referenceEmptied        // no reference
	keyMember               // the key of another movement
	accountMember           // in another account
	chargeMember            // of another charge; a charge names one, too
	idMember                // the answer has the id of another movement
)

// another stands in for another movement where the ledger has none yet.
const another = "another"

// distort writes the wrong value of the draft's fault into the draft, if there is one. Only the writer calls it: the
// other movement is the one before, so that one order of requests gives one ledger.
func (l *ledger) distort(draft *record) {
	if draft.Further {
		return // what follows is as it was asked for
	}
	does := behaviours[draft.Fault]
	e := &draft.Entry
	switch does.wrong {
	case noMember:
	case amountMember:
		e.AmountCents = wrongAmount(e.Object, e.AmountCents)
	case currencyMember:
		e.Currency = wrongCurrency(e.Currency)
	case referenceMember:
		e.Reference = l.before(e).Reference
	case referenceEmptied:
		e.Reference = ""
	case keyMember:
		draft.AskedKey = e.IdempotencyKey
		e.IdempotencyKey = l.before(e).IdempotencyKey
	case accountMember:
		draft.AskedAccount = e.Account
		e.Account = l.otherAccount(e.Account)
	case chargeMember:
		e.ChargeID = l.otherCharge(e)
	case idMember:
		draft.AnswerID = l.before(e).ID
	}
}

// wrongAmount is off by one: upwards for a charge, downwards for a refund, which could otherwise exceed its charge.
func wrongAmount(object string, asked int64) int64 {
	if object == ObjectRefund && asked > 1 {
		return asked - 1
	}
	return asked + 1
}

func wrongCurrency(asked string) string {
	if asked == "EUR" {
		return "USD"
	}
	return "EUR"
}

// before returns the newest movement of the account and object under another key.
func (l *ledger) before(e *entry) entry {
	for _, r := range slices.Backward(l.records(e.Account, e.Object)) {
		if r.Entry.IdempotencyKey != e.IdempotencyKey && r.Entry.Reference != "" {
			return r.Entry
		}
	}
	return entry{ID: prefixOf(e.Object) + another, IdempotencyKey: another, Reference: another}
}

// otherCharge returns the newest charge of the account but the one that the entry names.
func (l *ledger) otherCharge(e *entry) string {
	for _, r := range slices.Backward(l.records(e.Account, ObjectCharge)) {
		if r.Entry.ID != e.ChargeID {
			return r.Entry.ID
		}
	}
	return prefixOf(ObjectCharge) + another
}

// otherAccount returns the first account, by name, that has a charge and is not the given one.
func (l *ledger) otherAccount(account string) string {
	other := ""
	for ref := range l.books {
		if ref.account != account && (other == "" || ref.account < other) {
			other = ref.account
		}
	}
	if other == "" {
		return another
	}
	return other
}

// records returns the account's entries of an object, oldest first. Only the writer may call it without the lock.
func (l *ledger) records(account, object string) []*record {
	if b := l.books[bookRef{account, object}]; b != nil {
		return b.records
	}
	return nil
}

// harm is what makes a record hard to read in an answer, a lookup and a list. The ledger view, the webhook and the
// settlement file have the plain record: what happened is known, and a receiver that limits bodies is not called for
// days.
type harm int

const (
	harmless            harm = iota
	harmDuplicateMember      // the status twice, and the second time the opposite
	harmInvalidUTF8          // a text with a byte that is no UTF-8
	harmHugeMember           // a text of 1 MiB, which alone is longer than most readers take
	harmLargeMetadata        // metadata of 27 KiB: less than 40 such records are longer than 1 MiB
	harmUnknownStatus        // a status that no document names; the money has moved
)

const (
	hugeMember    = 1 << 20
	largeMetadata = 27 << 10
)

// harmed renders e with the harm of the record's fault.
func (r *record) harmed(e entry) []byte {
	does := behaviours[r.Fault]
	if does.harm == harmUnknownStatus && r.succeeded() {
		e.Status = "captured"
	}
	plain := Render(&e)
	switch does.harm {
	case harmless, harmUnknownStatus:
		return plain
	case harmDuplicateMember:
		return withMembers(plain, `"status":"`+StatusDeclined+`","declineCode":"insufficient_funds"`)
	case harmInvalidUTF8:
		return withMembers(plain, "\"description\":\"caf\xe9\"")
	case harmHugeMember:
		return withMembers(plain, fmt.Sprintf(`"note":%q`, strings.Repeat("x", hugeMember)))
	case harmLargeMetadata:
		return withMembers(plain, fmt.Sprintf(`"metadata":{"note":%q}`, strings.Repeat("x", largeMetadata)))
	}
	panic("mockpsp: unknown harm")
}

// withMembers adds members behind those of a JSON object, whatever they do to it.
func withMembers(object []byte, members string) []byte {
	return append(append(object[:len(object)-1], ','), members+"}"...)
}
