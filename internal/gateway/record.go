package gateway

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Object says which kind of movement of money a record is.
type Object string

// The objects of the PSP's ledger. We ask for charges and refunds. Others may ask for refunds, too, and the PSP may
// take back a charge by itself, which is a refund for us. A dispute is opened by the payer's bank.
const (
	ChargeObject  Object = "charge"
	RefundObject  Object = "refund"
	DisputeObject Object = "dispute"
)

// The statuses of a record. Only what others have done to a charge is ever pending: the money is on its way, or is
// held. A declined refund has moved nothing, or its money has come back. A declined dispute has cost nothing: it was
// won, or no money was withdrawn.
const (
	StatusPending   = "pending"
	StatusSucceeded = "succeeded"
	StatusDeclined  = "declined"
)

// DisputeStatus is how far a dispute is.
type DisputeStatus string

// The statuses of a dispute, in the order in which they follow each other. The last three are final.
const (
	// Inquiry: the bank asks, and no money is withdrawn.
	Inquiry DisputeStatus = "inquiry"
	// NeedsResponse: the money is withdrawn, and the merchant may send evidence.
	NeedsResponse DisputeStatus = "needs_response"
	// UnderReview: the bank has the merchant's evidence.
	UnderReview DisputeStatus = "under_review"
	// Closed: it ended as an inquiry, or was prevented. No money was withdrawn.
	Closed DisputeStatus = "closed"
	// Won: the merchant has the money again.
	Won DisputeStatus = "won"
	// Lost: the payer has the money.
	Lost DisputeStatus = "lost"
)

// Final reports whether the dispute is over.
func (s DisputeStatus) Final() bool { return s == Closed || s == Won || s == Lost }

// Takes reports whether the money of the dispute is withdrawn, or may be.
func (s DisputeStatus) Takes() bool { return s == NeedsResponse || s == UnderReview || s == Lost }

func (s DisputeStatus) known() bool { return s.Final() || s.Takes() || s == Inquiry }

// Record is the status of a record of the dispute: what it says about the money.
func (s DisputeStatus) Record() string {
	switch s {
	case Lost:
		return StatusSucceeded
	case Won, Closed:
		return StatusDeclined
	case Inquiry, NeedsResponse, UnderReview:
	}
	return StatusPending
}

// Dispute is what a record of a dispute says besides.
type Dispute struct {
	Status        DisputeStatus `json:"status"`
	Reason        string        `json:"reason,omitzero"`
	EvidenceDueBy time.Time     `json:"evidenceDueBy,omitzero"` // until when the merchant may send evidence
}

// AlreadyMoved is the decline code of a refund that the PSP refuses because the money of its charge has been returned,
// or is held, already. Each dialect has its own codes for that, and puts this one in their place: a client
// that reads "no money was returned" would return it in another way.
const AlreadyMoved = "already_returned_or_held"

// Record is an object in the PSP's own ledger that moves money. Its JSON is the form of stored evidence (codec.go).
type Record struct {
	ID          string    `json:"id"`
	Object      Object    `json:"object"`
	Account     string    `json:"account"`
	Key         string    `json:"idempotencyKey"` // the Idempotency-Key of the request that made it
	Reference   string    `json:"reference"`      // our id; "" if the record has none
	ChargeID    string    `json:"chargeId,omitzero"`
	AmountMinor int64     `json:"amountCents"`
	Currency    string    `json:"currency"`
	Status      string    `json:"status"`               // "pending", "succeeded" or "declined"
	DeclineCode string    `json:"declineCode,omitzero"` // for a decline; "" in a statement, which has no codes
	Created     time.Time `json:"createdAt,omitzero"`   // by the PSP's clock, in UTC
	Dispute     Dispute   `json:"dispute,omitzero"`     // of a dispute
}

// Executed reports whether the money has moved.
func (r Record) Executed() bool { return r.Status == StatusSucceeded }

// Marked reports whether the request for the record had a key or a reference. At a PSP whose account has records of
// other programs, too, only those of Payonce have them.
func (r Record) Marked() bool { return r.Key != "" || r.Reference != "" }

// The forms of the texts that we accept from a PSP. Ids and codes are stored, indexed and shown. If PostgreSQL refused
// an id, the verdict could not be written.
var (
	declineCodeForm = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)
	currencyForm    = regexp.MustCompile(`^[A-Z]{3}$`)
)

// OwnPrefix begins the ids that we give to movements whose ids at the PSP are not known. Any id of the PSP's takes the
// place of such an id. So no id of the PSP's may begin with it: a second charge would pass for the id that was missing.
const OwnPrefix = "operator:"

// IsID reports whether s has 1 to 255 printable ASCII characters and no spaces, and is no id of our own.
func IsID(s string) bool {
	for _, c := range []byte(s) {
		if c < '!' || c > '~' {
			return false
		}
	}
	return s != "" && len(s) <= 255 && !strings.HasPrefix(s, OwnPrefix)
}

// IsDeclineCode reports whether s has 1 to 64 lower-case letters, digits or underscores.
func IsDeclineCode(s string) bool { return declineCodeForm.MatchString(s) }

// maxText bounds the texts of a record that we may not have chosen, in bytes. It is enough for 255 characters of any
// script.
const maxText = 1024

// Accept returns the record in the form in which it can be stored. It fails if a member is malformed. The error names
// the member and repeats nothing of the record. Every dialect calls it with each record that it has read.
func (r Record) Accept() (Record, error) {
	// Replace U+0000 before the lengths are checked: U+FFFD takes three bytes, and the evidence must be a valid record.
	r.Account, r.Key, r.Reference = storableText(r.Account), storableText(r.Key), storableText(r.Reference)
	r.Dispute.Reason = storableText(r.Dispute.Reason)
	r.Created, r.Dispute.EvidenceDueBy = r.Created.UTC(), r.Dispute.EvidenceDueBy.UTC()
	if member := r.malformed(); member != "" {
		return Record{}, fmt.Errorf("record with a malformed %s", member)
	}
	if r.Created.Year() < 1970 || r.Created.Year() > 9999 {
		return Record{}, errors.New("record with a malformed createdAt")
	}
	return r, nil
}

// malformed names the first member that is not valid, or is "". Only the length of key and reference is checked. The
// ledger also has charges that we did not make, and such a charge must not stop every scan.
func (r Record) malformed() string {
	switch {
	case !slices.Contains([]Object{ChargeObject, RefundObject, DisputeObject}, r.Object):
		return "object"
	case !IsID(r.ID):
		return "id"
	case r.Account == "" || len(r.Account) > maxText:
		return "account"
	case len(r.Key) > maxText:
		return "idempotencyKey"
	case len(r.Reference) > maxText:
		return "reference"
	case r.ChargeID != "" && !IsID(r.ChargeID), r.Object != ChargeObject && r.ChargeID == "":
		return "chargeId"
	case r.AmountMinor < 0:
		return "amountCents"
	case !currencyForm.MatchString(r.Currency):
		return "currency"
	case r.Status == StatusPending && (r.Object == ChargeObject || r.Marked()),
		!slices.Contains([]string{StatusPending, StatusSucceeded, StatusDeclined}, r.Status),
		r.Object == DisputeObject && (!r.Dispute.Status.known() || r.Status != r.Dispute.Status.Record()):
		return "status"
	case r.Object != DisputeObject && r.Dispute != Dispute{}, len(r.Dispute.Reason) > maxText:
		return "dispute"
	case r.DeclineCode != "" && (r.Status != StatusDeclined || !IsDeclineCode(r.DeclineCode)):
		return "declineCode"
	}
	return ""
}

// ParseTime accepts RFC 3339.
func ParseTime(text string) (time.Time, error) {
	var t time.Time
	err := t.UnmarshalText([]byte(text))
	return t.UTC(), err
}

// storableText replaces U+0000 by U+FFFD, because no text in PostgreSQL can hold U+0000. Our own texts have neither.
func storableText(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }
