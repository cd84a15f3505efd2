package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"payonce/internal/gateway"
	"payonce/internal/statement"
)

// statementQueue is for files of millions of lines: a week of them that has to be made up keeps nothing else waiting.
const (
	statementQueue   = "statement"
	statementWorkers = 2
)

// dueStatementsArgs asks for all days without a run, statementDayArgs for one account's day, YYYY-MM-DD in UTC.
type (
	dueStatementsArgs struct{}
	statementDayArgs  struct {
		Account string `json:"account" river:"unique"`
		Day     string `json:"day" river:"unique"`
	}
)

func (dueStatementsArgs) Kind() string { return "statement" }
func (statementDayArgs) Kind() string  { return "statement_day" }

// InsertOpts implements river.JobArgsWithInsertOpts. A day that was given up has its letter, and is not begun anew beside it.
func (statementDayArgs) InsertOpts() river.InsertOpts {
	unique := whileOpen()
	unique.ByState = append(unique.ByState, rivertype.JobStateDiscarded)
	return river.InsertOpts{MaxAttempts: 10, Queue: statementQueue, UniqueOpts: unique}
}

const (
	statementsEvery = time.Hour
	// statementDays is how far back days are made up on which nothing ran.
	statementDays = 7
)

// dueStatements enqueues each account's days that no run has judged.
type dueStatements struct {
	river.WorkerDefaults[dueStatementsArgs]

	r *Reconciler
}

// Work implements river.Worker.
func (w *dueStatements) Work(ctx context.Context, _ *river.Job[dueStatementsArgs]) error {
	due, err := w.r.statements.Missing(ctx, statementDays)
	if err != nil || len(due) == 0 {
		return err
	}
	jobs := make([]river.InsertManyParams, len(due))
	for i, d := range due {
		jobs[i].Args = statementDayArgs{Account: d.Account, Day: d.Day.Format(time.DateOnly)}
	}
	if _, err := w.r.client.InsertMany(ctx, jobs); err != nil {
		return fmt.Errorf("enqueue statements: %w", err)
	}
	return nil
}

// statementDay compares one account's day with our books. Breaks are no failure.
type statementDay struct {
	river.WorkerDefaults[statementDayArgs]

	r *Reconciler
}

// statementTimeout is for millions of lines. River's rescuer heeds it.
const statementTimeout = time.Hour

// Timeout implements river.Worker.
func (*statementDay) Timeout(*river.Job[statementDayArgs]) time.Duration { return statementTimeout }

// A statement that is not published, or that somebody else is reading, is asked for every hour, up to a day. Later it is a failure.
const (
	statementPause    = time.Hour
	statementPatience = 24 * time.Hour
)

// Work implements river.Worker.
func (w *statementDay) Work(ctx context.Context, job *river.Job[statementDayArgs]) error {
	day, err := time.Parse(time.DateOnly, job.Args.Day)
	if err != nil {
		return fmt.Errorf("read day: %w", err)
	}
	_, err = w.r.statements.Run(ctx, day, job.Args.Account)
	later := errors.Is(err, gateway.ErrNoStatement) || errors.Is(err, statement.ErrBusy)
	if later && w.r.now().Sub(job.CreatedAt) < statementPatience {
		return river.JobSnooze(statementPause)
	}
	return err
}
