package payments

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Applied is what came of a step.
type Applied struct {
	// Passed says whether the step is written. It is not written if the key has moved since it was read, or if somebody
	// has opened a dead letter that forbids the step.
	idempotency.GuardResult

	// Response is that of a key that the step has completed.
	Response idempotency.Response
	// Opened: the step's dead letter is new.
	Opened bool
	// Doubt: the acknowledgement was lost. The step may be written or not; reading the key again tells.
	Doubt bool
}

// errStepInDoubt says that the database does not tell whether an owner's step is written.
var errStepInDoubt = errors.New("step not known to be written")

// unguardedCalls are the calls of a step that does not move the key. They need no guard.
func (s *Service) unguardedCalls(g Gathered, step judge.Step) (calls []postgres.Call) {
	if step.Note().Actor != "" {
		calls = append(calls, s.keys.Note(g.Seen.Own, step.Note()))
	}
	// What others do to a payment without an outcome locks its key, too. So an owner who completes the key waits for
	// that before the statement that writes the outcome begins, and the outcome is told after it.
	beforeOutcome := step.Elsewhere() != nil &&
		(g.Seen.Row.Status == payment.Processing || g.Seen.Row.Status == payment.Failed)
	if step.Open() != nil && step.Open().AboutKey || step.Answer() != nil && step.Answer().AboutKey || beforeOutcome {
		calls = append(calls, s.keys.LockKey(g.Seen.Own.Ref, g.Seen.Own.Generation))
	}
	if step.Named() != "" { // Its id may be that of a refund which seemed to be of others.
		calls = append(calls, tallied(dbsqlc.LockPaymentParams{TenantID: g.movement.merchant.Tenant,
			ID: uuid.UUID(g.movement.payment.ID)}, nameMovement(g.movement, step.Named()))...)
	}
	if step.Elsewhere() != nil { // after the key, as each step locks
		calls = append(calls, elsewhereCalls(s.newID, g.movement, step)...)
	}
	if step.Reversal() != nil {
		calls = append(calls, reversalCalls(g.movement, *step.Reversal())...)
	}
	if step.Answer() != nil {
		calls = append(calls, answerCalls(g.Seen, *step.Answer())...)
	}
	return calls
}

// nameMovement is the call that writes the PSP's id to the row of a movement if the row has an id with the prefix
// OperatorPSPID.
func nameMovement(m *movement, pspID string) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).NameMovement(ctx, dbsqlc.NameMovementParams{PspID: pspID, Object: string(m.object),
			TenantID: m.merchant.Tenant, ID: m.subject()})
	}
}

// answerCalls close a dead letter whose question the evidence has answered, and set the key's hold to that of the dead
// letters that are still open.
func answerCalls(s judge.Seen, c judge.Case) []postgres.Call {
	calls := []postgres.Call{deadletters.Answer(c.Kind, c.Finding, string(c.Source), c.Reason)}
	if c.AboutKey {
		calls = append(calls, deadletters.Rehold(s.About(), &s.Own.Subject)...)
	}
	return calls
}

// judgeable reports whether err is a constraint's refusal of a step, and judge can take the reason into account.
func judgeable(err error) bool {
	return BelongsToAnother(err) || shareGone(err)
}

// BelongsToAnother reports whether a verdict was refused because another payment or refund of ours has the same PSP id.
func BelongsToAnother(err error) bool {
	return postgres.Violates(err, "payments_psp_charge_unique") || postgres.Violates(err, "refunds_psp_refund_unique")
}

// shareGone reports whether a refund was refused because other refunds have reserved its share of the payment.
func shareGone(err error) bool { return postgres.Violates(err, "payments_refunds_within_amount") }

// deadLetter makes the dead letter that a step opens. A dead letter about a key also holds the amount and currency that
// the client asked for, so that an operator can compare the evidence with them.
func (s *Service) deadLetter(g Gathered, step judge.Step) (*deadletters.DeadLetter, error) {
	id, err := s.newID()
	if err != nil {
		return nil, fmt.Errorf("make dead letter id: %w", err)
	}
	c := *step.Open()
	l := &deadletters.DeadLetter{
		ID: id, Kind: c.Kind, Finding: c.Finding, Reason: deadletters.Clip(c.Reason), Evidence: c.Evidence,
		BehindStep: step.Guarded(),
	}
	if !c.AboutKey {
		return l, nil
	}
	about, subject := g.Seen.About(), g.Seen.Own.Subject
	l.About = &about
	if !g.Seen.Known() {
		return l, nil // The PSP has moved money under this key, and nothing of ours asked for it.
	}
	l.Subject = &subject
	l.Evidence, err = withAsked(c.Evidence, g.movement)
	return l, err
}

// withAsked adds the amount and currency of the movement to evidence.
func withAsked(evidence []byte, m *movement) ([]byte, error) {
	kept := map[string]jsontext.Value{}
	if len(evidence) > 0 {
		if err := json.Unmarshal(evidence, &kept); err != nil {
			return nil, fmt.Errorf("read evidence: %w", err)
		}
	}
	amount, currency := m.terms()
	raw, err := json.Marshal(struct {
		AmountCents payment.AmountMinor `json:"amountCents"`
		Currency    payment.Currency    `json:"currency"`
	}{amount, currency})
	if err != nil {
		return nil, fmt.Errorf("marshal what was asked: %w", err)
	}
	kept["asked"] = raw
	whole, err := json.Marshal(kept, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("marshal evidence: %w", err)
	}
	return whole, nil
}
