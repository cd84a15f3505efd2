package gateway

import (
	"errors"

	"github.com/go-json-experiment/json"
)

// The JSON of a Record is evidence: in a timeline, in a dead letter, and in the job that judges it again. It is a form
// of our own. No provider's dialect may change it, because stored evidence is read for years. db/queries and
// hasStatus in package judge read its status.

// Evidence is the record as JSON for a timeline or a dead letter. PostgreSQL's jsonb can store it.
func (r Record) Evidence() []byte {
	for _, text := range []*string{&r.ID, &r.Account, &r.Key, &r.Reference, &r.ChargeID, &r.Currency, &r.Status,
		&r.DeclineCode, &r.Dispute.Reason} {
		*text = Beginning([]byte(*text))
	}
	r.Created = r.Created.UTC()
	raw, err := json.Marshal(r)
	if err != nil {
		return nil // This cannot happen: all strings are UTF-8, and Accept has taken the time.
	}
	return raw
}

// ParseRecord reads a record that Evidence has written. It checks each member that a Record has, and ignores all
// others. The error names the wrong member and repeats nothing of the record.
func ParseRecord(raw []byte) (Record, error) {
	var e struct {
		Record

		AmountMinor *int64 `json:"amountCents"` // a pointer, because 0 differs from no amount
		Created     string `json:"createdAt"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return Record{}, errors.New("record is not the JSON of one")
	}
	r := e.Record
	if r.Status == StatusDeclined && r.DeclineCode == "" && r.Object != DisputeObject {
		return Record{}, errors.New("record without a declineCode")
	}
	if r.AmountMinor = -1; e.AmountMinor != nil {
		r.AmountMinor = *e.AmountMinor
	}
	// A time that cannot be read stays zero, which Accept refuses after the members before it.
	r.Created, _ = ParseTime(e.Created)
	return r.Accept()
}
