package payments

import (
	"time"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// Evidence is what the PSP, or an operator, says about a payment or refund: one of Reply, Record, Nothing, Waiting,
// NoAnswer, OperatorDecision, Break.
//
//sumtype:decl
type Evidence interface{ evidence() }

// Reply is the reply to the request's own call of the PSP. It may be late.
type Reply struct {
	Attempt int32
	Outcome gateway.Outcome
}

// Record is a record of the PSP's ledger, and who brings it.
type Record struct {
	Source Source
	PSP    string // the PSP that says so; "" if an operator retries a stored record
	Record gateway.Record
}

// Nothing is a lookup that has found no record of the request. Final: the PSP has ended the request, so it will never
// execute it.
type Nothing struct {
	Final  bool
	Chance float64
}

// Waiting is a lookup by which the PSP waits for the customer or a bank.
type Waiting struct {
	Reason string
	Chance float64
}

// NoAnswer is a lookup without a usable answer. NotAsked: we had too many requests in flight and did not send it.
type NoAnswer struct {
	Reason   string
	NotAsked bool
	// Chance is a random number from [0, 1). It shortens the wait, so that keys that were lost together are not all
	// looked up again at the same moment.
	Chance float64
}

func (Reply) evidence()            {}
func (Record) evidence()           {}
func (Nothing) evidence()          {}
func (Waiting) evidence()          {}
func (NoAnswer) evidence()         {}
func (OperatorDecision) evidence() {}
func (Break) evidence()            {}

// Step is what judge has decided and apply writes: all of it or nothing. If the step moves the key, it is written only
// if the key is still as it was read.
// The zero Step changes nothing.
type Step struct {
	// To is the key's new status; "" if the key does not move.
	To idempotency.Status
	// Verdict is written to the row of the payment or refund if the key becomes completed or failed_retryable. If it
	// becomes completed, the response tells the verdict.
	Verdict payment.Verdict
	// ByOwner: the request itself takes the step, under its own lease.
	ByOwner bool
	// ByOperator: an operator vouches for what the PSP may have forgotten.
	ByOperator bool
	// Final: the PSP has ended the request. So the key is released also within the grace period, and beyond the PSP's
	// memory.
	Final bool
	// Named is the PSP's id of a payment for which an operator has vouched without knowing that id.
	Named string
	// Note is the line in the key's timeline. The two steps of the normal case have none, because the key's row tells
	// them.
	Note *idempotency.Note
	// AskAgain is when the PSP is asked next.
	AskAgain *Wait
	// Open is the dead letter that the step opens.
	Open *Case
	// Answer is the dead letter that the evidence closes, if it is open. Its reason is that of the resolution.
	Answer *Case
	// Outside is a record of what others have done to the payment. It is stored, and bounds the payment's refunds.
	Outside *gateway.Record
	// Foreign: the record is about a charge of another program.
	Foreign bool
	// LeftAlone: somebody else is working on the key and will find out the same.
	LeftAlone bool

	// The rest is for an operator's decision. A decision that is not refused closes its dead letter.
	Refuse *Refusal
	// Ask: the PSP must be asked first.
	Ask bool
	// Cancels is for a preview: the decision has the PSP cancel the request first.
	Cancels bool
	// Again is what must be done once more.
	Again *Again
	// Forget is the id of a stored webhook that nobody needs any more.
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
