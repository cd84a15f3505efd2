// Package judge decides what evidence means for a key. It is pure: it reads no database, asks no PSP, has no clock, and
// draws no random number. It knows the evidence and a Seen. What it decides is a Step, which package payments writes.
package judge

import (
	"time"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/problem"
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
// only if the key is still as it was read. The zero Step changes nothing. Only this package makes another one.
type Step struct {
	to                    idempotency.Status
	verdict               payment.Verdict
	proof                 idempotency.Proof
	note                  idempotency.Note
	named                 string
	askAgain              *Wait
	open, answer          *Case
	elsewhere             *gateway.Record
	overrules             bool
	reversal              *payment.Verdict
	refuse                *Refusal
	again                 *Again
	forget                string
	byOwner, foreign, ask bool
	leftAlone             bool // somebody else is working on the key and will find out the same
	cancels               bool // for a preview: the decision has the PSP cancel the request first
}

// To is the key's new status; "" if the key does not move.
func (s Step) To() idempotency.Status { return s.to }

// Verdict is written to the row of the payment or refund if the key becomes completed or failed_retryable. If it
// becomes completed, the response tells the verdict.
func (s Step) Verdict() payment.Verdict { return s.verdict }

// ByOwner reports whether the request itself takes the step, under its own lease.
func (s Step) ByOwner() bool { return s.byOwner }

// Proof is why an unknown key is released.
func (s Step) Proof() idempotency.Proof { return s.proof }

// Named is the PSP's id of a payment for which an operator has vouched without knowing that id.
func (s Step) Named() string { return s.named }

// Note is the line in the key's timeline. The two steps of the normal case have none, because the key's row tells them:
// it is zero then.
func (s Step) Note() idempotency.Note { return s.note }

// AskAgain is when the PSP is asked next.
func (s Step) AskAgain() *Wait { return s.askAgain }

// Open is the dead letter that the step opens.
func (s Step) Open() *Case { return s.open }

// Answer is the dead letter that the evidence closes, if it is open. Its reason is that of the resolution.
func (s Step) Answer() *Case { return s.answer }

// Elsewhere is a record of what others have done to the payment. It is stored, and bounds the payment's refunds.
func (s Step) Elsewhere() *gateway.Record { return s.elsewhere }

// Overrules reports whether Elsewhere is true, whatever the PSP has told before: an operator has found out.
func (s Step) Overrules() bool { return s.overrules }

// Reversal is written to the row of a refund that has succeeded, and whose money has come back.
func (s Step) Reversal() *payment.Verdict { return s.reversal }

// Foreign reports whether the record is about a charge of another program.
func (s Step) Foreign() bool { return s.foreign }

// Wait is the time until the next lookup.
type Wait struct {
	After    time.Duration
	Failures int32 // lookups in a row without an answer, from now on
}

// Guarded reports whether the step passes only if the key is still as it was read.
func (s Step) Guarded() bool { return s.to != "" || s.askAgain != nil }

// WritesNothing reports whether the step changes nothing.
func (s Step) WritesNothing() bool {
	return !s.Guarded() && s.note.Actor == "" && s.named == "" && s.open == nil && s.elsewhere == nil &&
		s.reversal == nil && s.answer == nil
}

// Label is the step in a trace.
func (s Step) Label() string {
	switch {
	case s.to != "":
		return string(s.to)
	case s.open != nil:
		return "dead_letter"
	case s.answer != nil:
		return "answered"
	case s.askAgain != nil:
		return "ask_again"
	case s.leftAlone:
		return "left_alone"
	}
	return "confirmed"
}

// Refusal says why a decision is not carried out. Nothing was changed then. It is an error, so that the transaction of
// the decision is rolled back.
type Refusal struct {
	Ground problem.Code `json:"code"` // the problem that the operator's API answers
	Detail string       `json:"detail"`
}

func (r *Refusal) Error() string { return r.Detail }

// Again names what a retry must do again if it is not a lookup of the key. One of the three is set.
type Again struct {
	EventID string
	JobID   int64
	Record  []byte
}
