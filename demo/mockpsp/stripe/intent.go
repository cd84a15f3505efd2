package stripe

import (
	"cmp"
	"maps"
	"net/http"
	"time"
)

// The statuses of an intent.
const (
	needsMethod       = "requires_payment_method"
	needsConfirmation = "requires_confirmation"
	needsAction       = "requires_action"
	inProcess         = "processing"
	succeeded         = "succeeded"
	canceled          = "canceled"
)

// intent is one version of a PaymentIntent: what a line of the ledger's file holds. A version never changes.
type intent struct {
	ID        string            `json:"id"`
	Account   string            `json:"account"`
	Amount    int64             `json:"amount"`
	Received  int64             `json:"received,omitzero"`
	Currency  string            `json:"currency"`
	Status    string            `json:"status"`
	Method    string            `json:"method,omitempty"`
	Types     []string          `json:"types,omitempty"`
	Automatic bool              `json:"automatic,omitempty"`
	Redirects string            `json:"redirects,omitempty"`
	Capture   string            `json:"capture,omitempty"`
	About     string            `json:"about,omitempty"` // the description
	Metadata  map[string]string `json:"metadata,omitempty"`
	Secret    string            `json:"secret"`
	Created   int64             `json:"created"`
	Canceled  int64             `json:"canceled,omitzero"`
	WhyCancel string            `json:"whyCancel,omitempty"`
	Charge    string            `json:"charge,omitempty"` // the latest
	Failure   *failure          `json:"failure,omitempty"`
	Stuck     bool              `json:"stuck,omitempty"` // cannot be read
	Due       *due              `json:"due,omitempty"`
}

// failure is why the latest charge was refused.
type failure struct {
	Charge  string `json:"charge"`
	Code    string `json:"code"`
	Decline string `json:"decline"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"`
	Method  string `json:"method"`
}

// said is the failure as an error. The error of a request has the intent, too.
func (f *failure) said() apiError {
	return apiError{status: http.StatusPaymentRequired, kind: cardFailure, code: f.Code, decline: f.Decline,
		message: f.Message, param: f.Param, charge: f.Charge, method: f.Method}
}

// due is what happens to an intent, a refund or a dispute later, unless it is canceled first.
type due struct {
	At    time.Time `json:"at"`
	What  dueKind   `json:"what"`
	Fault string    `json:"fault"`
	For   origin    `json:"for,omitzero"`

	// Of the request that is still being executed.
	Key    keyRef   `json:"key,omitzero"`
	Hash   string   `json:"hash,omitzero"`
	Expand []string `json:"expand,omitempty"`
}

type dueKind string

const (
	dueConfirm    dueKind = "confirm"     // the confirmation lands
	dueAuthentic  dueKind = "authentic"   // the customer has authenticated
	dueCleared    dueKind = "cleared"     // the debit has cleared
	dueReturned   dueKind = "returned"    // the debit has failed
	dueRefund     dueKind = "refund"      // the refund lands
	dueRefundPaid dueKind = "refund_paid" // the pending refund has succeeded
	dueRefundLost dueKind = "refund_lost" // the pending refund has failed
	dueDispute    dueKind = "dispute"     // the charge is disputed
	dueWon        dueKind = "won"         // the dispute is won, after its review
	dueLost       dueKind = "lost"        // the dispute is lost
	dueRefundBack dueKind = "refund_back" // the refund has failed after it had succeeded, and the money is back
)

// reference is the caller's name for the intent, by which faults that strike once are counted.
func (i *intent) reference() string { return cmp.Or(i.Metadata["reference"], i.ID) }

// isLate is true while a confirmation is on its way.
func (i *intent) isLate() bool { return i.Due != nil && i.Due.What == dueConfirm }

// confirmable says whether a confirmation may execute the intent, and whether it may be canceled: no money is moving.
func (i *intent) confirmable() bool {
	return i.Status == needsConfirmation || i.Status == needsMethod || i.Status == needsAction
}

// shown is the intent as the API shows it.
func (i *intent) shown() object {
	v := object{
		"id": i.ID, "object": "payment_intent", "amount": i.Amount, "amount_capturable": 0,
		"amount_received": i.Received, "application": nil, "automatic_payment_methods": nil,
		"canceled_at": orNull(i.Canceled), "cancellation_reason": orNull(i.WhyCancel),
		"capture_method": cmp.Or(i.Capture, "automatic"),
		"client_secret":  i.ID + "_secret_" + i.Secret, "confirmation_method": "automatic", "created": i.Created,
		"currency": i.Currency, "customer": nil, "description": orNull(i.About), "last_payment_error": nil,
		"latest_charge": orNull(i.Charge), "livemode": false, "metadata": shownMetadata(i.Metadata), "next_action": nil,
		"payment_method": orNull(i.Method), "payment_method_types": i.Types, "processing": nil, "status": i.Status,
	}
	if i.Automatic {
		v["automatic_payment_methods"] = object{"allow_redirects": cmp.Or(i.Redirects, "always"), "enabled": true}
	}
	if f := i.Failure; f != nil {
		v["last_payment_error"] = f.said().shown()["error"]
	}
	if i.Status == needsAction {
		v["next_action"] = object{
			"type":            "redirect_to_url",
			"redirect_to_url": object{"return_url": nil, "url": "https://hooks.stripe.com/3d_secure_2/" + i.ID},
		}
	}
	if i.Status == inProcess {
		v["processing"] = object{"type": methodType(i.Method)}
	}
	return v
}

// orNull is nil, and so null in JSON, for nothing.
func orNull[T comparable](value T) *T {
	var nothing T
	if value == nothing {
		return nil
	}
	return &value
}

func shownMetadata(metadata map[string]string) map[string]string {
	if metadata == nil {
		return map[string]string{}
	}
	return maps.Clone(metadata)
}
