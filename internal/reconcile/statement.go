package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"payonce/internal/gateway"
	"payonce/internal/statement"
)

// statementQueue is for files with millions of lines. It is a queue of its own, so that a week of such files delays no
// other job.
const (
	statementQueue   = "statement"
	statementWorkers = 2
)

// dueStatementsArgs is the job that enqueues all days that must be judged. statementDayArgs is one day (YYYY-MM-DD in
// UTC) of one account.
type (
	dueStatementsArgs struct{}
	statementDayArgs  struct {
		Account string `json:"account" river:"unique"`
		Day     string `json:"day" river:"unique"`
	}
)

func (dueStatementsArgs) Kind() string { return "statement" }
func (statementDayArgs) Kind() string  { return "statement_day" }

// InsertOpts implements river.JobArgsWithInsertOpts. A day whose job was discarded has a dead letter, and gets no
// second job.
func (statementDayArgs) InsertOpts() river.InsertOpts {
	unique := whileOpen()
	unique.ByState = append(unique.ByState, rivertype.JobStateDiscarded)
	return river.InsertOpts{MaxAttempts: 10, Queue: statementQueue, UniqueOpts: unique}
}

const (
	statementsEvery = time.Hour
	// statementDays is how many days back each day without a run is found. Further back, only the days since the last
	// run are.
	statementDays = 31
	// statementBatch is how many jobs are enqueued at a time. The jobs of an account are in order, so a pass that ends
	// early has left out its last days, and the next pass finds them.
	statementBatch = 1000
)

// enqueueStatements enqueues the days of each account that no run has judged, or that can be judged again.
func (r *Reconciler) enqueueStatements(ctx context.Context, _ *river.Job[dueStatementsArgs]) error {
	due, err := r.Statements.Due(ctx, statementDays)
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(due, statementBatch) {
		jobs := make([]river.InsertManyParams, len(batch))
		for i, d := range batch {
			jobs[i].Args = statementDayArgs{Account: d.Account, Day: d.Day.Format(time.DateOnly)}
		}
		if _, err := r.client.InsertMany(ctx, jobs); err != nil {
			return fmt.Errorf("enqueue statements: %w", err)
		}
	}
	return nil
}

// statementTimeout is long enough for millions of lines.
const statementTimeout = time.Hour

// If a statement is not published yet, the job tries again every hour, for up to a day. After that, the job fails. If
// another run reads the account, the job tries again every minute: that run has a limit.
const (
	statementPause    = time.Hour
	statementPatience = 24 * time.Hour
	statementBusy     = time.Minute
)

// judgeDay compares one account's day with our books. A run that finds breaks has not failed.
func (r *Reconciler) judgeDay(ctx context.Context, job *river.Job[statementDayArgs]) error {
	day, err := time.Parse(time.DateOnly, job.Args.Day)
	if err != nil {
		return fmt.Errorf("read day: %w", err)
	}
	_, err = r.Statements.Run(ctx, day, job.Args.Account)
	if errors.Is(err, statement.ErrBusy) {
		return river.JobSnooze(statementBusy)
	}
	if errors.Is(err, gateway.ErrNoStatement) && r.Now().Sub(job.CreatedAt) < statementPatience {
		return river.JobSnooze(statementPause)
	}
	return err
}
