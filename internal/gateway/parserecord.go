package gateway

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// The forms of the texts that we accept from the PSP. Ids and codes are stored, indexed and shown. If PostgreSQL
// refused an id, the verdict could not be written.
var (
	declineCodeForm = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)
	currencyForm    = regexp.MustCompile(`^[A-Z]{3}$`)
)

// isID reports whether s has 1 to 255 printable ASCII characters and no spaces.
func isID(s string) bool {
	for _, c := range []byte(s) {
		if c < '!' || c > '~' {
			return false
		}
	}
	return s != "" && len(s) <= 255
}

// maxText bounds the texts of a record that we may not have chosen, in bytes. It is enough for 255 characters of any
// script.
const maxText = 1024

// entry is a record as the PSP sends it. Unknown members are ignored, because PSPs often add members.
type entry struct {
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
	CreatedAt      string `json:"createdAt"`
}

// ParseRecord reads one record in the form of the PSP's lists, lookups and webhooks. It checks each member that a
// Record has, and ignores all others. The error names the wrong member and repeats nothing of the record.
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
	// Replace U+0000 before the lengths are checked: U+FFFD takes three bytes, and the evidence must be a valid record.
	e.Account, e.IdempotencyKey = storableText(e.Account), storableText(e.IdempotencyKey)
	e.Reference = storableText(e.Reference)
	if member := e.malformed(); member != "" {
		return Record{}, fmt.Errorf("record with a malformed %s", member)
	} else if !ok {
		return Record{}, errors.New("record with a malformed createdAt")
	}
	return Record{
		Object: e.Object, ID: e.ID, Account: e.Account, Key: e.IdempotencyKey, Reference: e.Reference,
		ChargeID:    e.ChargeID,
		AmountMinor: *e.AmountCents, Currency: e.Currency, Status: e.Status, DeclineCode: e.DeclineCode,
		Created: created,
	}, nil
}

// malformed names the first member that is not valid, or is "". Only the length of key and reference is checked. The
// ledger also has charges that we did not make, and such a charge must not stop every scan.
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

// parseCreated accepts RFC 3339. It refuses years before 1970, and years that do not have four digits in UTC.
func parseCreated(text string) (time.Time, bool) {
	var t time.Time
	if err := t.UnmarshalText([]byte(text)); err != nil {
		return t, false
	}
	t = t.UTC()
	return t, t.Year() >= 1970 && t.Year() <= 9999
}

// storableText replaces U+0000 by U+FFFD, because no text in PostgreSQL can hold U+0000. Our own texts have neither.
func storableText(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }
