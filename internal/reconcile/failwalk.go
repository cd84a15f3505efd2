package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/reconcile/internal/dbsqlc"
)

// scanBudget is how many runs in a row may fail before a dead letter is opened.
const scanBudget = 12

// failLimit bounds the write that counts a failed run. It has a limit of its own because the run's time may be over.
const failLimit = 5 * time.Second

// failWalk counts a failed run of a walk. cause is nil if the run had no error but did not get further. After
// scanBudget failed runs in a row, it opens a dead letter, at most one open one for each account. The dead letter is
// named after the walk and its position. So an operator who has closed it gets another one only if a walk fails at
// another position, or a later walk fails. The position does not move, and the scan tries again.
func (r *Reconciler) failWalk(ctx context.Context, w walk, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failLimit)
	defer cancel()
	err := r.DB.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error { return r.failWalkTx(ctx, tx, w, cause) })
	if err != nil {
		return fmt.Errorf("note failed run: %w", err)
	}
	return nil
}

func (r *Reconciler) failWalkTx(ctx context.Context, tx pgx.Tx, w walk, cause error) error {
	q := dbsqlc.New(tx)
	if err := q.LockLedgers(ctx, w.account); err != nil {
		return err
	}
	row, err := q.FailWalk(ctx, dbsqlc.FailWalkParams{
		Account: w.account, Object: string(w.object), WalkBegan: w.began, Kind: string(deadletters.ScanFailing),
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil // Another run has reached the end in the meantime.
	case err != nil || row.FailedRuns < scanBudget || row.IsOpen:
		return err
	}
	if cause == nil {
		cause = errors.New("one run after the other reads as much as it may without getting on")
	}
	began, after := w.began.UTC().Format(time.RFC3339Nano), row.ResumeAfter.UTC().Format(time.RFC3339Nano)
	deadLetter, err := r.deadLetter(deadletters.ScanFailing,
		fmt.Sprintf("ledger %s %s %s %s", w.account, w.object, began, after),
		fmt.Sprintf("the PSP's list of %ss of account %s cannot be read on after %s: %v", w.object, w.account, after,
			cause),
		struct {
			Source     judge.Source   `json:"source"`
			Account    string         `json:"account"`
			Object     gateway.Object `json:"object"`
			After      string         `json:"createdAfter"`
			FailedRuns int32          `json:"failedRuns"`
		}{judge.SourceScan, w.account, w.object, after, row.FailedRuns})
	if err != nil {
		return err
	}
	return postgres.PipelineTx(ctx, tx, deadletters.Open(deadLetter))
}

// putUnreadable opens a dead letter for a record that cannot be read, so that the walk can continue after the record.
// The finding is named after the record's bytes, because the record's id may be the part that is wrong.
func (r *Reconciler) putUnreadable(ctx context.Context, w walk, u gateway.Unreadable) (payments.Effect, error) {
	kept := struct {
		Source judge.Source   `json:"source"`
		ID     string         `json:"id,omitzero"` // the record's own id, if it can be read
		Record jsontext.Value `json:"record,omitzero"`
		Text   string         `json:"text,omitzero"` // the first bytes, if the record cannot be stored as JSON
	}{Source: judge.SourceScan, ID: u.ID}
	if gateway.Storable(u.Raw) {
		kept.Record = u.Raw
	} else {
		kept.Text = gateway.Beginning(u.Raw)
	}
	what := string(w.object)
	if u.ID != "" {
		what += " " + u.ID
	}
	reason := "the PSP lists a " + what + " of account " + w.account + " that cannot be read: " + u.Reason
	deadLetter, err := r.deadLetter(deadletters.UnreadableRecord, judge.RecordFinding(w.account, u.Name),
		reason, kept)
	if err != nil {
		return nil, err
	}
	var opened bool
	if err := r.DB.Pipeline(ctx, deadletters.OpenNew(deadLetter, &opened)); err != nil {
		return nil, fmt.Errorf("open dead letter: %w", err)
	}
	return payments.DeadLettered{Kind: deadLetter.Kind, New: opened}, nil
}

// deadLetter is one about what cannot be read, or cannot be read on. It belongs to no key.
func (r *Reconciler) deadLetter(
	kind deadletters.Kind, finding, reason string, evidence any,
) (deadletters.DeadLetter, error) {
	id, err := r.NewID()
	if err != nil {
		return deadletters.DeadLetter{}, fmt.Errorf("make dead letter id: %w", err)
	}
	raw, err := json.Marshal(evidence)
	if err != nil {
		return deadletters.DeadLetter{}, fmt.Errorf("marshal evidence: %w", err)
	}
	return deadletters.DeadLetter{ID: id, Kind: kind, Finding: finding, Reason: deadletters.Clip(reason),
		Evidence: raw}, nil
}
