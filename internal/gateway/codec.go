package gateway

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json"
)

// stored is a record as evidence: in a timeline, in a dead letter, and in the job that judges it again. It is a form of
// our own. No provider's dialect may change it, because stored evidence is read for years. db/queries and saysCharged
// in package judge read its status.
type stored struct {
	ID             string `json:"id"`
	Object         Object `json:"object"`
	Account        string `json:"account"`
	IdempotencyKey string `json:"idempotencyKey"`
	Reference      string `json:"reference"`
	ChargeID       string `json:"chargeId,omitzero"`
	AmountCents    *int64 `json:"amountCents"` // a pointer, because 0 differs from no amount
	Currency       string `json:"currency"`
	Status         string `json:"status"`
	DeclineCode    string `json:"declineCode,omitzero"`
	CreatedAt      string `json:"createdAt,omitzero"` // An answer to a request may have none.
}

// Evidence is the record as JSON for a timeline or a dead letter. PostgreSQL's jsonb can store it.
func (r Record) Evidence() []byte {
	for _, text := range []*string{&r.ID, &r.Account, &r.Key, &r.Reference, &r.ChargeID, &r.Currency, &r.Status,
		&r.DeclineCode} {
		*text = Beginning([]byte(*text))
	}
	s := stored{
		ID: r.ID, Object: r.Object, Account: r.Account, IdempotencyKey: r.Key, Reference: r.Reference,
		ChargeID: r.ChargeID, AmountCents: &r.AmountMinor, Currency: r.Currency, Status: r.Status,
		DeclineCode: r.DeclineCode,
	}
	if !r.Created.IsZero() {
		s.CreatedAt = r.Created.UTC().Format(time.RFC3339Nano)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil // This cannot happen, because all strings are UTF-8.
	}
	return raw
}

// ParseRecord reads a record that Evidence has written. It checks each member that a Record has, and ignores all
// others. The error names the wrong member and repeats nothing of the record.
func ParseRecord(raw []byte) (Record, error) {
	var e stored
	if err := json.Unmarshal(raw, &e); err != nil {
		return Record{}, errors.New("record is not the JSON of one")
	}
	if e.Status == StatusDeclined && e.DeclineCode == "" {
		return Record{}, errors.New("record without a declineCode")
	}
	r := Record{
		Object: e.Object, ID: e.ID, Account: e.Account, Key: e.IdempotencyKey, Reference: e.Reference,
		ChargeID: e.ChargeID, AmountMinor: -1, Currency: e.Currency, Status: e.Status, DeclineCode: e.DeclineCode,
	}
	if e.AmountCents != nil {
		r.AmountMinor = *e.AmountCents
	}
	// A time that cannot be read stays zero, which Accept refuses after the members before it.
	r.Created, _ = ParseTime(e.CreatedAt)
	return r.Accept()
}
