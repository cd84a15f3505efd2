package stripe

import (
	"cmp"
	"maps"
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
	Method  string `json:"method"`
}

// due is what happens to an intent or a refund later, unless it is canceled first.
type due struct {
	At    time.Time `json:"at"`
	What  dueKind   `json:"what"`
	Fault string    `json:"fault"`
	Key   keyRef    `json:"key,omitzero"`  // of the request that is still being executed
	Hash  string    `json:"hash,omitzero"` // of that request
	For   origin    `json:"for,omitzero"`
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
	dueRefundBack dueKind = "refund_back" // the refund has failed after it had succeeded, and the money is back
)

// reference is the caller's name for the intent, by which faults that strike once are counted.
func (i *intent) reference() string { return cmp.Or(i.Metadata["reference"], i.ID) }

// isLate is true while a confirmation is on its way.
func (i *intent) isLate() bool { return i.Due != nil && i.Due.What == dueConfirm }

// confirmable says whether a confirmation may execute the intent.
func (i *intent) confirmable() bool {
	return i.Status == needsConfirmation || i.Status == needsMethod || i.Status == needsAction
}

// cancelable says whether the intent may be canceled: as long as no money is moving.
func (i *intent) cancelable() bool { return i.confirmable() }

type intentView struct {
	ID                 string            `json:"id"`
	Object             string            `json:"object"`
	Amount             int64             `json:"amount"`
	AmountCapturable   int64             `json:"amount_capturable"`
	AmountReceived     int64             `json:"amount_received"`
	Application        *string           `json:"application"`
	Automatic          *automaticView    `json:"automatic_payment_methods"`
	CanceledAt         *int64            `json:"canceled_at"`
	CancellationReason *string           `json:"cancellation_reason"`
	CaptureMethod      string            `json:"capture_method"`
	ClientSecret       string            `json:"client_secret"`
	ConfirmationMethod string            `json:"confirmation_method"`
	Created            int64             `json:"created"`
	Currency           string            `json:"currency"`
	Customer           *string           `json:"customer"`
	Description        *string           `json:"description"`
	LastPaymentError   *failureView      `json:"last_payment_error"`
	LatestCharge       any               `json:"latest_charge"` // an id or, expanded, the charge
	Livemode           bool              `json:"livemode"`
	Metadata           map[string]string `json:"metadata"`
	NextAction         *actionView       `json:"next_action"`
	PaymentMethod      *string           `json:"payment_method"`
	PaymentMethodTypes []string          `json:"payment_method_types"`
	Processing         *processingView   `json:"processing"`
	Status             string            `json:"status"`
}

type automaticView struct {
	Enabled bool `json:"enabled"`
}

type processingView struct {
	Type string `json:"type"`
}

type actionView struct {
	Type     string       `json:"type"`
	Redirect redirectView `json:"redirect_to_url"`
}

type redirectView struct {
	ReturnURL *string `json:"return_url"`
	URL       string  `json:"url"`
}

type failureView struct {
	Type          string     `json:"type"`
	Code          string     `json:"code"`
	DeclineCode   string     `json:"decline_code,omitempty"`
	Charge        string     `json:"charge"`
	Message       string     `json:"message"`
	PaymentMethod methodView `json:"payment_method"`
}

type methodView struct {
	ID     string `json:"id"`
	Object string `json:"object"`
	Type   string `json:"type"`
}

// view is the intent as the API shows it. Latest is the charge to show in place of its id, or nil.
func (i *intent) view(latest *charge) *intentView {
	v := &intentView{
		ID: i.ID, Object: "payment_intent", Amount: i.Amount, AmountReceived: i.Received,
		CanceledAt: orNull(i.Canceled), CancellationReason: orNull(i.WhyCancel),
		CaptureMethod: "automatic", ClientSecret: i.ID + "_secret_" + i.Secret, ConfirmationMethod: "automatic",
		Created: i.Created, Currency: i.Currency, Description: orNull(i.About),
		Metadata: shownMetadata(i.Metadata), PaymentMethod: orNull(i.Method), PaymentMethodTypes: i.Types,
		Status: i.Status,
	}
	if i.Automatic {
		v.Automatic = &automaticView{true}
	}
	switch {
	case latest != nil:
		v.LatestCharge = latest.view(nil)
	case i.Charge != "":
		v.LatestCharge = i.Charge
	}
	if f := i.Failure; f != nil {
		v.LastPaymentError = &failureView{cardFailure, f.Code, f.Decline, f.Charge, f.Message,
			methodView{f.Method, "payment_method", methodType(f.Method)}}
	}
	if i.Status == needsAction {
		v.NextAction = &actionView{"redirect_to_url", redirectView{nil, "https://hooks.stripe.com/3d_secure_2/" + i.ID}}
	}
	if i.Status == inProcess {
		v.Processing = &processingView{methodType(i.Method)}
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
