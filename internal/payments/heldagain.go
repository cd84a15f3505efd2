package payments

import (
	"context"
	"fmt"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// A retry closes the dead letter, and so ends its hold. If nothing else keeps the key from being executed, the record
// must be judged in the same transaction: a job would come later, and meanwhile the client could charge again. If the
// record is still the same case, that opens it again.

// recordAgain is a dead letter's record, and what was read of the payment or refund that it is about now.
type recordAgain struct {
	gathered gathered
	evidence Record
}

// freedByRetry reports whether the step of a retry ends a hold of a key that may be executed.
func (s Seen) freedByRetry(step Step) bool {
	return step.Again != nil && step.Again.Record != nil && s.DeadLetter.AboutKey &&
		(!s.stands() || s.Status != idempotency.CompletedStatus)
}

// gatherAgainFor reads what the record of a step is about, or returns nil if its retry frees no key. No transaction is
// open. The key does not move before the retry, because the dead letter holds it.
func (s *Service) gatherAgainFor(ctx context.Context, seen Seen, step Step) (*recordAgain, error) {
	if !seen.freedByRetry(step) {
		return nil, nil
	}
	r, err := gateway.ParseRecord(step.Again.Record)
	if err != nil {
		return nil, fmt.Errorf("read the record: %w", err)
	}
	e := Record{Source: SourceOperator, Record: r}
	g, err := s.gatherFor(ctx, e)
	return &recordAgain{gathered: g, evidence: e}, err
}
