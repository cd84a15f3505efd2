package payments

import (
	"context"
	"log/slog"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// fenced is where an owner ends whose key has changed hands. A success is evidence all the same: if the key is
// unknown, it completes it. Everything else is left to those who took over.
func (s *Service) fenced(ctx context.Context, l idempotency.Lease, m movement, o gateway.Outcome) (Answer, error) {
	s.metrics.Fenced()
	if ok, isSuccess := o.(gateway.Succeeded); isSuccess {
		late, err := s.planVerdict(l, m, verdict{status: Success, pspID: ok.ID}, s.keys.QueueCompleteLost)
		if err != nil {
			return nil, err
		}
		won, err := s.commitPlan(ctx, l, m, o, late)
		switch {
		case won:
			return late.answer, nil
		case belongsToAnother(err):
			return s.settle(ctx, l, m, namedTwice(o)) // no success any more, so it does not come back here
		}
	}
	s.log.WarnContext(ctx, "lease lost", slog.String("outcome", o.Label()), slog.Int("attempt", int(l.Attempt())))
	return s.standing(ctx, l, m, o)
}

// standing answers from what the key has become without us.
func (s *Service) standing(ctx context.Context, l idempotency.Lease, m movement, o gateway.Outcome) (Answer, error) {
	row, err := s.keys.Find(ctx, l.Ref())
	switch {
	case err != nil:
		s.metrics.StoreFailed("find")
		return Pending{Resource: m.resource(), Expires: l.Expires()}, nil //nolint:nilerr // what cannot be read is unknown
	case row.Generation != l.Generation():
		return nil, idempotency.ErrLeaseLost
	case row.Status == idempotency.CompletedStatus:
		return Final{Response: *row.Response, Replayed: true, Expires: row.Expires}, nil
	case row.Status == idempotency.FailedRetryableStatus && o.Label() == gateway.NotExecuted{}.Label():
		return NotExecuted{Resource: m.resource(), Expires: row.Expires}, nil
	}
	return Pending{Resource: m.resource(), Expires: row.Expires}, nil
}

// recall asks, after a lost acknowledgement, whether the second transaction has happened: settled is false when it has
// not, or not yet, or the database does not say.
func (s *Service) recall(ctx context.Context, l idempotency.Lease, p plan) (answer Answer, settled bool) {
	row, err := s.keys.Find(ctx, l.Ref())
	if err != nil || row.LeaseID != l.ID() || row.Status != p.to {
		return nil, false
	}
	if p.to == idempotency.CompletedStatus {
		// Not ours: with the same verdict, another version of this program may have written other bytes.
		return Final{Response: *row.Response, Expires: row.Expires}, true
	}
	return p.answer, true
}
