package mockpsp

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// The objects and statuses of a [Movement].
const (
	ObjectCharge  = "charge"
	ObjectRefund  = "refund"
	ObjectDispute = "dispute"
	// These two are in settlement files alone.
	ObjectPayout     = "payout"
	ObjectAdjustment = "adjustment"

	StatusSucceeded = "succeeded"
	StatusDeclined  = "declined"
	StatusPending   = "pending" // of a refund
	StatusFailed    = "failed"  // of a refund that had succeeded: the money is the charge's again

	StatusInquiry       = "inquiry"        // the bank only asks
	StatusNeedsResponse = "needs_response" // the bank has withdrawn the money
	StatusUnderReview   = "under_review"
	StatusWon           = "won" // the money is back
	StatusLost          = "lost"
	StatusClosed        = "closed" // an inquiry that ended without a dispute
	StatusPaid          = "paid"   // of a payout or an adjustment
)

// changes are the statuses that may follow on another one, by the kind of an entry. All other entries stay as they are.
var changes = map[string][]string{
	"refund.pending":         {StatusSucceeded},
	"refund.succeeded":       {StatusFailed},
	"dispute.inquiry":        {StatusNeedsResponse, StatusClosed},
	"dispute.needs_response": {StatusUnderReview, StatusLost},
	"dispute.under_review":   {StatusWon, StatusLost},
}

// timeLayout has a fixed width, so that text order is time order.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// entry is a charge, a refund or a dispute as the ledger holds it and as the API shows it: to a ledger they are the
// same thing, with the sign reversed for the last two. Amounts are counts of the currency's minor unit.
type entry struct {
	ID             string `json:"id"`
	Object         string `json:"object"`
	Account        string `json:"account"`
	IdempotencyKey string `json:"idempotencyKey"`
	Reference      string `json:"reference"`
	ChargeID       string `json:"chargeId,omitempty"` // of a refund or a dispute
	AmountCents    int64  `json:"amountCents"`
	Currency       string `json:"currency"`
	PaymentMethod  string `json:"paymentMethod,omitempty"` // of a charge
	Reason         string `json:"reason,omitempty"`        // of a refund or a dispute
	Status         string `json:"status"`
	DeclineCode    string `json:"declineCode,omitempty"`
	EvidenceDueBy  string `json:"evidenceDueBy,omitempty"` // of a dispute
	CreatedAt      string `json:"createdAt"`
}

// record is a version of an entry and how it came about: one line of the ledger's file. Before it is written it is a
// draft, with what was asked for and no outcome. With a due time it is a promise that the draft will land then.
// Once written it never changes: a refund that comes back and a dispute that is decided have a further version.
type record struct {
	Entry    entry     `json:"entry"`
	Path     string    `json:"path"`     // where the key was sent; empty if no request with a key asked for it
	BodyHash string    `json:"bodyHash"` // of the request, to tell a repeat from a misuse
	Fault    fault     `json:"fault"`
	DueAt    time.Time `json:"dueAt,omitzero"`

	AskedAccount string `json:"askedAccount,omitempty"` // where the entry has another, by a fault
	AskedKey     string `json:"askedKey,omitempty"`     // likewise
	AnswerID     string `json:"answerId,omitempty"`     // what the answer says, where that is not the entry's id
	Further      bool   `json:"further,omitempty"`      // follows the key's own entry

	Version   int    `json:"version,omitzero"` // from 0
	ChangedAt string `json:"changedAt,omitempty"`

	Outage  bool       `json:"outage,omitempty"`  // no entry, but a note: the key has failed once
	Forgets *keyFilter `json:"forgets,omitempty"` // no entry, but a note: these keys were forgotten

	// Note is what another dialect keeps, see [Booking]. It is omitted only if there is none: an empty object is a line
	// of the dialect, too.
	Note jsontext.Value `json:"note,omitzero"`

	becomes   string // the status, of the draft of a further version
	dialect   bool   // written by another dialect: no key, no webhook and no lookup of ours knows it
	line      *Line  // of the draft of another dialect
	forgotten int    // how many keys the note has dropped
	position  int    // among the account's entries of the same object
}

// keyRef identifies an intended operation: keys of other accounts or paths are other keys.
type keyRef struct{ account, path, key string }

// ref is the key as it was sent, whatever the entry says.
func (r *record) ref() keyRef {
	return keyRef{r.askedAccount(), r.Path, cmp.Or(r.AskedKey, r.Entry.IdempotencyKey)}
}

func (r *record) askedAccount() string { return cmp.Or(r.AskedAccount, r.Entry.Account) }

func (r *record) isPromise() bool { return !r.DueAt.IsZero() }

func (r *record) isNote() bool { return r.Outage || r.Forgets != nil || r.dialect && r.Entry.ID == "" }

// kind is the type of the record's webhook, too.
func (r *record) kind() string { return r.Entry.Object + "." + r.Entry.Status }

// at is when the record was written.
func (r *record) at() string { return cmp.Or(r.ChangedAt, r.Entry.CreatedAt) }

// taken is what the entry takes from its charge: neither a refund nor a dispute can take it again.
func (r *record) taken() int64 {
	switch r.kind() {
	case "refund.pending", "refund.succeeded", "dispute.needs_response", "dispute.under_review", "dispute.lost":
		return r.Entry.AmountCents
	}
	return 0
}

// moves reports whether money has moved with the record.
func (r *record) moves() bool {
	switch r.kind() {
	case "charge.succeeded", "refund.succeeded", "refund.failed", "dispute.needs_response", "dispute.won",
		"payout.paid", "adjustment.paid":
		return true
	}
	return false
}

// fee is what the provider keeps: 2.9 percent of a charge and 30 minor units more, but not more than the charge, and
// 1500 for a dispute. It gives no fee back.
func (r *record) fee() int64 {
	switch a := r.Entry.AmountCents; r.kind() {
	case "charge.succeeded":
		return min(a, a/1000*29+(a%1000*29+500)/1000+30)
	case "dispute.needs_response":
		return 1500
	}
	return 0
}

// net is what the balance gains with the record.
func (r *record) net() int64 {
	switch {
	case !r.moves():
		return 0
	case r.kind() == "charge.succeeded", r.kind() == "refund.failed", r.kind() == "dispute.won":
		return r.Entry.AmountCents - r.fee()
	}
	return -r.Entry.AmountCents - r.fee()
}

func (r *record) succeeded() bool { return r.Entry.Status == StatusSucceeded }

// lookupsFail reports whether nobody can read the record. Only one that has moved money is stuck: an operator can vouch
// for that, and for a decline nobody could.
func (r *record) lookupsFail() bool {
	does := behaviours[r.Fault]
	return does.lookupsFail && r.succeeded()
}

// reply renders the record's answer. It is the same for the first send and for every later one.
func (r *record) reply(replayed bool) Reply {
	status := http.StatusCreated
	if !r.succeeded() {
		status = http.StatusPaymentRequired
	}
	shown := r.Entry
	shown.ID = cmp.Or(r.AnswerID, shown.ID)
	return Reply{Status: status, Body: r.harmed(shown), Replayed: replayed}
}

// shown is the record as the API's reads show it.
func (r *record) shown() []byte { return r.harmed(r.Entry) }

// decide completes a draft. refundable is what the charge of a refund has left.
func (r *record) decide(createdAt time.Time, refundable int64) {
	does := behaviours[r.Fault]
	e := &r.Entry
	e.ID = newID(e.Object)
	e.CreatedAt = createdAt.Format(timeLayout)
	e.Status = StatusSucceeded
	if does.declined || r.Further && does.further == furtherDecline {
		e.Status, e.DeclineCode = StatusDeclined, "insufficient_funds"
	} else if e.Object == ObjectRefund && e.AmountCents > refundable {
		e.Status, e.DeclineCode = StatusDeclined, "refund_exceeds_charge"
	}
}

// newID takes 130 random bits. They come from the system, not from the seed: ids must not repeat after a restart.
func newID(object string) string { return prefixOf(object) + strings.ToLower(rand.Text()) }

func prefixOf(object string) string {
	switch object {
	case ObjectRefund:
		return "rf_"
	case ObjectDispute:
		return "dp_"
	case ObjectPayout:
		return "po_"
	case ObjectAdjustment:
		return "ad_"
	}
	return "ch_"
}
