// Package deadletters owns the cases that only an operator can close. A letter holds the evidence and stays open until
// somebody resolves it. Whoever finds such a case queues the letter on the transaction that records the finding, so
// that neither can exist without the other.
//
// It knows keys and subjects by their names and nothing of what they stand for: what a resolution does to them is package
// operator's. What must always hold:
//
//   - A letter changes once, by its resolution, under the version that the operator has seen. Of two operators one wins.
//   - A resolution and its audit row are one statement. What was refused is audited as well.
//   - What the open letters about a key forbid stands in the key's own row (dead_letter_hold), and changes with them in one transaction: what moves keys
//     looks at no other table.
//   - Neither letters nor audit rows are ever deleted or rewritten; triggers on both tables see to it.
package deadletters

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"payonce/internal/deadletters/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Kind says what was found.
type Kind string

// The kinds of letters.
const (
	// PSPContradicts: the PSP answered a request with something that was not asked for.
	PSPContradicts Kind = "psp_contradicts_request"
	// ContradictsCompleted: evidence says something else than the result that a client has been told.
	ContradictsCompleted Kind = "contradicts_completed"
	// DuplicateMovement: the PSP has moved money twice for one payment or refund of ours.
	DuplicateMovement Kind = "duplicate_movement"
	// LookupsExhausted: the PSP does not say what became of a key.
	LookupsExhausted Kind = "lookups_exhausted"
	// PSPMemoryOver: the PSP finds nothing, but may have forgotten the key.
	PSPMemoryOver Kind = "psp_memory_over"
	// UnknownMovement: the PSP has moved money that nothing of ours asked for.
	UnknownMovement Kind = "unknown_movement"
	// UnreadableRecord: the PSP lists a record that cannot be read, so that nobody knows what it says.
	UnreadableRecord Kind = "unreadable_record"
	// ScanFailing: the PSP's list of an account cannot be read on, so that nobody knows what lies behind.
	ScanFailing Kind = "scan_failing"
	// OtherAccount: the PSP names a payment of ours under another tenant's account.
	OtherAccount Kind = "other_account"
	// LateAfterExpiry: a movement came to light when its key had expired unexecuted.
	LateAfterExpiry Kind = "late_after_expiry"
	// RefundExceeds: a refund came to light whose share of the payment another one has claimed.
	RefundExceeds Kind = "refund_exceeds_payment"
	// WebhookUnmatched: a genuine webhook that speaks of nothing we know.
	WebhookUnmatched Kind = "webhook_unmatched"
	// MissingAtPSP: a payment of ours succeeded, and the PSP's statement does not have it.
	MissingAtPSP Kind = "missing_at_psp"
	// JobDiscarded: a job failed for good. The database opens these letters itself (discarded_jobs_become_letters).
	JobDiscarded Kind = "job_discarded"
)

// About is the key that a letter concerns, by its names.
type About struct {
	Tenant     string
	Operation  string
	Key        string
	Generation int32
}

// Letter is one case.
type Letter struct {
	ID      uuid.UUID
	Kind    Kind
	Finding string     // what was found, by name: one finding is one letter
	About   *About     // nil for what belongs to no key
	Subject *uuid.UUID // the payment or refund in question, if there is one
	Reason  string
	// Evidence is JSON.
	Evidence []byte
	// BehindStep: the letter goes with a step of its key, queued before it for the same transaction, and is opened only where the step has passed. It is not
	// stored. Between the two there is no savepoint.
	BehindStep bool

	// What follows is read, and never written by who opens a letter.
	Opened     time.Time
	Age        time.Duration // since then, by the database's clock
	Version    int32
	Resolution *Resolution // nil while the letter is open
}

// KeyFinding names a finding about a key, while it stands for a subject.
func (a About) KeyFinding(subject uuid.UUID) string {
	return fmt.Sprintf("key %s %s %s %d %s", a.Tenant, a.Operation, a.Key, a.Generation, subject)
}

// Concerns reports whether the letter is about this life of its key: the generation, and the subject if the letter names one. What was found
// about an earlier payment says nothing about the one that has the key now.
func (l Letter) Concerns(generation int32, subject uuid.UUID) bool {
	return l.About != nil && l.About.Generation == generation && (l.Subject == nil || *l.Subject == subject)
}

// Open is the call that opens the letter, and holds its key. The same finding, while a letter of it is open or judged, adds nothing. A letter about a key
// comes behind a call of the same transaction that locks the key's row: a step of the key, or idempotency.Keys.Hold.
func Open(l Letter) postgres.Call { return OpenNew(l, new(bool)) }

// OpenNew is Open, and tells whether the finding is a new one.
func OpenNew(l Letter, opened *bool) postgres.Call {
	p := params(l)
	return func(ctx context.Context, q postgres.Statement) error {
		letters, err := dbsqlc.New(q).OpenDeadLetter(ctx, p)
		*opened = letters > 0
		return err
	}
}

func params(l Letter) dbsqlc.OpenDeadLetterParams {
	p := dbsqlc.OpenDeadLetterParams{
		ID: l.ID, Kind: string(l.Kind), Finding: l.Finding, Subject: l.Subject, Reason: l.Reason, Evidence: l.Evidence,
		BehindStep: l.BehindStep,
	}
	if a := l.About; a != nil {
		p.TenantID, p.Operation, p.Key, p.Generation = &a.Tenant, &a.Operation, &a.Key, &a.Generation
	}
	return p
}
