package payments

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// maxRecalls bounds how often the outcome of a commit is asked for, and how often a second transaction is tried.
const maxRecalls = 3

// recallPause is what lies between two of them.
const recallPause = 100 * time.Millisecond

// settle writes what came of the one PSP call: tx 2. All evidence ends here, so a response is the same bytes whoever
// brought it.
func (s *Service) settle(ctx context.Context, l idempotency.Lease, m movement, o gateway.Outcome) (Answer, error) {
	plan, err := s.plan(l, m, o)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		var won bool
		rows := int64(1)
		b := &pgx.Batch{}
		plan.queue(b, &won, &rows)
		err := s.db.Send(ctx, b)
		switch {
		case err == nil && won:
			s.checkRows(ctx, m, rows)
			s.logOutcome(ctx, l, m, o)
			return plan.answer, nil // Crash window 4: written, not answered.
		case err == nil:
			return s.fenced(ctx, l, m, o)
		case belongsToAnother(err):
			return s.settle(ctx, l, m, namedTwice(o))
		case postgres.RolledBack(err) && !postgres.Unavailable(err):
			s.metrics.StoreFailed("settle")
			return nil, fmt.Errorf("settle: %w", err)
		}
		if !postgres.RolledBack(err) {
			s.metrics.CommitAmbiguous()
			if answer, settled := s.recall(ctx, l, plan); settled {
				return answer, nil
			}
		}
		if try == maxRecalls || !pauseBeforeRetry(ctx) {
			// The PSP was asked, the payment is durable, and its outcome is not: that is what unknown means, and 503 would
			// say that nothing happened.
			s.metrics.StoreFailed("settle")
			s.log.ErrorContext(ctx, "outcome not written", slog.String("resource", m.resource().Location()),
				slog.String("outcome", o.Label()), slog.Any("error", err))
			return Pending{Resource: m.resource(), Expires: l.Expires()}, nil
		}
	}
}

// checkRows reports a key that has gone on without its payment. It should never be seen; a ledger scan would find it.
func (s *Service) checkRows(ctx context.Context, m movement, rows int64) {
	if rows != 1 {
		s.metrics.StoreFailed("settle_row")
		s.log.ErrorContext(ctx, "key settled, its row was not", slog.String("resource", m.resource().Location()))
	}
}

// plan is a second transaction, ready to be sent, and sent again: the fence makes the repetition harmless.
type plan struct {
	to     idempotency.Status
	queue  func(b *pgx.Batch, won *bool, rows *int64)
	answer Answer
}

// plan decides what an outcome does to the key and to the row.
func (s *Service) plan(l idempotency.Lease, m movement, o gateway.Outcome) (plan, error) {
	switch o := o.(type) {
	case gateway.Succeeded:
		return s.planVerdict(l, m, verdict{status: Success, pspID: o.ID}, s.keys.QueueComplete)
	case gateway.Declined:
		return s.planVerdict(l, m, verdict{status: Refused, pspID: o.ID, code: o.Code}, s.keys.QueueComplete)
	case gateway.NotExecuted:
		return plan{
			to: idempotency.FailedRetryableStatus,
			queue: func(b *pgx.Batch, won *bool, rows *int64) {
				s.keys.QueueRelease(b, l, o.Reason, won)
				m.queueSettle(b, l, verdict{status: Failed}, idempotency.FailedRetryableStatus, rows)
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
			answer: Pending{Resource: m.resource(), Expires: l.Expires()},
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
	return o.Evidence
}

// planVerdict completes the key with the response that tells the verdict, by the transition that complete queues.
func (s *Service) planVerdict(
	l idempotency.Lease, m movement, v verdict,
	complete func(*pgx.Batch, idempotency.Lease, idempotency.Response, *bool),
) (plan, error) {
	_, response, err := m.conclude(v)
	if err != nil {
		return plan{}, fmt.Errorf("build response: %w", err)
	}
	return plan{
		to: idempotency.CompletedStatus,
		queue: func(b *pgx.Batch, won *bool, rows *int64) {
			complete(b, l, response, won)
			m.queueSettle(b, l, v, idempotency.CompletedStatus, rows)
		},
		answer: Final{Response: response, Expires: l.Expires()},
	}, nil
}

// fenced is where an owner ends whose key has changed hands. A success is evidence all the same: if the key is
// unknown, it completes it. Everything else is left to those who took over.
func (s *Service) fenced(ctx context.Context, l idempotency.Lease, m movement, o gateway.Outcome) (Answer, error) {
	s.metrics.Fenced()
	if ok, isSuccess := o.(gateway.Succeeded); isSuccess {
		late, err := s.planVerdict(l, m, verdict{status: Success, pspID: ok.ID}, s.keys.QueueCompleteLost)
		if err != nil {
			return nil, err
		}
		var won bool
		rows := int64(1)
		b := &pgx.Batch{}
		late.queue(b, &won, &rows)
		err = s.db.Send(ctx, b)
		switch {
		case err == nil && won:
			s.checkRows(ctx, m, rows)
			s.logOutcome(ctx, l, m, o)
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

// letter is the dead letter of an answer that contradicts its request.
func (s *Service) letter(l idempotency.Lease, m movement, o gateway.Indeterminate) (deadletters.Letter, error) {
	if !o.Contradiction {
		return deadletters.Letter{}, nil
	}
	id, err := s.newID()
	if err != nil {
		return deadletters.Letter{}, fmt.Errorf("make dead letter id: %w", err)
	}
	evidence := o.Evidence
	if evidence == nil {
		evidence = []byte(`{}`)
	}
	return deadletters.Letter{
		ID: id, Kind: deadletters.PSPContradicts, Tenant: m.onBehalfOf().Tenant, Scope: string(l.Ref().Scope),
		Key: l.Ref().Key.String(), Generation: l.Generation(), Subject: l.Subject(), Reason: o.Reason, Evidence: evidence,
	}, nil
}

// belongsToAnother reports whether a verdict was refused for its id, which another payment or refund of ours has.
func belongsToAnother(err error) bool {
	return postgres.Violates(err, "payments_psp_charge_unique") || postgres.Violates(err, "refunds_psp_refund_unique")
}

// namedTwice is a verdict under an id that already belongs to another payment or refund of ours.
func namedTwice(o gateway.Outcome) gateway.Outcome {
	evidence, err := json.Marshal(o)
	if err != nil {
		evidence = nil
	}
	return gateway.Indeterminate{
		Reason: "answer names what the PSP did for another request", Contradiction: true, Evidence: evidence,
	}
}

func (s *Service) logOutcome(ctx context.Context, l idempotency.Lease, m movement, o gateway.Outcome) {
	s.log.InfoContext(ctx, "settled", slog.String("resource", m.resource().Location()), slog.String("outcome", o.Label()),
		slog.Int("attempt", int(l.Attempt())), slog.Int("generation", int(l.Generation())))
}

// pauseBeforeRetry waits a moment, and reports whether there is still time.
func pauseBeforeRetry(ctx context.Context) bool {
	t := time.NewTimer(recallPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
