package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// retry has it found out once more: what the letter was about is done again, whatever that is. If it comes to the same end, that is
// a new letter.
func (d *Desk) retry(letter deadletters.Letter) move {
	return func(ctx context.Context, tx pgx.Tx, key idempotency.Status) error {
		e := jobOf(letter)
		switch {
		case letter.Kind == deadletters.JobDiscarded && key == idempotency.UnknownStatus:
			// A job is made for the key by the claim. The discarded one could meet it in the queue.
			return d.payments.WakeTx(ctx, tx, letter)
		case letter.Kind == deadletters.JobDiscarded && e.Args.EventID != "" && d.reprocess != nil:
			return again("process webhook again", d.reprocess(ctx, tx, e.Args.EventID))
		case letter.Kind == deadletters.JobDiscarded && e.JobID != 0 && d.requeue != nil:
			return again("run job again", d.requeue(ctx, tx, e.JobID))
		case letter.Kind == deadletters.WebhookUnmatched && e.EventID != "" && d.reprocess != nil:
			return again("process webhook again", d.reprocess(ctx, tx, e.EventID))
		case key == idempotency.UnknownStatus:
			return d.payments.WakeTx(ctx, tx, letter)
		case key == idempotency.InProgressStatus:
			return refuse(NotApplicable, "The letter's key is being executed at this moment. Wait until that is over.")
		}
		if record := recordIn(letter.Evidence); record != nil && d.reconsider != nil {
			return again("settle record again", d.reconsider(ctx, tx, record))
		}
		if key != "" {
			return refuse(NotApplicable, "The letter's key is %s: there is nothing left to find out. Dismiss the letter when you have seen to it.", key)
		}
		return refuse(NotApplicable, "There is nothing in this letter that could be tried again. Dismiss it when you have seen to it.")
	}
}

// job is what a letter's evidence says of a job, or of a stored webhook. Evidence of another form has neither.
type job struct {
	JobID   int64  `json:"jobId"`
	EventID string `json:"eventId"`
	Args    struct {
		EventID string `json:"eventId"`
	} `json:"args"`
}

func jobOf(letter deadletters.Letter) (j job) {
	_ = json.Unmarshal(letter.Evidence, &j)
	return j
}

// recordIn finds the record of the PSP's ledger that a letter's evidence is, or holds as its member record.
func recordIn(evidence []byte) []byte {
	if _, err := gateway.ParseRecord(evidence); err == nil {
		return evidence
	}
	var e struct {
		Record jsontext.Value `json:"record"`
	}
	if err := json.Unmarshal(evidence, &e); err != nil || e.Record == nil {
		return nil
	}
	if _, err := gateway.ParseRecord(e.Record); err != nil {
		return nil
	}
	return e.Record
}

// again names what failed, unless there is nothing left that it could be done to.
func again(what string, err error) error {
	if errors.Is(err, ErrGone) {
		return refuse(NotApplicable, "What this letter is about is gone, so that it cannot be tried again. Dismiss it when you have seen to it.")
	}
	if errors.Is(err, ErrQueued) {
		return refuse(NotApplicable, "An equal job is in the queue already. Wait for what it comes to.")
	}
	return wrap(what, err)
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
