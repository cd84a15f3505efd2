package payments

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// plan is a second transaction of the owner, ready to be sent, and sent again: the fence makes the repetition harmless.
type plan struct {
	to     idempotency.Status
	queue  func(b *pgx.Batch, won *bool, rows *int64)
	answer Answer
}

// plan decides what an outcome does to the key and to the row.
func (s *Service) plan(l idempotency.Lease, m movement, o gateway.Outcome) (plan, error) {
	switch o := o.(type) {
	case gateway.Succeeded, gateway.Declined:
		v, _ := verdictOf(o)
		_, response, err := m.conclude(v)
		if err != nil {
			return plan{}, fmt.Errorf("build response: %w", err)
		}
		return plan{
			to: idempotency.CompletedStatus,
			queue: func(b *pgx.Batch, won *bool, rows *int64) {
				s.keys.QueueComplete(b, l, response, won)
				m.queueSettle(b, l.Execution(), v, idempotency.CompletedStatus, rows)
			},
			answer: Final{Response: response, Expires: l.Expires()},
		}, nil
	case gateway.NotExecuted:
		return plan{
			to: idempotency.FailedRetryableStatus,
			queue: func(b *pgx.Batch, won *bool, rows *int64) {
				s.keys.QueueRelease(b, l, o.Reason, won)
				m.queueSettle(b, l.Execution(), verdict{status: Failed}, idempotency.FailedRetryableStatus, rows)
			},
			answer: NotExecuted{Resource: m.resource(), Expires: l.Expires()},
		}, nil
	case gateway.Indeterminate:
		letter, err := s.letter(l, m, o)
		if err != nil {
			return plan{}, err
		}
		return plan{
			to: idempotency.UnknownStatus,
			queue: func(b *pgx.Batch, won *bool, _ *int64) {
				s.keys.QueueLose(b, l, o.Reason, forTimeline(o), won)
				if o.Contradiction {
					// Queued whoever wins: an operator must see it even if the key has changed hands.
					deadletters.QueueOpen(b, letter)
				}
			},
			answer: pendingFor(m, l.Expires()),
		}, nil
	}
	return plan{}, fmt.Errorf("outcome %T is not known", o)
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

// letter is the dead letter of an answer that contradicts its request.
func (s *Service) letter(l idempotency.Lease, m movement, o gateway.Indeterminate) (deadletters.Letter, error) {
	if !o.Contradiction {
		return deadletters.Letter{}, nil
	}
	letter, err := s.keyLetter(deadletters.PSPContradicts, l.Execution(), m, o.Reason, o.Evidence)
	if err == nil && o.ID != "" {
		letter.Finding = contradictionFinding(letter, o.ID)
	}
	return letter, err
}

// BelongsToAnother reports whether a verdict was refused for its id, which another payment or refund of ours has.
func BelongsToAnother(err error) bool {
	return postgres.Violates(err, "payments_psp_charge_unique") || postgres.Violates(err, "refunds_psp_refund_unique")
}

// underAnothersID is what evidence says whose id belongs to another payment or refund of ours. A decline moves no money, so it counts without its id:
// otherwise its key would never have an end.
func underAnothersID(o gateway.Outcome) gateway.Outcome {
	if d, declined := o.(gateway.Declined); declined {
		return gateway.Declined{Code: d.Code}
	}
	return namedTwice(o)
}

// namedTwice is a verdict under an id that already belongs to another payment or refund of ours.
func namedTwice(o gateway.Outcome) gateway.Outcome {
	v, _ := verdictOf(o)
	evidence := evidenceOf(testimony{source: SourceOwner, evidence: inHand(v)})
	return gateway.Indeterminate{
		Reason: "answer names what the PSP did for another request", Contradiction: true, ID: v.pspID, Evidence: evidence,
	}
}
