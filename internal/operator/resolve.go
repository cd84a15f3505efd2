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
	"payonce/internal/operator/internal/dbsqlc"
	"payonce/internal/payments"
	"payonce/internal/postgres"
)

// move is what a decision does beside resolving the letter, in the same transaction. key is where the letter's key stands: it is
// locked, so that it stays there. It is empty for a letter about none, and when the key stands for something else by now.
type move func(ctx context.Context, tx pgx.Tx, key idempotency.Status) error

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

// decide asks whom it has to ask, and then writes everything in one transaction. A refusal is an error of type refusal.
func (d *Desk) decide(ctx context.Context, letter deadletters.Letter, asked Decision) (resolved deadletters.Letter, err error) {
	if letter.Resolution != nil {
		return letter, refusal{resolvedBefore(letter)}
	}
	if letter.Version != asked.Version {
		return letter, refuse(Conflict, "The letter has version %d, not %d.", letter.Version, asked.Version)
	}
	// Crash window 21: the PSP is asked, and nothing is written.
	moving, err := d.prepare(ctx, letter, asked)
	if err != nil {
		return letter, err
	}
	err = d.db.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		key, err := holdTx(ctx, tx, letter)
		if err != nil {
			return err
		}
		// First of all: the database does not release a key with an open letter.
		resolved, err = deadletters.ResolveTx(ctx, tx, letter.ID, asked.Version, asked.Action, asked.Actor, asked.Reason)
		if err != nil {
			return err
		}
		return moving(ctx, tx, key) // Crash window 22: resolved and moved, not committed.
	})
	var ambiguous *postgres.AmbiguousError
	switch {
	case errors.As(err, &ambiguous):
		return d.recall(ctx, asked, err)
	case errors.Is(err, deadletters.ErrConflict):
		return letter, refuse(Conflict, "Somebody else has resolved this letter at the same moment.")
	case errors.Is(err, payments.ErrMoved), errors.Is(err, idempotency.ErrNoKey):
		return letter, refuse(Conflict, "The key has moved since the PSP was asked. Look at the letter again.")
	case payments.BelongsToAnother(err):
		return letter, refuse(ContradictsPSP, "That id of the PSP's belongs to another payment or refund. Name the right one as pspId.")
	case err != nil:
		return letter, fmt.Errorf("resolve: %w", err)
	}
	return resolved, nil // Crash window 23: committed, not answered.
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
	return Refused{Ground: Conflict, Detail: fmt.Sprintf("%s has resolved this letter before, as %s.", r.Actor, r.Action)}
}

// prepare finds out what a decision is going to do. It asks the PSP where the decision is about money; no transaction is open.
func (d *Desk) prepare(ctx context.Context, letter deadletters.Letter, asked Decision) (move, error) {
	switch asked.Action {
	case deadletters.Retry:
		return d.retry(letter), nil
	case deadletters.Executed:
		return d.ruleExecuted(ctx, letter, asked)
	case deadletters.NotExecuted:
		return d.ruleNotExecuted(ctx, letter)
	case deadletters.Dismiss:
		return d.dismiss(letter), nil
	}
	return nil, refuse(NotApplicable, "There is no such action.")
}

// dismiss moves nothing. It would leave an open key to nobody: a letter holds it back from its release. A webhook whose job was given
// up is not waited for any more.
func (d *Desk) dismiss(letter deadletters.Letter) move {
	return func(ctx context.Context, tx pgx.Tx, key idempotency.Status) error {
		if key == idempotency.UnknownStatus {
			// As long as another letter holds the key, somebody still has to decide about it.
			switch _, found, err := deadletters.OtherOpenTx(ctx, tx, letter); {
			case err != nil:
				return err
			case found:
				return nil
			}
		}
		if key == idempotency.UnknownStatus || key == idempotency.InProgressStatus {
			return refuse(NeedsDecision, "The letter's key is %s, so that something must be decided: retry, executed or not_executed.", key)
		}
		if event := jobOf(letter).Args.EventID; letter.Kind == deadletters.JobDiscarded && event != "" && d.forget != nil {
			return wrap("forget webhook", d.forget(ctx, tx, event))
		}
		return nil
	}
}

// holdTx locks the letter's key for the rest of the transaction.
func holdTx(ctx context.Context, tx pgx.Tx, letter deadletters.Letter) (idempotency.Status, error) {
	if letter.About == nil {
		return "", nil
	}
	status, err := dbsqlc.New(tx).HoldKey(ctx, dbsqlc.HoldKeyParams{
		Scope: letter.About.Scope, Key: letter.About.Key, Generation: letter.About.Generation, Subject: letter.Subject,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("lock key: %w", err)
	}
	return idempotency.Status(status), nil
}

// recall asks, after a lost acknowledgement, whether the transaction has happened, such that a failover does not undo it. If the database does
// not say, the first error stands: the version makes it harmless to ask again.
func (d *Desk) recall(ctx context.Context, asked Decision, doubt error) (deadletters.Letter, error) {
	for try := 1; ; try++ {
		letter, err := deadletters.GetDurably(ctx, d.db, asked.Letter)
		if r := letter.Resolution; err == nil && r != nil {
			if letter.Version == asked.Version+1 && r.Action == asked.Action && r.Actor == asked.Actor && r.Reason == asked.Reason {
				return letter, nil
			}
			return letter, refusal{resolvedBefore(letter)}
		}
		if try == postgres.MaxRecalls || postgres.GaveUp(err) || !postgres.PauseBeforeRecall(ctx) {
			return letter, fmt.Errorf("resolve: %w", doubt)
		}
	}
}
