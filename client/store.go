package client

import (
	"context"
	"time"
)

// State is how far an intent has come.
type State string

// The states. A key is never replaced, in any of them.
const (
	// Open: the key may have been sent, and its outcome is not known.
	Open State = "open"
	// Unused: each request so far was refused, and none has used the key. The body may be corrected.
	Unused State = "unused"
	// Blocked: the server has the key for something else, or the key is too old there. A person has to look.
	Blocked State = "blocked"
	// Ended: paid or declined. Answer has what the server said.
	Ended State = "ended"
)

// Record is what a Store keeps of an intent.
type Record struct {
	Intent string    // Intent.ID
	Key    string    // the Idempotency-Key
	Body   []byte    // the exact bytes of the request
	Opened time.Time // the key may have been sent since then
	State  State
	Status int    // the HTTP status of the last answer; 0 while the intent is open
	Answer []byte // its body; empty while the intent is open
}

// Store keeps intents where no crash of the process can lose them. It is safe for concurrent use.
//
// One Client at a time works with a Store. Two of them would not know of each other's requests: one could store that a
// key is Unused while the other has charged under it. They would still use one key for an intent.
type Store interface {
	// Create stores the record of a new intent, and returns it. If there is a record of this intent already, Create
	// changes nothing and returns that record: two callers of one intent get the same key. The record is durable before
	// Create returns. After an error, it may be stored or not.
	Create(ctx context.Context, fresh Record) (Record, error)
	// Update replaces the record of an intent, under the same key. The record is durable before Update returns.
	// After an error, the record of before or the changed one is stored. A record that has ended stays as it is.
	Update(ctx context.Context, changed Record) error
	// Unfinished returns the open records, oldest first.
	Unfinished(ctx context.Context) ([]Record, error)
}
