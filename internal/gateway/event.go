package gateway

import (
	"errors"
	"time"
)

// Delivery is what a genuine webhook says of itself.
type Delivery struct {
	ID     string    // the same for each delivery of one event
	SentAt time.Time // by the sender's clock; each delivery has its own
}

// VerifyError refuses a webhook that is not genuine.
type VerifyError struct {
	Err       error  // one of the errors below, with the header that is wrong
	Detail    string // for the sender
	Challenge string // the scheme of the signature, for WWW-Authenticate
}

// Error is the reason.
func (e *VerifyError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *VerifyError) Unwrap() error { return e.Err }

// The reasons to refuse a webhook.
var (
	ErrHeaderMissing = errors.New("webhook header is missing")
	ErrMalformed     = errors.New("webhook header is malformed")
	ErrSignature     = errors.New("webhook signature does not match")
	ErrStale         = errors.New("webhook timestamp is too far from now") // The signature matches.
)

// ErrPayload says that a body does not have the form of the PSP's webhooks. A retry does not help.
var ErrPayload = errors.New("webhook payload is malformed")

// ErrUnknownType says that a body has a type of event that this program does not know, from a provider that sends only
// the types that were asked for.
var ErrUnknownType = errors.New("webhook type is unknown")

// Event is what a webhook says: one of Moved, Ignored.
//
//sumtype:decl
type Event interface{ event() }

// Moved says that money has moved, or that the PSP has declined to move it.
type Moved struct {
	Type   string // the PSP's name for this kind of event
	Record Record
}

// Ignored is an event that says nothing about a movement of ours: of another type, or about an object that Payonce did
// not make.
type Ignored struct{ Type, Reason string }

func (Moved) event()   {}
func (Ignored) event() {}
