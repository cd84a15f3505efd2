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

// answeredArgs is the job that closes the dead letters whose keys were resolved meanwhile.
type answeredArgs struct{}

func (answeredArgs) Kind() string { return "answered" }

// Answered adds the job. closeAnswered closes such dead letters, up to limit, and returns how many.
func Answered(closeAnswered func(ctx context.Context, limit int32) (int, error)) Jobs {
	return func(r *Reconciler, c *river.Config) {
		river.AddWorker(c.Workers, river.WorkFunc(func(ctx context.Context, _ *river.Job[answeredArgs]) error {
			_, err := closeAnswered(ctx, sweepBatch)
			return err
		}))
		c.PeriodicJobs = append(c.PeriodicJobs, every(r.SweepEvery, answeredArgs{}))
	}
}

// statementQueue is for files with millions of lines. It is a queue of its own, so that a week of such files delays no
// other job.
const (
	statementQueue   = "statement"
	statementWorkers = 2
)

// statements are the jobs that compare settlement files with our books.
type statements struct {
	*statement.Reconciler
	r *Reconciler
}

// Statements adds the jobs of statements.
func Statements(s *statement.Reconciler) Jobs {
	return func(r *Reconciler, c *river.Config) {
		jobs := statements{s, r}
		c.Queues[statementQueue] = river.QueueConfig{MaxWorkers: statementWorkers}
		river.AddWorker(c.Workers, river.WorkFunc(jobs.enqueue))
		river.AddWorker(c.Workers, longWorker[statementDayArgs]{work: jobs.judgeDay, longest: statementTimeout})
		c.PeriodicJobs = append(c.PeriodicJobs, every(statementsEvery, dueStatementsArgs{}))
	}
}

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
	opts := whileOpen(statementQueue, 10)
	opts.UniqueOpts.ByState = append(opts.UniqueOpts.ByState, rivertype.JobStateDiscarded)
	return opts
}

const (
	statementsEvery = time.Hour
	// statementDays is how many days back each day without a run is found. Further back, only the days since the last
	// run are. It is a day less than a discarded job is kept: otherwise that day would get a second job and a second
	// dead letter.
	statementDays = int32(keepDiscarded/(24*time.Hour)) - 1
	// statementBatch is how many jobs are enqueued at a time. The jobs of an account are in order, so a pass that ends
	// early has left out its last days, and the next pass finds them.
	statementBatch = 1000
)

// enqueue enqueues the days of each account that no run has judged, or that can be judged again.
func (s statements) enqueue(ctx context.Context, _ *river.Job[dueStatementsArgs]) error {
	due, err := s.Due(ctx, statementDays)
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(due, statementBatch) {
		jobs := make([]river.InsertManyParams, len(batch))
		for i, d := range batch {
			jobs[i].Args = statementDayArgs{Account: d.Account, Day: d.Day.Format(time.DateOnly)}
		}
		if _, err := s.r.client.InsertMany(ctx, jobs); err != nil {
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
func (s statements) judgeDay(ctx context.Context, job *river.Job[statementDayArgs]) error {
	day, err := time.Parse(time.DateOnly, job.Args.Day)
	if err != nil {
		return fmt.Errorf("read day: %w", err)
	}
	_, err = s.Run(ctx, day, job.Args.Account)
	if errors.Is(err, statement.ErrBusy) {
		return river.JobSnooze(statementBusy)
	}
	if errors.Is(err, gateway.ErrNoStatement) && s.r.Now().Sub(job.CreatedAt) < statementPatience {
		return river.JobSnooze(statementPause)
	}
	return err
}
