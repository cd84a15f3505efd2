package reconcile

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"payonce/internal/events"
)

// Deliveries wait for receivers. An endpoint whose last delivery has failed is in a queue of its own, so that endpoints
// that hang do not take the workers of the others.
const (
	eventQueue   = "events"
	failingQueue = "events_failing"
)

// deliveries are the jobs that tell merchants of events.
type deliveries struct {
	*events.Deliverer
	r *Reconciler
}

// Events adds the jobs of events.
func Events(d *events.Deliverer) Jobs {
	return func(r *Reconciler, c *river.Config) {
		jobs := deliveries{d, r}
		c.Queues[eventQueue] = river.QueueConfig{MaxWorkers: r.EventsWorkers}
		c.Queues[failingQueue] = river.QueueConfig{MaxWorkers: r.EventsWorkers}
		river.AddWorker(c.Workers, river.WorkFunc(jobs.dispatch))
		river.AddWorker(c.Workers, longWorker[deliverArgs]{work: jobs.deliver, longest: d.LongestDelivery()})
		river.AddWorker(c.Workers, river.WorkFunc(jobs.prune))
		c.PeriodicJobs = append(c.PeriodicJobs, every(r.EventsDispatchEvery, dispatchArgs{}),
			every(r.PruneEvery, pruneEventsArgs{}))
	}
}

// dispatchArgs is the job that gives events their places, and enqueues the deliveries that are due. deliverArgs is the
// job that delivers what is due at one endpoint. pruneEventsArgs deletes what has been kept long enough.
type (
	dispatchArgs struct{}
	deliverArgs  struct {
		Tenant   string    `json:"tenant" river:"unique"`
		Endpoint uuid.UUID `json:"endpoint" river:"unique"`
	}
	pruneEventsArgs struct{}
)

func (dispatchArgs) Kind() string    { return "dispatch" }
func (deliverArgs) Kind() string     { return "deliver" }
func (pruneEventsArgs) Kind() string { return "prune_events" }

// InsertOpts implements river.JobArgsWithInsertOpts. An endpoint has one job at a time, in either queue. If it fails,
// the next dispatch makes another one.
func (deliverArgs) InsertOpts() river.InsertOpts { return whileOpen(eventQueue, scheduledAttempts) }

func (d deliveries) dispatch(ctx context.Context, _ *river.Job[dispatchArgs]) error {
	if err := d.Dispatch(ctx); err != nil {
		return err
	}
	return d.EnqueueDue(ctx, d.enqueue)
}

// enqueue is an events.Enqueue. An endpoint whose job is about to end gets its next one by a later dispatch.
func (d deliveries) enqueue(ctx context.Context, tx pgx.Tx, due []events.Endpoint) ([]events.Endpoint, error) {
	jobs := make([]river.InsertManyParams, len(due))
	for i, e := range due {
		args := deliverArgs{Tenant: e.Tenant, Endpoint: e.ID}
		opts := args.InsertOpts()
		if e.Failing {
			opts.Queue = failingQueue
		}
		jobs[i] = river.InsertManyParams{Args: args, InsertOpts: &opts}
	}
	results, err := d.r.client.InsertManyTx(ctx, tx, jobs)
	if err != nil {
		return nil, fmt.Errorf("enqueue deliveries: %w", err)
	}
	var inserted []events.Endpoint
	for i, result := range results {
		if !result.UniqueSkippedAsDuplicate {
			inserted = append(inserted, due[i])
		}
	}
	return inserted, nil
}

func (d deliveries) deliver(ctx context.Context, job *river.Job[deliverArgs]) error {
	return d.Deliver(ctx, job.Args.Tenant, job.Args.Endpoint)
}

func (d deliveries) prune(ctx context.Context, _ *river.Job[pruneEventsArgs]) error {
	return Paced(ctx, d.r.PruneRate, min(d.r.PruneEvery*9/10, longestRun),
		func(ctx context.Context, limit int32) (int64, error) { return d.Prune(ctx, d.r.EventsRetention, limit) },
		d.PruneEndpoints)
}
