package payments

import (
	"time"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// Evidence is what somebody brings: one of Reply, Record, Nothing, NoAnswer, Decision, Break.
//
//sumtype:decl
type Evidence interface{ evidence() }

// Reply is what came of the request's own call of the PSP, in time or late.
type Reply struct {
	Attempt int32
	Outcome gateway.Outcome
}

// Record is a record of the PSP's ledger, and who brings it.
type Record struct {
	Source Source
	Record gateway.Record
}

// Nothing is a lookup that has found no record under the key.
type Nothing struct{ Chance float64 }

// NoAnswer is a lookup without a usable answer. NotAsked: we had no place ourselves, and the PSP is not to blame.
type NoAnswer struct {
	Reason   string
	NotAsked bool
	// Chance is drawn from [0, 1): it shortens the wait, so that keys lost together do not come back together.
	Chance float64
}

func (Reply) evidence()    {}
func (Record) evidence()   {}
func (Nothing) evidence()  {}
func (NoAnswer) evidence() {}
func (Decision) evidence() {}
func (Break) evidence()    {}

// Step is what apply commits: all of it or nothing, and only to the key as it was seen. The zero Step moves nothing.
type Step struct {
	// To is where the key goes; "" if it stays.
	To idempotency.Status
	// Verdict is written to the movement's row when the key goes to completed or failed_retryable, and told in the response when it goes to completed.
	Verdict verdict
	// ByOwner: the request itself takes the step, under its own lease.
	ByOwner bool
	// ByOperator: an operator's word stands in for the PSP's memory of the key.
	ByOperator bool
	// Named is the PSP's id for a row for which an operator has vouched without one.
	Named string
	// Note is the line of the key's timeline. The two steps of the happy path have none: the key's row tells them.
	Note *idempotency.Note
	// AskAgain is when the PSP is asked next.
	AskAgain *Wait
	// Open is the dead letter that the step opens.
	Open *Case
	// LeftAlone: somebody else is at work on the key, and will come to know it.
	LeftAlone bool

	// The rest is for a decision. A decision that is not refused closes its dead letter.
	Refuse *Refusal
	// Ask: the PSP has to be asked first.
	Ask bool
	// Again is what has to be done once more.
	Again *Again
	// Forget is a stored webhook that nobody waits for any more.
	Forget string
}

// Wait is the time until the next lookup.
type Wait struct {
	After    time.Duration
	Failures int32 // lookups in a row without an answer, from now on
}

// Case is a dead letter that is to be opened.
type Case struct {
	Kind     deadletters.Kind
	Finding  string // one finding is one dead letter
	AboutKey bool
	Reason   string
	Evidence []byte
}
