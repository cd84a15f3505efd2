// Package judge decides what evidence means for a key. It is pure: it reads no database, asks no PSP, has no clock, and
// draws no random number. It knows the evidence and a Seen. What it decides is a Step, which package payments writes.
package judge

import (
	"cmp"
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
type Evidence interface{ judge(Seen) Step }

// Judge decides what evidence means for a key. Each kind of evidence judges itself.
// docs/reconciliation.md shows the decisions as a table. Package gateway says what a reply or a record means for our
// request (an Outcome); Judge says what follows for the key (a Step).
func Judge(s Seen, e Evidence) Step { return e.judge(s) }

// Step is what Judge has decided, and what is written: all of it or nothing. If the step moves the key, it is written
// only if the key is still as it was read. The zero Step changes nothing.
type Step struct {
	// To is the key's new status; "" if the key does not move.
	To idempotency.Status
	// Verdict is written to the row of the payment or refund if the key becomes completed or failed_retryable. If it
	// becomes completed, the response tells the verdict.
	Verdict payment.Verdict
	// ByOwner: the request itself takes the step, under its own lease.
	ByOwner bool
	// Proof is why an unknown key is released.
	Proof idempotency.Proof
	// Named is the PSP's id of a payment for which an operator has vouched without knowing that id.
	Named string
	// Note is the line in the key's timeline. The two steps of the normal case have none, because the key's row tells
	// them: it is zero then.
	Note idempotency.Note
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

// foundRecord is a case about a record of the PSP. Two records that contradict the same result are two cases. If the
// evidence has no id, it is a case about the key. A record of another account is about no key of this tenant's.
func (s Seen) foundRecord(kind deadletters.Kind, rep report, reason string) *Case {
	if rep.id == "" {
		return s.byKey(kind, reason, rep.kept())
	}
	finding := RecordFinding(cmp.Or(rep.account, s.Account), rep.id)
	aboutKey := s.named() && kind != deadletters.OtherAccount
	// A PSP may count its charges and its refunds apart, and give the same id to one of each.
	if rep.object == gateway.RefundObject || s.Own.Ref.Operation == payment.RefundOperation {
		finding = "refund " + finding
	}
	if aboutKey && !s.Known() { // It holds the key, and the statement's case of the same record does not.
		finding += " key " + s.Own.PassThroughKey()
	}
	return &Case{Kind: kind, Finding: finding, AboutKey: aboutKey, Reason: reason, Evidence: rep.kept()}
}

// maxDeadLetterReason is the limit of the column, in characters.
const maxDeadLetterReason = 500

// Clip cuts a reason to its column.
func Clip(s string) string {
	if r := []rune(s); len(r) > maxDeadLetterReason {
		return string(r[:maxDeadLetterReason])
	}
	return s
}

// Guarded reports whether the step passes only if the key is still as it was read.
func (s Step) Guarded() bool { return s.To != "" || s.AskAgain != nil }

// WritesNothing reports whether the step changes nothing.
func (s Step) WritesNothing() bool {
	return !s.Guarded() && s.Note.Actor == "" && s.Named == "" && s.Open == nil && s.Outside == nil && s.Answer == nil
}

// Label is the step in a trace.
func (s Step) Label() string {
	switch {
	case s.To != "":
		return string(s.To)
	case s.Open != nil:
		return "dead_letter"
	case s.Answer != nil:
		return "answered"
	case s.AskAgain != nil:
		return "ask_again"
	}
	return "confirmed"
}

// RecordFinding names a charge of the PSP's ledger. The name of a refund has the word refund before it.
func RecordFinding(account, id string) string { return "record " + account + " " + id }
