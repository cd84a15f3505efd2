package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/operator/internal/dbsqlc"
	"payonce/internal/payments"
	"payonce/internal/postgres"
)

// longestDecision bounds one decision, with its question to the PSP. It leaves room in the server's write timeout.
const longestDecision = 25 * time.Second

// Resolve carries out a decision that has passed Validate, or refuses it; both are audited. It fails with deadletters.ErrNoLetter for a
// letter that is not there. The end of ctx does not stop it: who hangs up has decided all the same, and it must be on record.
func (d *Desk) Resolve(ctx context.Context, asked Decision) (Ruling, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestDecision)
	defer cancel()
	letter, err := deadletters.Get(ctx, d.db, asked.Letter)
	if err != nil {
		return nil, err
	}
	resolved, err := d.decide(ctx, letter, asked)
	var no refusal
	switch {
	case errors.As(err, &no):
		why := d.unlessOutrun(ctx, asked, no.why)
		d.log.InfoContext(ctx, "decision refused", slog.String("letter", asked.Letter.String()),
			slog.String("action", string(asked.Action)), slog.String("ground", string(why.Ground)))
		return why, d.audit(ctx, asked, why)
	case err != nil:
		return nil, err
	}
	d.log.InfoContext(ctx, "dead letter resolved", slog.String("letter", asked.Letter.String()), slog.String("action", string(asked.Action)))
	entries, err := d.entries(ctx, []deadletters.Letter{resolved})
	if err != nil {
		return Done{Entry: Entry{Letter: resolved}}, nil // it has happened, whatever can be read of it now
	}
	return Done{Entry: entries[0]}, nil
}

// decide asks the PSP where the decision needs its word, and then writes everything in one transaction. A refusal is an error of type refusal.
func (d *Desk) decide(ctx context.Context, letter deadletters.Letter, asked Decision) (resolved deadletters.Letter, err error) {
	// Crash window 21: the PSP is asked, and nothing is written.
	inquiry, err := d.payments.Inquire(ctx, letter, payments.Decision{Action: asked.Action, Version: asked.Version, PSPID: asked.PSPID})
	if err != nil {
		return letter, fmt.Errorf("ask for the key: %w", err)
	}
	err = d.db.TransactOrFind(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := holdTx(ctx, tx, letter); err != nil {
			return err
		}
		step, err := d.payments.DecideTx(ctx, tx, letter, inquiry, func() (err error) {
			resolved, err = deadletters.ResolveTx(ctx, tx, letter.ID, asked.Version, asked.Action, asked.Actor, asked.Reason)
			return err
		})
		switch {
		case err != nil:
			return err
		case step.Refuse != nil:
			return refusal{Refused(*step.Refuse)}
		}
		return d.followUp(ctx, tx, step) // Crash window 22: resolved and moved, not committed.
	}, func(ctx context.Context, q postgres.Statement) (found bool, err error) {
		resolved, err = deadletters.GetIn(ctx, q, letter.ID)
		return resolved.Resolution != nil, err
	})
	switch {
	case errors.Is(err, deadletters.ErrConflict):
		return letter, refuse(payments.Conflict, "Somebody else has resolved this letter at the same moment.")
	case errors.Is(err, payments.ErrMoved):
		return letter, refuse(payments.Conflict, "The key has moved since the PSP was asked. Look at the letter again.")
	case err != nil:
		return letter, fmt.Errorf("resolve: %w", err) // where an acknowledgement was lost, too: the version makes it harmless to ask again
	case !asked.is(resolved):
		return letter, refusal{resolvedBefore(resolved)}
	}
	return resolved, nil // Crash window 23: committed, not answered.
}

// is reports whether a letter is resolved by this decision, as opposed to another one that a lost acknowledgement has uncovered.
func (d Decision) is(l deadletters.Letter) bool {
	r := l.Resolution
	return l.Version == d.Version+1 && r.Action == d.Action && r.Actor == d.Actor && r.Reason == d.Reason
}

// followUp does what a step asks of the job queue and of the inbox.
func (d *Desk) followUp(ctx context.Context, tx pgx.Tx, step payments.Step) error {
	if step.Forget != "" && d.forget != nil {
		if err := d.forget(ctx, tx, step.Forget); err != nil {
			return fmt.Errorf("forget webhook: %w", err)
		}
	}
	again := step.Again
	var err error
	switch {
	case again == nil:
		return nil
	case again.EventID != "" && d.reprocess != nil:
		err = d.reprocess(ctx, tx, again.EventID)
	case again.JobID != 0 && d.requeue != nil:
		err = d.requeue(ctx, tx, again.JobID)
	case again.Record != nil && d.reconsider != nil:
		err = d.reconsider(ctx, tx, again.Record)
	default:
		return refuse(payments.NotApplicable, "There is nothing in this letter that could be tried again. Dismiss it when you have seen to it.")
	}
	switch {
	case errors.Is(err, ErrGone):
		return refuse(payments.NotApplicable, "What this letter is about is gone, so that it cannot be tried again. Dismiss it when you have seen to it.")
	case errors.Is(err, ErrQueued):
		return refuse(payments.NotApplicable, "An equal job is in the queue already. Wait for what it comes to.")
	case err != nil:
		return fmt.Errorf("do it again: %w", err)
	}
	return nil
}

// unlessOutrun tells the loser of a race that he is one: what he was refused for may be the winner's doing.
func (d *Desk) unlessOutrun(ctx context.Context, asked Decision, r Refused) Refused {
	letter, err := deadletters.Get(ctx, d.db, asked.Letter)
	if err != nil || letter.Resolution == nil {
		return r
	}
	return resolvedBefore(letter)
}

func resolvedBefore(l deadletters.Letter) Refused {
	r := l.Resolution
	return Refused{Ground: payments.Conflict, Detail: fmt.Sprintf("%s has resolved this letter before, as %s.", r.Actor, r.Action)}
}

// holdTx locks the letter's key for the rest of the transaction, where it still stands for what the letter is about.
func holdTx(ctx context.Context, tx pgx.Tx, letter deadletters.Letter) error {
	if letter.About == nil {
		return nil
	}
	_, err := dbsqlc.New(tx).HoldKey(ctx, dbsqlc.HoldKeyParams{
		TenantID: letter.About.Tenant, Operation: letter.About.Operation, Key: letter.About.Key,
		Generation: letter.About.Generation, Subject: letter.Subject,
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("lock key: %w", err)
	}
	return nil
}
