package gateway

import (
	"time"

	"github.com/go-json-experiment/json"
)

// Object says which kind of movement of money a record is.
type Object string

// The objects of the PSP's ledger.
const (
	ChargeObject Object = "charge"
	RefundObject Object = "refund"
)

const (
	chargesPath = "/v1/charges"
	refundsPath = "/v1/refunds"
)

// path is where the PSP lists the objects, or "" if there are none of that name.
func (o Object) path() string {
	switch o {
	case ChargeObject:
		return chargesPath
	case RefundObject:
		return refundsPath
	}
	return ""
}

// Record is a charge or a refund as the PSP's own ledger has it.
type Record struct {
	Object      Object
	ID          string
	Account     string
	Key         string // the Idempotency-Key it was made under
	Reference   string // our id of it; "" if it has none
	ChargeID    string // of a refund: the PSP's id of its charge
	AmountMinor int64
	Currency    string
	Status      string    // "succeeded" or "declined"
	DeclineCode string    // of a decline; "" in a statement, which has none
	Created     time.Time // by the PSP's clock, in UTC
}

// Executed reports whether the money moved.
func (r Record) Executed() bool { return r.Status == pspSucceeded }

// Evidence is the record as JSON that PostgreSQL's jsonb takes, in the PSP's member names, for a timeline or a dead letter.
func (r Record) Evidence() []byte {
	raw, err := json.Marshal(entry{
		ID: r.ID, Object: r.Object, Account: r.Account, IdempotencyKey: r.Key, Reference: r.Reference, ChargeID: r.ChargeID,
		AmountCents: &r.AmountMinor, Currency: r.Currency, Status: r.Status, DeclineCode: r.DeclineCode,
		CreatedAt: r.Created.UTC().Format(time.RFC3339Nano),
	})
	if err != nil {
		return nil // never of a record that was parsed: its strings are UTF-8
	}
	return raw
}
