// Package deadletters owns the cases that only an operator can close, or evidence that comes after all. A dead letter
// holds what is known of the case, and is open until then. The code that finds such a case opens the dead letter in the
// transaction that records the finding, so neither exists without the other.
//
// This package knows the names of keys and subjects, and not what they stand for. Package payments carries out what a
// resolution does to them. What must always hold:
//
//   - A dead letter changes once, by its resolution, under the version that the operator has seen. If two operators
//     decide, one wins.
//   - A resolution and its audit row are one statement. A refused decision is audited as well.
//   - The key's own row has what the open dead letters about the key forbid (dead_letter_hold). It changes in the same
//     transaction as the dead letters. So a statement that moves a key reads no other table.
//   - Dead letters and audit rows are never deleted or rewritten. Triggers on both tables prevent it.
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

// The kinds of dead letters.
const (
	// PSPContradicts: the PSP's answer or record contradicts the request.
	PSPContradicts Kind = "psp_contradicts_request"
	// ContradictsCompleted: evidence contradicts the result that a client has got.
	ContradictsCompleted Kind = "contradicts_completed"
	// DuplicateMovement: the PSP has moved money twice for one payment or refund of ours.
	DuplicateMovement Kind = "duplicate_movement"
	// LookupsExhausted: the PSP did not answer many lookups of a key in a row.
	LookupsExhausted Kind = "lookups_exhausted"
	// PSPMemoryOver: the PSP finds nothing, but may have forgotten the key.
	PSPMemoryOver Kind = "psp_memory_over"
	// UnknownMovement: the PSP has moved money for which we have no request.
	UnknownMovement Kind = "unknown_movement"
	// UnreadableRecord: the PSP's list has a record that cannot be read.
	UnreadableRecord Kind = "unreadable_record"
	// ScanFailing: the scan of an account's list fails again and again, so the records after that place are not known.
	ScanFailing Kind = "scan_failing"
	// OtherAccount: the PSP has a payment of ours under another tenant's account.
	OtherAccount Kind = "other_account"
	// LateAfterExpiry: a movement was found after its key had expired as not executed.
	LateAfterExpiry Kind = "late_after_expiry"
	// RefundExceeds: a refund was found whose share of the payment other refunds have reserved.
	RefundExceeds Kind = "refund_exceeds_payment"
	// MovedOutside: the PSP's records about a refund that others have made, or about a dispute, contradict each other
	// or the payment.
	MovedOutside Kind = "moved_outside"
	// WebhookUnmatched: a genuine webhook that we cannot understand.
	WebhookUnmatched Kind = "webhook_unmatched"
	// MissingAtPSP: a payment of ours has succeeded, and the PSP's statement does not have it.
	MissingAtPSP Kind = "missing_at_psp"
	// JobDiscarded: a job has failed for the last time. A trigger of the database opens these dead letters
	// (discarded_jobs_become_dead_letters).
	JobDiscarded Kind = "job_discarded"
)

// About is the key that a dead letter is about.
type About struct {
	Tenant     string
	Operation  string
	Key        string
	Generation int32
}

// DeadLetter is one case.
type DeadLetter struct {
	ID      uuid.UUID
	Kind    Kind
	Finding string     // the name of what was found; the same finding is the same dead letter
	About   *About     // nil if the dead letter is about no key; the key need not have a row
	Subject *uuid.UUID // the payment or refund that it is about, if there is one
	Reason  string
	// Evidence is JSON.
	Evidence []byte
	// BehindStep says that the dead letter belongs to a step of its key. The step is sent before the dead letter, in
	// the same transaction and without a savepoint in between. The dead letter is opened only if the step has passed.
	// BehindStep is not stored.
	BehindStep bool

	// The following fields are set when a dead letter is read. They are ignored when it is opened.
	Opened     time.Time
	Age        time.Duration // since Opened, by the database's clock
	Version    int32
	Resolution *Resolution // nil while the dead letter is open
}

// KeyFinding is the name of a finding about a key, while the key stands for a subject.
func (a About) KeyFinding(subject uuid.UUID) string {
	return fmt.Sprintf("key %s %s %s %d %s", a.Tenant, a.Operation, a.Key, a.Generation, subject)
}

// Open is the call that opens the dead letter, and writes its hold to the key's row. It does nothing if a dead letter
// of the same finding is open, or if an operator has decided about the finding. A retry is not such a decision, and
// neither is a decision about an earlier attempt while the key is unknown again. For a dead letter about a key, an
// earlier call of the same transaction must lock the key's row: a step of the key, or idempotency.Keys.LockKey.
func Open(l DeadLetter) postgres.Call { return OpenNew(l, new(bool)) }

// OpenNew is Open, and says whether it has opened the dead letter.
func OpenNew(l DeadLetter, opened *bool) postgres.Call {
	p := dbsqlc.OpenDeadLetterParams{
		ID: l.ID, Kind: string(l.Kind), Finding: l.Finding, Subject: l.Subject, Reason: l.Reason, Evidence: l.Evidence,
		BehindStep: l.BehindStep,
	}
	if a := l.About; a != nil {
		p.TenantID, p.Operation, p.Key, p.Generation = &a.Tenant, &a.Operation, &a.Key, &a.Generation
	}
	return func(ctx context.Context, q postgres.Statement) error {
		deadLetters, err := dbsqlc.New(q).OpenDeadLetter(ctx, p)
		*opened = deadLetters > 0
		return err
	}
}
