package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/tracing"
)

// longestDecision bounds one decision, with its lookup at the PSP. It is shorter than the server's write timeout.
const longestDecision = 25 * time.Second

// Outcome is what came of a decision about a dead letter.
type Outcome struct {
	Entry
	Did     OutcomeStatus
	Refused *judge.Refusal // if it was refused. Then nothing was changed
}

// OutcomeStatus says what came of a decision.
type OutcomeStatus string

// What can come of a decision. The last two can come of a decision about one of several dead letters only.
const (
	WasDone    OutcomeStatus = "done"
	WasRefused OutcomeStatus = "refused"
	WasUnknown OutcomeStatus = "unknown" // the store has failed, so it may be done or not
	WasLeft    OutcomeStatus = "left"    // the time was over before it was begun
)

// Resolve carries out a decision that has passed Validate, or refuses it. Both are audited. It fails with
// deadletters.ErrNoDeadLetter if there is no such dead letter. The end of ctx does not stop it: an operator who hangs
// up has decided, and the decision must be stored.
func (s *Service) Resolve(ctx context.Context, asked Decision) (Outcome, error) {
	return s.resolve(ctx, longestDecision, asked)
}

func (s *Service) resolve(ctx context.Context, longest time.Duration, asked Decision) (Outcome, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest)
	defer cancel()
	deadLetter, err := deadletters.Get(ctx, s.config.DB.Reader(), asked.DeadLetter)
	if err != nil {
		return Outcome{}, err
	}
	if deadLetter.Subject != nil {
		var span tracing.Span
		ctx, span = s.config.Tracer.Later(ctx, "operator", *deadLetter.Subject)
		defer span.End()
	}
	resolved, err := s.decide(ctx, deadLetter, asked)
	why, refused := errors.AsType[*judge.Refusal](err)
	switch {
	case refused:
		why = s.refusalNow(ctx, asked, why)
		s.config.Log.InfoContext(ctx, "decision refused", slog.String("dead_letter", asked.DeadLetter.String()),
			slog.String("action", string(asked.Action)), slog.String("ground", string(why.Ground)))
		return Outcome{Did: WasRefused, Refused: why}, s.audit(ctx, asked, *why)
	case err != nil:
		return Outcome{}, err
	}
	s.config.Log.InfoContext(ctx, "dead letter resolved", slog.String("dead_letter", asked.DeadLetter.String()),
		slog.String("action", string(asked.Action)))
	done := Outcome{Entry: Entry{DeadLetter: resolved}, Did: WasDone}
	// If the payment cannot be read now, the decision is carried out all the same.
	if entries, err := entries(ctx, s.config.DB.Reader(), []deadletters.DeadLetter{resolved}); err == nil {
		done.Entry = entries[0]
	}
	return done, nil
}

// decide asks the PSP if the decision needs that, and then writes everything in one transaction. A refusal is a
// judge.Refusal.
func (s *Service) decide(
	ctx context.Context, deadLetter deadletters.DeadLetter, asked Decision,
) (resolved deadletters.DeadLetter, err error) {
	// Crash window 21: the PSP is asked, and nothing is written.
	inquiry, err := Inquire(ctx, s.config.DB, s.config.Payments, deadLetter,
		judge.OperatorDecision{Action: asked.Action, Version: asked.Version, PSPID: asked.PSPID,
			PSPConfirms: asked.pspConfirms})
	if err != nil {
		return deadLetter, fmt.Errorf("ask for the key: %w", err)
	}
	err = s.config.DB.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := s.lockKeyTx(ctx, tx, deadLetter); err != nil {
			return err
		}
		decided, err := inquiry.Judge(ctx, postgres.In(tx))
		step := decided.Step
		if err == nil && step.Refuse() == nil {
			if resolved, err = deadletters.ResolveTx(ctx, tx, asked.Decision); err == nil {
				step, err = decided.CarryOutTx(ctx, tx)
			}
		}
		switch {
		case err != nil:
			return err
		case step.Refuse() != nil: // also by a constraint
			return step.Refuse()
		}
		return s.followUp(ctx, tx, step) // Crash window 22: resolved and moved, not committed.
	})
	err = s.config.DB.OrFind(ctx, err, func(ctx context.Context, q postgres.Statement) (found bool, err error) {
		resolved, err = deadletters.Get(ctx, q, deadLetter.ID)
		return resolved.Resolution != nil, err
	})
	switch {
	case errors.Is(err, deadletters.ErrConflict):
		return deadLetter, &judge.Refusal{Ground: judge.Conflict,
			Detail: "Somebody else has resolved this dead letter at the same moment."}
	case errors.Is(err, payments.ErrMoved):
		return deadLetter, &judge.Refusal{Ground: judge.Conflict,
			Detail: "The key has moved since the PSP was asked. Look at the dead letter again."}
	case err != nil:
		// The commit may have happened if its acknowledgement was lost. Asking again is safe because of the version.
		return deadLetter, fmt.Errorf("resolve: %w", err)
	case !asked.is(resolved):
		return deadLetter, resolvedBefore(resolved)
	}
	return resolved, nil // Crash window 23: committed, not answered.
}

// is reports whether a dead letter was resolved by this decision. After a lost acknowledgement, the dead letter that is
// read may have been resolved by another operator.
func (d Decision) is(l deadletters.DeadLetter) bool {
	r := l.Resolution
	return l.Version == d.Version+1 && r.Action == d.Action && r.Actor == d.Actor && r.Reason == d.Reason
}

// followUp does what a step needs from the job queue and from the inbox of webhooks.
func (s *Service) followUp(ctx context.Context, tx pgx.Tx, step judge.Step) error {
	if step.Forget() != "" && s.config.Forget != nil {
		return s.config.Forget(ctx, tx, step.Forget())
	}
	again := step.Again()
	var err error
	switch {
	case again == nil:
		return nil
	case again.EventID != "" && s.config.Reprocess != nil:
		err = s.config.Reprocess(ctx, tx, again.EventID)
	case again.JobID != 0 && s.config.Requeue != nil:
		err = s.config.Requeue(ctx, tx, again.JobID)
	case again.Record != nil && s.config.Reconsider != nil:
		err = s.config.Reconsider(ctx, tx, again.Record)
	default:
		return notApplicable("There is nothing in this dead letter that could be tried again. Dismiss it when you have seen to it.")
	}
	switch {
	case errors.Is(err, deadletters.ErrGone):
		return notApplicable("What this dead letter is about is gone, so that it cannot be tried again. Dismiss it when you have seen to it.")
	case errors.Is(err, deadletters.ErrQueued):
		return notApplicable("An equal job is in the queue already. Wait for what it comes to.")
	case err != nil:
		return fmt.Errorf("follow up: %w", err)
	}
	return nil
}

func notApplicable(detail string) error {
	return &judge.Refusal{Ground: judge.NotApplicable, Detail: detail}
}

// refusalNow replaces a refusal if another operator has resolved the dead letter in the meantime: that operator's
// decision may be the cause of the refusal.
func (s *Service) refusalNow(ctx context.Context, asked Decision, r *judge.Refusal) *judge.Refusal {
	deadLetter, err := deadletters.Get(ctx, s.config.DB.Reader(), asked.DeadLetter)
	if err != nil || deadLetter.Resolution == nil {
		return r
	}
	return resolvedBefore(deadLetter)
}

func resolvedBefore(l deadletters.DeadLetter) *judge.Refusal {
	r := l.Resolution
	return &judge.Refusal{Ground: judge.Conflict,
		Detail: fmt.Sprintf("%s has resolved this dead letter before, as %s.", r.Actor, r.Action)}
}

// audit stores a refused decision, in a transaction of its own. If that fails, the operator gets an error and asks
// again.
func (s *Service) audit(ctx context.Context, asked Decision, r judge.Refusal) error {
	err := s.config.DB.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return deadletters.AuditRefusedTx(ctx, tx, asked.Decision, r.Detail)
	})
	if err != nil {
		return fmt.Errorf("write refusal: %w", err)
	}
	return nil
}

// lockKeyTx locks the dead letter's key until the transaction ends, and returns the key's status. The status is "" if
// the dead letter is about no key, or if the key is gone or stands for something else by now.
func (s *Service) lockKeyTx(
	ctx context.Context, tx pgx.Tx, deadLetter deadletters.DeadLetter,
) (idempotency.Status, error) {
	about := deadLetter.About
	if about == nil {
		return "", nil
	}
	ref := idempotency.StoredRef(about.Tenant, about.Operation, about.Key)
	var view idempotency.KeyView
	err := postgres.PipelineTx(ctx, tx, s.config.Keys.LockKey(ref, about.Generation), s.config.Keys.LookIn(ref, &view))
	switch subject := deadLetter.Subject; {
	case err != nil:
		return "", fmt.Errorf("lock key: %w", err)
	case view.Execution.Generation != about.Generation, subject != nil && *subject != view.Execution.Subject:
		return "", nil
	}
	return view.Status, nil
}
