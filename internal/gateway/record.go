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

// path is the path of the PSP's list of these objects. It is "" for an unknown object.
func (o Object) path() string {
	switch o {
	case ChargeObject:
		return chargesPath
	case RefundObject:
		return refundsPath
	}
	return ""
}

// Record is a charge or a refund in the PSP's own ledger.
type Record struct {
	Object      Object
	ID          string
	Account     string
	Key         string // the Idempotency-Key of the request that made it
	Reference   string // our id; "" if the record has none
	ChargeID    string // for a refund, the PSP's id of its charge
	AmountMinor int64
	Currency    string
	Status      string    // "succeeded" or "declined"
	DeclineCode string    // for a decline; "" in a statement, which has no codes
	Created     time.Time // by the PSP's clock, in UTC
}

// Executed reports whether the money has moved.
func (r Record) Executed() bool { return r.Status == pspSucceeded }

// Evidence is the record as JSON for a timeline or a dead letter. It has the PSP's member names, and PostgreSQL's jsonb
// can store it.
func (r Record) Evidence() []byte {
	raw, err := json.Marshal(entry{
		ID: r.ID, Object: r.Object, Account: r.Account, IdempotencyKey: r.Key, Reference: r.Reference,
		ChargeID:    r.ChargeID,
		AmountCents: &r.AmountMinor, Currency: r.Currency, Status: r.Status, DeclineCode: r.DeclineCode,
		CreatedAt: r.Created.UTC().Format(time.RFC3339Nano),
	})
	if err != nil {
		return nil // This cannot happen after parsing, because all strings are UTF-8.
	}
	return raw
}
