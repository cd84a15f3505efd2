package gateway

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// The forms of what we take from the PSP. Ids and codes are stored, indexed and shown: an id that PostgreSQL refuses would
// keep a verdict from being written.
var (
	declineCodeForm = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)
	currencyForm    = regexp.MustCompile(`^[A-Z]{3}$`)
)

// isID: 1 to 255 printable ASCII characters without spaces.
func isID(s string) bool {
	for _, c := range []byte(s) {
		if c < '!' || c > '~' {
			return false
		}
	}
	return s != "" && len(s) <= 255
}

// maxText bounds the texts of a record that others may have chosen, in bytes: 255 characters of any script fit.
const maxText = 1024

// entry is a record on the wire. Members that we do not know are none of our business: PSPs add some all the time.
type entry struct {
	ID             string `json:"id"`
	Object         Object `json:"object"`
	Account        string `json:"account"`
	IdempotencyKey string `json:"idempotencyKey"`
	Reference      string `json:"reference"`
	ChargeID       string `json:"chargeId,omitzero"`
	AmountCents    *int64 `json:"amountCents"` // a pointer, to tell nothing from 0
	Currency       string `json:"currency"`
	Status         string `json:"status"`
	DeclineCode    string `json:"declineCode,omitzero"`
	CreatedAt      string `json:"createdAt"`
}

// ParseRecord reads one record as the PSP writes it, in its lists and lookups and as the data of its webhooks. It is strict
// about each member that a Record has, and ignores all others. The error names the member and repeats nothing of it.
func ParseRecord(raw []byte) (Record, error) {
	var e entry
	if err := json.Unmarshal(raw, &e); err != nil {
		return Record{}, errors.New("record is not the JSON of one")
	}
	if e.Status == pspDeclined && e.DeclineCode == "" {
		return Record{}, errors.New("record without a declineCode")
	}
	return e.record()
}

func (e entry) record() (Record, error) {
	created, ok := parseCreated(e.CreatedAt)
	// Before they are measured: U+FFFD takes three bytes, and the evidence of a record must be one, too.
	e.Account, e.IdempotencyKey, e.Reference = storableText(e.Account), storableText(e.IdempotencyKey), storableText(e.Reference)
	if member := e.malformed(); member != "" {
		return Record{}, fmt.Errorf("record with a malformed %s", member)
	} else if !ok {
		return Record{}, errors.New("record with a malformed createdAt")
	}
	return Record{
		Object: e.Object, ID: e.ID, Account: e.Account, Key: e.IdempotencyKey, Reference: e.Reference, ChargeID: e.ChargeID,
		AmountMinor: *e.AmountCents, Currency: e.Currency, Status: e.Status, DeclineCode: e.DeclineCode, Created: created,
	}, nil
}

// malformed names the first member that cannot be, if there is one. Key and reference are only bounded: charges that were not
// made by us are in the ledger as well, and one of them must not end every scan of it.
func (e entry) malformed() string {
	switch {
	case e.Object.path() == "":
		return "object"
	case !isID(e.ID):
		return "id"
	case e.Account == "" || len(e.Account) > maxText:
		return "account"
	case len(e.IdempotencyKey) > maxText:
		return "idempotencyKey"
	case len(e.Reference) > maxText:
		return "reference"
	case e.ChargeID != "" && !isID(e.ChargeID), e.Object == RefundObject && e.ChargeID == "":
		return "chargeId"
	case e.AmountCents == nil || *e.AmountCents < 0:
		return "amountCents"
	case !currencyForm.MatchString(e.Currency):
		return "currency"
	case e.Status != pspSucceeded && e.Status != pspDeclined:
		return "status"
	case e.DeclineCode != "" && (e.Status == pspSucceeded || !declineCodeForm.MatchString(e.DeclineCode)):
		return "declineCode"
	}
	return ""
}

// parseCreated takes RFC 3339. Years that a clock cannot show are refused, among them those that no longer have four digits
// in UTC.
func parseCreated(text string) (time.Time, bool) {
	var t time.Time
	if err := t.UnmarshalText([]byte(text)); err != nil {
		return t, false
	}
	t = t.UTC()
	return t, t.Year() >= 1970 && t.Year() <= 9999
}

// storableText has U+FFFD for U+0000, which no text in PostgreSQL can hold. Nothing of ours has either.
func storableText(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }
