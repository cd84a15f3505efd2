package payments

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// Seen is all that judge may know of a key and of the movement that the evidence is about, as of one moment of the database. A Seen is a value: a
// caller that learns more makes a new one.
type Seen struct {
	// Status is of the key's row: "" where there is no row.
	Status idempotency.Status
	// Key is the execution that the key's row belongs to now.
	Key idempotency.Execution
	// Own is the execution that the movement belongs to. Its Subject is zero for evidence about no movement of ours.
	Own    idempotency.Execution
	Tenant string
	// Account is the tenant's account at the PSP.
	Account string
	// Asked is what was asked of the PSP: it reads a record as the verdict on that.
	Asked Asked
	// Row is what the movement's own row says.
	Row verdict

	// GraceLeft is the rest of the grace period. "Not found" is proof when it is not positive.
	GraceLeft time.Duration
	// MemoryOver: the PSP may have forgotten the key.
	MemoryOver bool
	// Failures is how many lookups in a row have had no answer.
	Failures int32
	// Held: an open dead letter about this execution keeps the key from its release.
	Held bool
	// OtherHeld names an open dead letter that holds the key beside the one that a decision is about; "" if there is none.
	OtherHeld string
	// Charged: an open dead letter about this execution holds a record by which money moved.
	Charged bool

	// IDTaken: the step that was judged from this very Seen was refused, since the PSP's id belongs to another row of ours.
	IDTaken bool
	// ShareGone: it was refused, since other refunds hold this one's share of the payment.
	ShareGone bool

	// Woken: somebody has asked for the key's next lookup while this one was under way.
	Woken bool

	// Letter is what a decision is about.
	Letter *LetterSeen
}

// Asked is what was asked of the PSP under a key: a gateway.Charge or a gateway.Refund.
type Asked interface {
	Judge(r gateway.Record) gateway.Outcome
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

// known reports whether the evidence is about a movement of ours.
func (s Seen) known() bool { return s.Own.Subject != uuid.UUID{} }

// ours reports whether the key's row still stands for the movement. An expired key stands for nothing.
func (s Seen) ours() bool {
	return s.Status != "" && s.Status != idempotency.ExpiredStatus &&
		s.Key.Generation == s.Own.Generation && s.Key.Subject == s.Own.Subject
}

// inHand reports whether the key still waits for this very attempt.
func (s Seen) inHand(e Reply) bool {
	return s.ours() && s.Status == idempotency.InProgressStatus && s.Key.Attempt == e.Attempt
}

// open reports whether the key is ours, and has no final response yet.
func (s Seen) open() bool { return s.ours() && s.Status != idempotency.CompletedStatus }

// atWork reports whether the key has an owner, or is being looked up within the grace period.
func (s Seen) atWork() bool {
	return s.ours() && (s.Status == idempotency.InProgressStatus || s.Status == idempotency.UnknownStatus && s.GraceLeft > 0)
}

// after is what apply leaves of s once the step is written.
func (s Seen) after(step Step) Seen {
	s.IDTaken, s.ShareGone = false, false
	if step.To != "" {
		s.Status = step.To
		s.Failures = 0
	}
	switch step.To {
	case idempotency.CompletedStatus, idempotency.FailedRetryableStatus:
		s.Row = step.Verdict
	case idempotency.InProgressStatus, idempotency.UnknownStatus, idempotency.ExpiredStatus:
	}
	if step.Named != "" {
		s.Row.pspID = step.Named
	}
	if step.AskAgain != nil {
		s.Failures = step.AskAgain.Failures
	}
	if c := step.Open; c != nil && c.AboutKey && s.stands() {
		s.Held = true
		s.Charged = s.Charged || saysCharged(c.Evidence)
	}
	return s
}

// saysCharged reports whether the evidence of a dead letter holds a record, or an answer of the PSP, by which money moved. The column hold
// of dead_letters says the same of the table's rows.
func saysCharged(evidence []byte) bool { return tells(evidence, "succeeded") }

// tells reports whether the record in evidence, or the PSP's answer, has a status.
func tells(evidence []byte, status string) bool {
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

// report is an outcome with what has to be kept of it.
type report struct {
	source  Source
	outcome gateway.Outcome
	id      string // of the PSP's record; "" if it has none
	moved   bool   // money has moved, or may have
	record  []byte // JSON, for the timeline and for a dead letter; or nil
	whole   []byte // JSON, for a dead letter, in the place of record
}

// kept is the evidence as a dead letter keeps it.
func (t report) kept() []byte {
	if t.whole != nil {
		return t.whole
	}
	return evidenceOf(t.source, t.record)
}

// evidenceOf is a record, and who has brought it, as a dead letter keeps them.
func evidenceOf(source Source, record []byte) []byte {
	kept := struct {
		Source Source         `json:"source"`
		Record jsontext.Value `json:"record,omitzero"`
	}{source, record}
	raw, err := json.Marshal(kept)
	if err != nil {
		return []byte(`{}`)
	}
	return raw
}

// inHand is the owner's verdict as evidence, in the words of the PSP's records.
func inHand(v verdict) []byte {
	raw, err := json.Marshal(struct {
		ID     string `json:"id"`
		Status Status `json:"status"`
	}{v.pspID, v.status})
	if err != nil {
		return nil // never of an id that passed for one
	}
	return raw
}

// namedTwice is a verdict under an id that already belongs to another payment or refund of ours.
func namedTwice(o gateway.Outcome) gateway.Indeterminate {
	v, _ := verdictOf(o)
	return gateway.Indeterminate{
		Reason: "answer names what the PSP did for another request", Contradiction: true, ID: v.pspID,
		Evidence: evidenceOf(SourceOwner, inHand(v)),
	}
}

// declinedThoughCharged is a decline while an open dead letter of the key says that money moved.
func declinedThoughCharged(o gateway.Declined) gateway.Indeterminate {
	return gateway.Indeterminate{
		Reason: "the PSP says declined, and an open dead letter of the key says that money moved", Contradiction: true, ID: o.ID,
		Evidence: evidenceOf(SourceOwner, inHand(verdict{status: Refused, pspID: o.ID})),
	}
}

// forTimeline is the evidence that the tenant may read. What contradicts the request may be about somebody else: it goes to the
// dead letter alone.
func forTimeline(o gateway.Indeterminate) []byte {
	if o.Contradiction {
		return nil
	}
	// The status alone: what a PSP writes into its refusals is not meant for our tenants.
	var kept struct {
		Status int `json:"status"`
	}
	if err := json.Unmarshal(o.Evidence, &kept); err != nil || kept.Status == 0 {
		return nil
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return nil
	}
	return raw
}

// confirmedBy reports whether a verdict says what is known. Where an operator has vouched for an execution without knowing the
// PSP's id of it, the first execution that comes to light will do.
func (v verdict) confirmedBy(other verdict) bool {
	return v.status == other.status && (v.pspID == other.pspID || strings.HasPrefix(v.pspID, OperatorPSPID))
}

func reasonOf(o gateway.Outcome) string {
	if i, ok := o.(gateway.Indeterminate); ok {
		return i.Reason
	}
	return "it says " + o.Label()
}

func lookupNote(reason string) *idempotency.Note {
	return &idempotency.Note{Actor: string(SourceLookup), Reason: clip(reason)}
}

func exhausted(failures int32, reason string) string {
	return fmt.Sprintf("the PSP did not answer %d lookups in a row, at last: %s", failures, reason)
}

// about names the key of the movement as a dead letter does.
func (s Seen) about() deadletters.About {
	return deadletters.About{
		Tenant: s.Tenant, Operation: string(s.Own.Ref.Operation), Key: s.Own.Ref.Key.String(), Generation: s.Own.Generation,
	}
}

// byKey is a finding about the key: one dead letter for each kind.
func (s Seen) byKey(kind deadletters.Kind, reason string, evidence []byte) *Case {
	return &Case{Kind: kind, Finding: s.about().KeyFinding(s.Own.Subject), AboutKey: true, Reason: reason, Evidence: evidence}
}

// contradiction is a finding about the key and the PSP's record. A second record that contradicts the same request is another case. So is the same
// record under another key: each key needs a dead letter of its own, which holds it.
func (s Seen) contradiction(id, reason string, evidence []byte) *Case {
	c := s.byKey(deadletters.PSPContradicts, reason, evidence)
	if id != "" {
		c.Finding += " record " + id
	}
	return c
}

// foundRecord is a finding about a record of the PSP's: two records that contradict one result are two cases.
func (s Seen) foundRecord(kind deadletters.Kind, account string, t report, reason string, aboutKey bool) *Case {
	if t.id == "" {
		return s.byKey(kind, reason, t.kept())
	}
	return &Case{Kind: kind, Finding: recordFinding(account, t.id), AboutKey: aboutKey, Reason: reason, Evidence: t.kept()}
}

// recordFinding names a record of the PSP's.
func recordFinding(account, id string) string { return "record " + account + " " + id }
