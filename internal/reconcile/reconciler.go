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

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/statement"
	"payonce/internal/telemetry"
	"payonce/internal/webhooks"
)

// Settings say how often the jobs run, and how much they do.
type Settings struct {
	SweepEvery, ClaimEvery, ScanEvery, PruneEvery time.Duration
	PruneRate                                     int32 // keys per second

	ScanOverlap    time.Duration // how much of a ledger each new walk reads again
	ResolveWorkers int           // lookups at the same time
	// PollOnly is for a pooler in transaction mode, which does not support LISTEN.
	PollOnly bool
	// StopLimit is how long jobs may continue after the process was told to stop.
	StopLimit time.Duration
}

// Config is what a Reconciler needs.
type Config struct {
	DB       *postgres.DB
	Keys     *idempotency.Keys
	PSPs     gateway.PSPs
	Payments *payments.Service
	Resolver *payments.Resolver
	Inbox    *webhooks.Inbox
	// Statements compares settlement files with our books.
	Statements *statement.Reconciler
	// CloseAnswered closes dead letters whose keys were resolved meanwhile, up to limit, and returns how many.
	CloseAnswered func(ctx context.Context, limit int32) (int, error)
	NewID         func() (uuid.UUID, error)
	Now           func() time.Time
	Jitter        func() float64 // draws from [0, 1)
	Metrics       *telemetry.Metrics
	Log           *slog.Logger
	Settings      Settings
}

// Reconciler runs the background jobs of one process. Any number of them may run on one database.
type Reconciler struct {
	db         *postgres.DB
	keys       *idempotency.Keys
	psps       gateway.PSPs
	payments   *payments.Service
	resolver   *payments.Resolver
	inbox      *webhooks.Inbox
	statements *statement.Reconciler
	answered   func(ctx context.Context, limit int32) (int, error)
	newID      func() (uuid.UUID, error)
	now        func() time.Time
	metrics    *telemetry.Metrics
	log        *slog.Logger
	settings   Settings
	client     *river.Client[pgx.Tx]
}

// New returns a Reconciler. Run starts it.
func New(c Config) (*Reconciler, error) {
	r := &Reconciler{
		db: c.DB, keys: c.Keys, psps: c.PSPs, payments: c.Payments, resolver: c.Resolver,
		inbox: c.Inbox, statements: c.Statements,
		answered: c.CloseAnswered, newID: c.NewID, now: c.Now, metrics: c.Metrics, log: c.Log, settings: c.Settings,
	}
	client, err := river.NewClient(riverpgxv5.New(c.DB.Pool()), r.riverConfig(c.Jitter))
	if err != nil {
		return nil, fmt.Errorf("make job queue: %w", err)
	}
	r.client = client
	return r, nil
}

// How long River keeps finished jobs. A discarded job has its dead letter. It is kept until its day is not among the
// last statementDays any more: otherwise that day would get a second job and a second dead letter.
const (
	keepCompleted = 10 * time.Minute
	keepDiscarded = (statementDays + 1) * 24 * time.Hour
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

func (r *Reconciler) riverConfig(jitter func() float64) *river.Config {
	poll := fetchPoll
	if r.settings.PollOnly {
		poll = pollOnlyFetch
	}
	return &river.Config{
		Queues: map[string]river.QueueConfig{
			scheduleQueue:  {MaxWorkers: 10},
			webhookQueue:   {MaxWorkers: 20},
			ledgerQueue:    {MaxWorkers: ledgerWorkers},
			statementQueue: {MaxWorkers: statementWorkers},
			resolveQueue:   {MaxWorkers: r.settings.ResolveWorkers},
		},
		Workers:                     r.workers(),
		PeriodicJobs:                r.periodicJobs(),
		JobTimeout:                  jobTimeout,
		RescueStuckJobsAfter:        rescueAfter,
		RetryPolicy:                 backoff{now: r.now, jitter: jitter},
		FetchCooldown:               fetchCooldown,
		FetchPollInterval:           poll,
		PollOnly:                    r.settings.PollOnly,
		CompletedJobRetentionPeriod: keepCompleted,
		DiscardedJobRetentionPeriod: keepDiscarded,
		SoftStopTimeout:             r.settings.StopLimit,
		ErrorHandler:                &jobErrors{log: r.log},
		Middleware:                  []rivertype.Middleware{&observer{r: r}},
		Logger:                      slog.New(stopping{r.log.Handler()}),
	}
}

func (r *Reconciler) workers() *river.Workers {
	workers := river.NewWorkers()
	river.AddWorker(workers, &sweep{r: r})
	river.AddWorker(workers, &claim{r: r})
	river.AddWorker(workers, &answered{r: r})
	river.AddWorker(workers, &resolve{r: r})
	river.AddWorker(workers, &webhook{r: r})
	river.AddWorker(workers, &evidence{r: r})
	river.AddWorker(workers, &scan{r: r})
	river.AddWorker(workers, &scanLedger{r: r})
	river.AddWorker(workers, &dueStatements{r: r})
	river.AddWorker(workers, &statementDay{r: r})
	river.AddWorker(workers, &prune{r: r})
	return workers
}

// periodicJobs are inserted by the process that River has elected.
func (r *Reconciler) periodicJobs() []*river.PeriodicJob {
	every := func(interval time.Duration, args river.JobArgs) *river.PeriodicJob {
		return river.NewPeriodicJob(river.PeriodicInterval(interval),
			func() (river.JobArgs, *river.InsertOpts) { return args, onceEvery(interval) },
			&river.PeriodicJobOpts{RunOnStart: true})
	}
	return []*river.PeriodicJob{
		every(r.settings.SweepEvery, sweepArgs{}),
		every(r.settings.ClaimEvery, claimArgs{}),
		every(r.settings.SweepEvery, answeredArgs{}),
		every(r.settings.ScanEvery, scanArgs{}),
		every(r.settings.PruneEvery, pruneArgs{}),
		every(statementsEvery, dueStatementsArgs{}),
	}
}

// Run works until ctx ends. Then it takes no new job, and finishes the jobs that are running.
func (r *Reconciler) Run(ctx context.Context) error {
	if started, err := r.start(ctx); !started {
		return err
	}
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.settings.StopLimit+stopGrace)
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
	pause := time.NewTicker(startPause)
	defer pause.Stop()
	for try := 1; ; try++ {
		// River must not get ctx, because the end of ctx would cancel the running jobs.
		err := r.client.Start(context.WithoutCancel(ctx))
		switch {
		case err == nil:
			return true, nil
		case try == startTries:
			return false, fmt.Errorf("start job queue: %w", err)
		}
		r.log.WarnContext(ctx, "job queue not started", slog.Int("try", try), slog.Any("error", err))
		select {
		case <-ctx.Done():
			return false, nil
		case <-pause.C:
		}
	}
}

// stopGrace is the time for the jobs that are cancelled at StopLimit.
const stopGrace = 5 * time.Second
