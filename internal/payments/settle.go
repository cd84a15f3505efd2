package payments

import (
	"context"
	"fmt"
	"time"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// Finding is what evidence came to: one of Settled, Confirmed, Lettered, LeftAlone.
//
//sumtype:decl
type Finding interface{ finding() }

// Settled: the evidence has completed the key, with the very response that the live request would have been answered.
type Settled struct {
	Resource Resource
	Response idempotency.Response
	Expires  time.Time
}

// Confirmed: it is known already, or says nothing that moves anything.
type Confirmed struct{}

// Lettered: it contradicts what we know. Nothing has moved, and an operator has the case: New the first time that it is seen.
type Lettered struct {
	Kind deadletters.Kind
	New  bool
}

// LeftAlone: somebody else is at work on the key, who will come to know it.
type LeftAlone struct{}

func (Settled) finding()   {}
func (Confirmed) finding() {}
func (Lettered) finding()  {}
func (LeftAlone) finding() {}

// Settle brings a record to the payment or refund that it is about. It may come late, early, twice or in any order: a verdict that is known does not
// move, and what contradicts it becomes a dead letter.
func (s *Service) Settle(ctx context.Context, e Record) (Finding, error) {
	g, err := s.gatherFor(ctx, e.Record)
	if err != nil {
		return nil, err
	}
	_, step, applied, err := s.settle(ctx, Patience{}, g, e)
	if err != nil {
		return nil, err
	}
	return findingOf(step, applied), nil
}

func findingOf(step Step, applied Applied) Finding {
	switch {
	case step.To == idempotency.CompletedStatus:
		return Settled{Resource: applied.Resource, Response: applied.Response, Expires: applied.Expires}
	case step.Open != nil:
		return Lettered{Kind: step.Open.Kind, New: applied.Opened}
	case step.LeftAlone:
		return LeftAlone{}
	}
	return Confirmed{}
}

// settle judges and applies until a step has passed. Where the key has moved in between, or a constraint has refused the step, it gathers again. It returns what
// the last step was judged from.
func (s *Service) settle(ctx context.Context, p Patience, g gathered, e Evidence) (gathered, Step, Applied, error) {
	for try := range maxReads {
		step := judge(p, g.seen, e)
		applied, err := s.apply(ctx, g, step, try > 0)
		if err == nil && applied.Through {
			return g, step, applied, nil
		}
		if err != nil && !judgeable(err) {
			return g, step, applied, fmt.Errorf("settle: %w", err)
		}
		if g, err = s.gatherAgain(ctx, g, err); err != nil {
			return g, step, applied, err
		}
	}
	return g, Step{}, Applied{}, &postgres.UnavailableError{Op: "settle", Err: fmt.Errorf("the key has moved %d times under our eyes", maxReads)}
}
