package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/judge"
	"payonce/internal/payments"
)

// Preview says whether judge would let an action pass now. The action itself may still be refused: the key may move, or
// there may be nothing left to try again.
type Preview struct {
	Action  deadletters.Action
	Refused *judge.Refusal // nil if it would be carried out
	Does    string         // what it would do; "" if it would be refused
}

// Preview tries each action on a dead letter without writing anything, and says which of them would be refused now. It
// asks the PSP as the actions themselves would, until ctx ends. It takes no lock. It fails with
// deadletters.ErrNoDeadLetter.
func (s *Service) Preview(ctx context.Context, id uuid.UUID) ([]Preview, error) {
	deadLetter, err := deadletters.Get(ctx, s.config.DB.Reader(), id)
	if err != nil {
		return nil, err
	}
	var previews []Preview
	for _, action := range []deadletters.Action{
		deadletters.Retry, deadletters.Executed, deadletters.NotExecuted, deadletters.Dismiss,
	} {
		preview, err := s.preview(ctx, deadLetter,
			judge.OperatorDecision{Action: action, Version: deadLetter.Version})
		if err != nil {
			return nil, fmt.Errorf("preview %s: %w", action, err)
		}
		previews = append(previews, preview)
	}
	return previews, nil
}

func (s *Service) preview(
	ctx context.Context, deadLetter deadletters.DeadLetter, decision judge.OperatorDecision,
) (Preview, error) {
	p := Preview{Action: decision.Action}
	decision.Preview = true
	inquiry, err := Inquire(ctx, s.config.DB, s.config.Payments, deadLetter, decision)
	if err != nil {
		return p, err
	}
	decided, err := inquiry.Judge(ctx, s.config.DB.Pipeline)
	switch {
	case errors.Is(err, payments.ErrMoved):
		p.Refused = &judge.Refusal{Ground: judge.Conflict,
			Detail: "The key is moving at this moment. Look again."}
		return p, nil
	case err != nil:
		return p, err
	}
	if p.Refused = decided.Step.Refuse(); p.Refused == nil {
		p.Does = decided.Step.Does()
	}
	return p, nil
}
