package payments

import (
	"context"
	"log/slog"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// fenced is where an owner ends whose key has changed hands. A success is evidence all the same, of the same weight as a
// webhook's: it completes the key, or confirms it, or goes to an operator. Everything else is left to those who took over.
func (s *Service) fenced(ctx context.Context, l idempotency.Lease, m movement, o gateway.Outcome) (Answer, error) {
	s.metrics.Fenced()
	open := pendingFor(m, l.Expires())
	s.log.WarnContext(ctx, "lease lost", slog.String("outcome", o.Label()), slog.Int("attempt", int(l.Attempt())))
	if ok, isSuccess := o.(gateway.Succeeded); isSuccess {
		finding, err := s.settleCase(ctx, &caseFile{movement: m, execution: l.Execution()}, nil, testimony{
			source: SourceOwner, outcome: ok, evidence: inHand(ok), record: recordFinding(m.onBehalfOf().PSPAccount, ok.ID),
		})
		if err != nil {
			s.metrics.StoreFailed("settle")
			s.log.ErrorContext(ctx, "late success not written", slog.String("resource", m.resource().Location()), slog.Any("error", err))
		}
		if settled, ok := finding.(Settled); ok {
			return s.confirmed(ctx, Final{Response: settled.Response, Expires: settled.Expires}, open), nil
		}
	}
	answer, err := s.standing(ctx, l, m, o)
	if final, ok := answer.(Final); ok && err == nil {
		return s.confirmed(ctx, final, open), nil
	}
	return answer, err
}

// confirmed is a final answer that was read, not acknowledged, if a failover cannot undo it. Whoever has heard one must never hear another.
func (s *Service) confirmed(ctx context.Context, read Final, otherwise Pending) Answer {
	if err := s.db.Confirm(ctx); err != nil {
		s.metrics.StoreFailed("settle")
		s.log.WarnContext(ctx, "outcome not confirmed", slog.String("resource", otherwise.Resource.Location()), slog.Any("error", err))
		return otherwise
	}
	return read
}

// inHand is the owner's success as evidence, in the words of the PSP's records.
func inHand(ok gateway.Succeeded) []byte {
	raw, err := json.Marshal(struct {
		ID     string `json:"id"`
		Status Status `json:"status"`
	}{ok.ID, Success})
	if err != nil {
		return nil // never of an id that passed for one
	}
	return raw
}

// standing answers from what the key has become without us.
func (s *Service) standing(ctx context.Context, l idempotency.Lease, m movement, o gateway.Outcome) (Answer, error) {
	row, err := s.keys.Find(ctx, l.Ref())
	switch {
	case err != nil:
		s.metrics.StoreFailed("find")
		return pendingFor(m, l.Expires()), nil //nolint:nilerr // what cannot be read is unknown
	case row.Generation != l.Generation():
		return nil, idempotency.ErrLeaseLost
	case row.Status == idempotency.CompletedStatus:
		// Of this very attempt, a webhook was faster than we were: no replay, but the answer to this request.
		return Final{Response: *row.Response, Replayed: row.Attempt != l.Attempt(), Expires: row.Expires}, nil
	case row.Status == idempotency.FailedRetryableStatus && o.Label() == gateway.NotExecuted{}.Label():
		return NotExecuted{Resource: m.resource(), Expires: row.Expires}, nil
	}
	return pendingFor(m, row.Expires), nil
}

// recall asks, after a lost acknowledgement, whether the second transaction has happened: settled is false when it has
// not, or not yet, or the database does not say.
func (s *Service) recall(ctx context.Context, l idempotency.Lease, m movement, p plan) (answer Answer, settled bool) {
	row, err := s.keys.Find(ctx, l.Ref())
	if err != nil || row.LeaseID != l.ID() || row.Status != p.to {
		return nil, false
	}
	if p.to == idempotency.CompletedStatus {
		if s.db.Confirm(ctx) != nil {
			// Written, and a failover might undo it. Whoever has heard a final answer must never hear another.
			return pendingFor(m, l.Expires()), true
		}
		// Not ours: with the same verdict, another version of this program may have written other bytes.
		return Final{Response: *row.Response, Expires: row.Expires}, true
	}
	return p.answer, true
}
