package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"payonce/internal/config"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/internal/tracing"
	"payonce/internal/webhooks"
)

// Config is what a Reconciler needs.
type Config struct {
	DB       *postgres.DB
	Keys     *idempotency.Keys
	PSPs     gateway.PSPs
	Payments *payments.Service
	Inbox    *webhooks.Inbox
	Further  []Jobs
	NewID    func() (uuid.UUID, error)
	Now      func() time.Time
	Jitter   func() float64 // draws from [0, 1)
	Metrics  *telemetry.Metrics
	Tracer   *tracing.Tracer // nil: off
	Log      *slog.Logger

	config.Reconciler
}

// Jobs adds jobs that no key's outcome depends on: their workers, their queue, and when they are due.
type Jobs func(*Reconciler, *river.Config)

// Reconciler runs the background jobs of one process. Any number of them may run on one database.
type Reconciler struct {
	Config

	client *river.Client[pgx.Tx]
}

// New returns a Reconciler. Run starts it.
func New(c Config) (*Reconciler, error) {
	r := &Reconciler{Config: c}
	client, err := river.NewClient(riverpgxv5.New(c.DB.Pool()), r.riverConfig())
	if err != nil {
		return nil, fmt.Errorf("make job queue: %w", err)
	}
	r.client = client
	return r, nil
}

// How long River keeps finished jobs. A discarded job has its dead letter.
const (
	keepCompleted = 10 * time.Minute
	keepDiscarded = 32 * 24 * time.Hour
)

// ledgerWorkers is how many ledgers are read at the same time.
const ledgerWorkers = 6

// River fetches at most MaxWorkers jobs in each cooldown. With the default of 100 ms, the cooldown would limit the
// throughput before the machine does.
const (
	fetchCooldown = 5 * time.Millisecond
	fetchPoll     = time.Second
	pollOnlyFetch = 100 * time.Millisecond // a client that only polls is not notified of new jobs
)

func (r *Reconciler) riverConfig() *river.Config {
	poll := fetchPoll
	if r.DBPooler { // A pooler in transaction mode does not support LISTEN.
		poll = pollOnlyFetch
	}
	c := &river.Config{
		Queues: map[string]river.QueueConfig{
			scheduleQueue: {MaxWorkers: 10},
			webhookQueue:  {MaxWorkers: 20},
			ledgerQueue:   {MaxWorkers: ledgerWorkers},
			lookupQueue:   {MaxWorkers: r.ResolveWorkers},
		},
		Workers:                     r.workers(),
		PeriodicJobs:                r.periodicJobs(),
		JobTimeout:                  jobTimeout + r.Held,
		RescueStuckJobsAfter:        rescueAfter,
		RetryPolicy:                 backoff{now: r.Now, jitter: r.Jitter},
		FetchCooldown:               fetchCooldown,
		FetchPollInterval:           poll,
		PollOnly:                    r.DBPooler,
		CompletedJobRetentionPeriod: keepCompleted,
		DiscardedJobRetentionPeriod: keepDiscarded,
		SoftStopTimeout:             r.StopLimit,
		ReindexerIndexNames:         jobIndexes(),
		ErrorHandler:                &jobErrors{log: r.Log},
		Middleware:                  []rivertype.Middleware{river.WorkerMiddlewareFunc(r.observe)},
		Logger:                      slog.New(stopping{r.Log.Handler()}),
	}
	for _, add := range r.Further {
		add(r, c)
	}
	return c
}

// jobIndexes are the indexes of River's table that the migrations have kept.
func jobIndexes() []string {
	return []string{"river_job_pkey", "river_job_prioritized_fetching_index", "river_job_state_and_finalized_at_index",
		"river_job_unique_idx"}
}

func (r *Reconciler) workers() *river.Workers {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(r.sweep))
	river.AddWorker(workers, river.WorkFunc(r.claim))
	river.AddWorker(workers, river.WorkFunc(r.lookUp))
	river.AddWorker(workers, river.WorkFunc(r.processWebhook))
	river.AddWorker(workers, river.WorkFunc(r.judgeEvidence))
	river.AddWorker(workers, river.WorkFunc(r.enqueueScans))
	river.AddWorker(workers, longWorker[scanLedgerArgs]{work: r.scanLedger, longest: scanTimeout})
	river.AddWorker(workers, river.WorkFunc(r.prune))
	return workers
}

// longWorker works jobs that have more time than jobTimeout. River's rescuer uses that time, too.
type longWorker[T river.JobArgs] struct {
	river.WorkerDefaults[T]

	work    func(context.Context, *river.Job[T]) error
	longest time.Duration
}

// Work implements river.Worker.
func (w longWorker[T]) Work(ctx context.Context, job *river.Job[T]) error { return w.work(ctx, job) }

// Timeout implements river.Worker.
func (w longWorker[T]) Timeout(*river.Job[T]) time.Duration { return w.longest }

// periodicJobs are inserted by the process that River has elected.
func (r *Reconciler) periodicJobs() []*river.PeriodicJob {
	return []*river.PeriodicJob{
		every(r.SweepEvery, sweepArgs{}),
		every(r.ClaimEvery, claimArgs{}),
		every(r.ScanEvery, scanArgs{}),
		every(r.PruneEvery, pruneArgs{}),
	}
}

func every(interval time.Duration, args river.JobArgs) *river.PeriodicJob {
	return river.NewPeriodicJob(river.PeriodicInterval(interval),
		func() (river.JobArgs, *river.InsertOpts) { return args, onceEvery(interval) },
		&river.PeriodicJobOpts{RunOnStart: true})
}

// Run works until ctx ends. Then it takes no new job, and finishes the jobs that are running.
func (r *Reconciler) Run(ctx context.Context) error {
	if started, err := r.start(ctx); !started {
		return err
	}
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.StopLimit+stopGrace)
	defer cancel()
	if err := r.client.Stop(stopping); err != nil {
		return fmt.Errorf("stop job queue: %w", errors.Join(err, r.client.StopAndCancel(stopping)))
	}
	return nil
}

// If the database is away when the process starts, the start is repeated. If the start still fails after that, the
// cause is probably another one, and the process ends with an error.
const (
	startTries = 30
	startPause = time.Second
)

// start starts the job queue. If ctx ends first, the queue is not started, and there is no error.
func (r *Reconciler) start(ctx context.Context) (bool, error) {
	for try := 1; ; try++ {
		// River must not get ctx, because the end of ctx would cancel the running jobs.
		err := r.client.Start(context.WithoutCancel(ctx))
		switch {
		case err == nil:
			return true, nil
		case try == startTries:
			return false, fmt.Errorf("start job queue: %w", err)
		}
		r.Log.WarnContext(ctx, "job queue not started", slog.Int("try", try), slog.Any("error", err))
		select {
		case <-ctx.Done():
			return false, nil
		case <-time.After(startPause):
		}
	}
}

// stopGrace is the time for the jobs that are cancelled at StopLimit.
const stopGrace = 5 * time.Second
