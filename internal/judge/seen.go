package judge

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// Seen is all that judge may know about a key and about the movement that the evidence is about, as of one moment of
// the database. A Seen is a value: a caller that learns more makes a new one.
type Seen struct {
	// Status is the status of the key's row, or "" if there is no row.
	Status idempotency.Status
	// Key is the execution that the key's row belongs to now.
	Key idempotency.Execution
	// Own is the execution that the movement belongs to. If the evidence is about no movement of ours, the Subject is
	// zero, and this is the key under which the PSP has the record, or zero.
	Own    idempotency.Execution
	Tenant string
	// PSP is the name of the tenant's PSP, and Account is the tenant's account there.
	PSP, Account string
	// Request is our request to the PSP. It compares a record with the request, and returns the outcome.
	Request gateway.Request
	// Row is the verdict that the movement's own row shows.
	Row payment.Verdict

	// GraceLeft is the rest of the grace period. "Not found" is proof if it is zero or negative.
	GraceLeft time.Duration
	// MemoryOver says that the PSP may have forgotten the key.
	MemoryOver bool
	// Failures counts the lookups in a row that had no answer.
	Failures int32
	// Held says that an open dead letter forbids to release the key.
	Held bool
	// OtherHeld is the id of another open dead letter that holds the key, besides the one that a decision is about; or
	// "".
	OtherHeld string
	// Charged says that an open dead letter has a record of money that moved under the key, also for another payment of
	// the key. For an operator's decision, it is for this payment.
	Charged bool

	// Stored is what our books have of the record's object as the doing of others.
	Stored Stored

	Shared bool // whether other programs use the PSP's account, too, if the evidence is about nothing of ours

	// IDTaken says that the PSP's id belongs to another row: an operator names it, or a step that was judged from this
	// Seen was refused because of it.
	IDTaken bool
	// ShareGone says that such a step was refused, because other refunds have reserved this refund's share of the
	// payment.
	ShareGone bool

	// Woken says that somebody has asked for the key's next lookup while this one was running.
	Woken bool

	// DeadLetter is the dead letter that a decision is about.
	DeadLetter *DeadLetter
}

// Source is who brings evidence. It is the actor in the key's timeline.
type Source string

// The sources of evidence.
const (
	SourceOwner     Source = "owner" // the request itself
	SourceWebhook   Source = "webhook"
	SourceLookup    Source = "lookup"
	SourceScan      Source = "scan"
	SourceStatement Source = "statement"
	SourceOperator  Source = "operator"
)

// Known reports whether the evidence is about a movement of ours.
func (s Seen) Known() bool { return s.Own.Subject != uuid.UUID{} }

// stands reports whether the key's row, in whatever status, still belongs to the movement.
func (s Seen) stands() bool {
	return s.Status != "" && s.Key.Generation == s.Own.Generation && s.Key.Subject == s.Own.Subject
}

// ours reports whether the key's row still stands for the movement. An expired key stands for nothing.
func (s Seen) ours() bool { return s.stands() && s.Status != idempotency.ExpiredStatus }

// fromElsewhere reports whether a record comes from another account than the tenant's, or from another PSP. One PSP's
// webhooks say nothing about a tenant of another.
func (s Seen) fromElsewhere(e Record) bool {
	return e.Record.Account != s.Account || e.PSP != "" && e.PSP != s.PSP
}

// charge is our request to the PSP, or zero if that was a refund.
func (s Seen) charge() gateway.Charge {
	charge, _ := s.Request.(gateway.Charge)
	return charge
}

// InHand reports whether the key still waits for this very attempt.
func (s Seen) InHand(e Reply) bool {
	return s.ours() && s.Status == idempotency.InProgressStatus && s.Key.Attempt == e.Attempt
}

// unfinished reports whether the key is ours and has no final response yet.
func (s Seen) unfinished() bool { return s.ours() && s.Status != idempotency.CompletedStatus }

// atWork reports whether a request is executing the key, or a lookup is still waiting for the grace period to end.
func (s Seen) atWork() bool {
	return s.ours() && (s.Status == idempotency.InProgressStatus || s.Status == idempotency.UnknownStatus &&
		s.GraceLeft > 0)
}

// After is the Seen after a step is written. It saves reading the key again.
func (s Seen) After(step Step) Seen {
	s.IDTaken, s.ShareGone = false, false
	if step.to != "" {
		s.Status = step.to
		s.Failures = 0
	}
	if step.to == idempotency.CompletedStatus || step.to == idempotency.FailedRetryableStatus {
		s.Row = step.verdict
	}
	if step.reversal != nil {
		s.Row = *step.reversal
	}
	if step.named != "" {
		s.Row.PSPID = step.named
	}
	if step.askAgain != nil {
		s.Failures = step.askAgain.Failures
	}
	if c := step.open; c != nil && c.AboutKey && s.Status != "" {
		s.Charged = s.Charged || hasStatus(c.Evidence, "succeeded") || hasStatus(c.Evidence, "pending")
		s.Held = s.Held || s.Charged || s.stands()
	}
	return s
}

// hasStatus reports whether the record, or the answer of the PSP, in evidence has this status. By succeeded, money has
// moved: the column hold of the table dead_letters is computed by the same rule.
func hasStatus(evidence []byte, status string) bool {
	type told struct {
		Status jsontext.Value `json:"status"`
	}
	var kept struct {
		Record told `json:"record"`
		Answer told `json:"answer"`
	}
	_ = json.Unmarshal(evidence, &kept)
	status = `"` + status + `"`
	return string(kept.Record.Status) == status || string(kept.Answer.Status) == status
}

// About names the movement's key as a dead letter does.
func (s Seen) About() deadletters.About {
	return deadletters.About{
		Tenant: s.Tenant, Operation: string(s.Own.Ref.Operation), Key: s.Own.Ref.Key.String(),
		Generation: s.Own.Generation,
	}
}

// lookedUp reports whether a lookup of the key finds a record: it is under the key that we have sent, and it is of the
// object that was made for the attempt.
func (s Seen) lookedUp(r gateway.Record) bool {
	objectID := s.charge().ObjectID
	return r.Key == s.Own.PassThroughKey() && (objectID == "" || objectID == r.ID)
}

// DeadLetter is the dead letter that a decision is about, with the ids that are in its evidence.
type DeadLetter struct {
	deadletters.DeadLetter

	JobID   int64  // of a discarded job; or 0
	EventID string // of a stored webhook; or ""
	Record  []byte // a record of the PSP's ledger, as JSON for gateway.ParseRecord; or nil
	// PSPID is the PSP's id of the dead letter's own movement, if the evidence has one and it is not a decline; or "".
	// ByMark says that the PSP names the movement's key or reference with it.
	PSPID  string
	ByMark bool
	// Executed is the PSP's id of a movement that was executed, and that the PSP names by our own reference in the
	// evidence; or "". The key may be another one, so a lookup may not find it.
	Executed string
}
