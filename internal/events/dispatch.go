package events

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/events/internal/dbsqlc"
	"payonce/internal/postgres"
)

// dispatchBatch is how many events get their places in one transaction.
const dispatchBatch = 1000

// Dispatch gives all events that are new their places in the feed, and each a delivery to each endpoint that wants it.
// If the process ends meanwhile, an event has its place and its deliveries, or it is still new.
func (d *Deliverer) Dispatch(ctx context.Context) error {
	for {
		n := 0
		err := d.DB.Transact(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			n, err = dispatchTx(ctx, tx)
			return err
		})
		if err != nil {
			return fmt.Errorf("dispatch events: %w", err)
		}
		d.Metrics.EventsDispatched(n)
		if n < dispatchBatch {
			return nil
		}
	}
}

func dispatchTx(ctx context.Context, tx pgx.Tx) (int, error) {
	q := dbsqlc.New(tx)
	last, err := q.LockFeed(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil // Another process dispatches.
	}
	if err != nil {
		return 0, err
	}
	found, err := q.FindNewEvents(ctx, dispatchBatch)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	var p dbsqlc.PlaceEventsParams
	for _, e := range found {
		last++
		p.TenantIds, p.PaymentIds = append(p.TenantIds, e.TenantID), append(p.PaymentIds, e.PaymentID)
		p.Versions, p.Positions = append(p.Versions, e.Version), append(p.Positions, last)
	}
	// Crash window 31: dispatched, not committed. The events are new for the next run.
	return len(found), postgres.PipelineTx(ctx, tx,
		func(ctx context.Context, q postgres.Statement) error { return dbsqlc.New(q).PlaceEvents(ctx, p) },
		func(ctx context.Context, q postgres.Statement) error {
			return dbsqlc.New(q).AddDeliveries(ctx, dbsqlc.AddDeliveriesParams{TenantIds: p.TenantIds,
				PaymentIds: p.PaymentIds, Versions: p.Versions})
		},
		func(ctx context.Context, q postgres.Statement) error { return dbsqlc.New(q).AdvanceFeed(ctx, last) })
}

// Endpoint names an endpoint.
type Endpoint struct {
	Tenant  string
	ID      uuid.UUID
	Failing bool // its last delivery has failed
}

// Enqueue inserts, in the transaction, a job that calls Deliver for each endpoint, unless there is one already. It
// returns those that it has inserted.
type Enqueue func(ctx context.Context, tx pgx.Tx, due []Endpoint) (inserted []Endpoint, err error)

const (
	// dueBatch is how many endpoints of each kind get a job at a time: those that work, and those that fail.
	dueBatch = 1000
	// lease is how long an endpoint gets no other job than the one that it has. It is longer than the job takes. The
	// queue keeps the job of a process that has died for about two minutes, and only then there may be another one.
	lease = longestRun + MaxTimeout + 20*time.Second
)

// EnqueueDue has a job made for each endpoint with deliveries that are due. An endpoint has one job at a time, so
// however slow it is, it has one worker.
func (d *Deliverer) EnqueueDue(ctx context.Context, enqueue Enqueue) error {
	err := d.DB.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := dbsqlc.New(tx)
		rows, err := q.FindDueEndpoints(ctx, dueBatch)
		if err != nil || len(rows) == 0 {
			return err
		}
		due := make([]Endpoint, len(rows))
		for i, row := range rows {
			due[i] = Endpoint{Tenant: row.TenantID, ID: row.ID, Failing: row.Failing}
		}
		inserted, err := enqueue(ctx, tx, due)
		if err != nil {
			return err
		}
		p := dbsqlc.RestEndpointsParams{Rest: lease}
		for _, e := range inserted {
			p.TenantIds, p.EndpointIds = append(p.TenantIds, e.Tenant), append(p.EndpointIds, e.ID)
		}
		return q.RestEndpoints(ctx, p) // Crash window 32: enqueued, and not run. See lease.
	})
	if err != nil {
		return fmt.Errorf("enqueue deliveries: %w", err)
	}
	return nil
}
