package client

import (
	"errors"
	"fmt"
)

// An error of the Store has no type here. It leaves the intent open, as an UnknownError does: what could not be made
// durable may be stored all the same, and the next Resume pays it. Never pay again under another ID.

// ErrIntentChanged refuses an intent whose ID was used for another request before. Nothing was sent.
var ErrIntentChanged = errors.New("the intent's ID was used for another request; a new payment needs a new ID")

// ErrKeyTooOld refuses to send a key that the server may have forgotten: it would take the request for a new payment.
// Also a key is refused whose record is from the future, because a clock was wrong and nobody knows how old the key is.
// Nothing was sent. The outcome of earlier attempts is not known; a person finds it by customer and time, and decides.
var ErrKeyTooOld = errors.New("the key is too old to be sent again; find out what became of the payment")

// UnknownError says that time is over and that the outcome is not known: the customer may have been charged or not. The
// intent stays open. Resume, or Pay with the same intent, goes on with the same key. Never pay again under another ID.
type UnknownError struct {
	Intent   string
	Attempts int
	Last     error // why the last attempt told nothing
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("intent %s: the outcome is not known after %d attempts; Resume goes on with the same key: %v",
		e.Intent, e.Attempts, e.Last)
}

// Unwrap gives Last, which wraps the context's error when that has ended.
func (e *UnknownError) Unwrap() error { return e.Last }

// RefusedError says that the last request was refused and has not used its key. Correct what it names, and call Pay
// again with the same ID: it uses the same key.
type RefusedError struct {
	Intent string
	Status int
	Code   string
	Answer []byte // the problem document, with its members detail and errors
	// Untouched says that no earlier attempt can have been executed. Then the members of the intent may be corrected,
	// too. Otherwise only the configuration may be, such as the API key, because an earlier attempt may have charged.
	Untouched bool
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("intent %s: this request was refused with %d %s; correct it and keep the key",
		e.Intent, e.Status, e.Code)
}

// StuckError says that the server has the key, and that it cannot be executed for this request. A person finds out what
// became of the payment. The client sends nothing more for this intent.
type StuckError struct {
	Intent string
	Status int
	Code   string
	Answer []byte
}

func (e *StuckError) Error() string {
	return fmt.Sprintf("intent %s: the server answers %d %s; find out what became of the payment, do not pay again",
		e.Intent, e.Status, e.Code)
}
