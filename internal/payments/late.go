package payments

import (
	"context"
	"log/slog"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// fenced is where an owner ends whose key has changed hands. A success is evidence all the same, of the same weight as a
// webhook's: it completes the key, or confirms it, or goes to an operator. Everything else is left to those who took over.
func (s *Service) fenced(ctx context.Context, l idempotency.Lease, m movement, o gateway.Outcome) (Answer, error) {
	s.metrics.Fenced()
	s.log.WarnContext(ctx, "lease lost", slog.String("outcome", o.Label()), slog.Int("attempt", int(l.Attempt())))
	var settled bool
	if ok, isSuccess := o.(gateway.Succeeded); isSuccess {
		finding, err := s.settleCase(ctx, &caseFile{movement: m, execution: l.Execution()}, nil, testimony{
			source: SourceOwner, outcome: ok, evidence: inHand(verdict{status: Success, pspID: ok.ID}), id: ok.ID,
		})
		if err != nil {
			s.metrics.StoreFailed("settle")
			s.log.ErrorContext(ctx, "late success not written", slog.String("resource", m.resource().Location()), slog.Any("error", err))
		}
		_, settled = finding.(Settled)
	}
	answer, err := s.standing(ctx, l, m, o)
	if final, ok := answer.(Final); ok && settled {
		final.Replayed = false // by our own evidence, whatever attempt the key had come to
		return final, nil
	}
	return answer, err
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

// standing answers from what the key has become without us.
func (s *Service) standing(ctx context.Context, l idempotency.Lease, m movement, o gateway.Outcome) (Answer, error) {
	row, err := s.durably(ctx, l, m)
	switch {
	case err != nil:
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
	if p.to != idempotency.CompletedStatus {
		row, err := s.keys.Find(ctx, l.Ref()) // nothing final is said: what a failover undoes is resolved
		return p.answer, err == nil && row.LeaseID == l.ID() && row.Status == p.to
	}
	row, err := s.durably(ctx, l, m)
	switch {
	case postgres.GaveUp(err):
		// Written or not, nothing is acknowledged for now.
		return pendingFor(m, l.Expires()), true
	case err != nil || row.LeaseID != l.ID() || row.Status != p.to:
		return nil, false
	}
	// Not ours: with the same verdict, another version of this program may have written other bytes.
	return Final{Response: *row.Response, Expires: row.Expires}, true
}

// durably reads what a key has become, for an answer that is final. Whoever has heard one must never hear another, so what is read must be such that a
// failover cannot undo it.
func (s *Service) durably(ctx context.Context, l idempotency.Lease, m movement) (idempotency.Record, error) {
	row, err := s.keys.FindDurably(ctx, l.Ref())
	if err != nil {
		s.metrics.StoreFailed("find")
		s.log.WarnContext(ctx, "outcome not read durably", slog.String("resource", m.resource().Location()), slog.Any("error", err))
	}
	return row, err
}
