package native

import (
	"errors"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
)

const (
	chargesPath = "/v1/charges"
	refundsPath = "/v1/refunds"
)

// pathOf is the path of the PSP's list of these objects. It is "" for an unknown object.
func pathOf(o gateway.Object) string {
	switch o {
	case gateway.ChargeObject:
		return chargesPath
	case gateway.RefundObject:
		return refundsPath
	}
	return ""
}

// entry is a record as the PSP sends it. Unknown members are ignored, because PSPs often add members.
type entry struct {
	ID             string         `json:"id"`
	Object         gateway.Object `json:"object"`
	Account        string         `json:"account"`
	IdempotencyKey string         `json:"idempotencyKey"`
	Reference      string         `json:"reference"`
	ChargeID       string         `json:"chargeId"`
	AmountCents    *int64         `json:"amountCents"` // a pointer, because 0 differs from no amount
	Currency       string         `json:"currency"`
	Status         string         `json:"status"`
	DeclineCode    string         `json:"declineCode"`
	CreatedAt      string         `json:"createdAt"`
}

// parseRecord reads one record in the form of the PSP's lists, lookups and webhooks. The error names the wrong member
// and repeats nothing of the record.
func parseRecord(raw []byte) (gateway.Record, error) {
	var e entry
	if err := json.Unmarshal(raw, &e); err != nil {
		return gateway.Record{}, errors.New("record is not the JSON of one")
	}
	if e.Status == gateway.StatusDeclined && e.DeclineCode == "" {
		return gateway.Record{}, errors.New("record without a declineCode")
	}
	return e.record()
}

func (e entry) record() (gateway.Record, error) {
	r := gateway.Record{
		Object: e.Object, ID: e.ID, Account: e.Account, Key: e.IdempotencyKey, Reference: e.Reference,
		ChargeID: e.ChargeID, AmountMinor: -1, Currency: e.Currency, Status: e.Status,
		DeclineCode: codeOf(e.DeclineCode),
	}
	if e.AmountCents != nil {
		r.AmountMinor = *e.AmountCents
	}
	// A time that cannot be read stays zero, which Accept refuses after the members before it.
	r.Created, _ = gateway.ParseTime(e.CreatedAt)
	return r.Accept()
}

// codeOf is why the PSP has declined. A refund of ours never asks for more than our books say is left. So if it exceeds
// the charge, somebody else has refunded a part.
func codeOf(code string) string {
	if code == "refund_exceeds_charge" {
		return gateway.AlreadyMoved
	}
	return code
}
