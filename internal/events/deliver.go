package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"payonce/internal/events/internal/dbsqlc"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
)

// Config is what a Deliverer needs.
type Config struct {
	DB        *postgres.DB
	Books     *payments.Books
	Addresses Addresses
	Timeout   time.Duration // the longest time for a request, at most MaxTimeout
	GiveUp    time.Duration // how long a delivery is tried, and an endpoint may fail
	Now       func() time.Time
	Jitter    func() float64 // draws from [0, 1)
	Metrics   *telemetry.Metrics
}

// Deliverer dispatches events and delivers them. Any number of them may work on one database.
type Deliverer struct {
	Config

	via http.RoundTripper
}

// New returns a Deliverer.
func New(c Config) *Deliverer { return &Deliverer{c, c.Addresses.transport(c.Timeout)} }

// MaxTimeout is the longest time that a receiver can be given.
const MaxTimeout = 30 * time.Second

const (
	batchSize = 20
	atOnce    = 4 // requests to one endpoint
	// longestRun is how long a run begins new requests. Then other endpoints get its worker.
	longestRun = 10 * time.Second
)

// LongestDelivery is how long Deliver takes at most: the last requests, and the database.
func (d *Deliverer) LongestDelivery() time.Duration { return longestRun + d.Timeout + 10*time.Second }

// Deliver delivers what is due at an endpoint, oldest first, until nothing is due, a delivery fails, ctx ends, or
// the run has taken longestRun. It must not run twice at a time for one endpoint.
//
// A delivery is at least once: if the process ends before it has written what came of a request, it is sent again.
func (d *Deliverer) Deliver(ctx context.Context, tenant string, endpoint uuid.UUID) error {
	until := d.Now().Add(longestRun)
	for {
		batch, err := d.due(ctx, tenant, endpoint)
		if err != nil && ctx.Err() == nil {
			return err // The next try comes when the lease is over.
		}
		if len(batch) == 0 {
			return errors.Join(err, d.release(ctx, tenant, endpoint))
		}
		done := d.send(ctx, batch, until)
		// Crash window 33: delivered, not noted. It is sent again, and the merchant takes an id once.
		more := len(done) == batchSize && !done.failed() && ctx.Err() == nil && d.Now().Before(until)
		if err := d.record(ctx, tenant, endpoint, batch[0].to, done, more); err != nil || !more {
			return err
		}
	}
}

// release ends the lease of a run that finds nothing due, or that its process stops. The next job may begin at once.
func (d *Deliverer) release(ctx context.Context, tenant string, endpoint uuid.UUID) error {
	err := d.DB.Pipeline(context.WithoutCancel(ctx), func(ctx context.Context, q postgres.Statement) error {
		_, err := dbsqlc.New(q).RestEndpoint(ctx, dbsqlc.RestEndpointParams{TenantID: tenant, EndpointID: endpoint})
		return err
	})
	if err != nil {
		return fmt.Errorf("release the endpoint: %w", err)
	}
	return nil
}

// delivery is one that is due. event is nil if the event is not kept any more.
type delivery struct {
	to    dbsqlc.GetDueDeliveriesRow
	event *payments.Event
}

func (d *Deliverer) due(ctx context.Context, tenant string, endpoint uuid.UUID) ([]delivery, error) {
	rows, err := dbsqlc.New(d.DB.Reader()).GetDueDeliveries(ctx, dbsqlc.GetDueDeliveriesParams{TenantID: tenant,
		EndpointID: endpoint, GiveUp: d.GiveUp, MaxRows: batchSize})
	if err != nil {
		return nil, fmt.Errorf("read what is due: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	names := make([]payments.EventName, len(rows))
	for i, row := range rows {
		names[i] = payments.EventName{PaymentID: payment.ID(row.PaymentID), Version: row.Version}
	}
	found, err := d.Books.Events(ctx, tenant, names)
	if err != nil {
		return nil, err
	}
	batch := make([]delivery, len(rows))
	for i, row := range rows {
		batch[i].to = row
		if e, kept := found[names[i]]; kept {
			batch[i].event = &e
		}
	}
	return batch, nil
}

// outcomes are what came of the deliveries that were tried.
type outcomes []outcome

func (all outcomes) failed() bool {
	for _, o := range all {
		if o.failed() {
			return true
		}
	}
	return false
}

// send tries deliveries, some at once, and one after the other at an endpoint that fails. Once one has failed, or time
// is over, no other is begun. So an endpoint that hangs costs one timeout.
func (d *Deliverer) send(ctx context.Context, batch []delivery, until time.Time) outcomes {
	var group errgroup.Group
	group.SetLimit(atOnce)
	if batch[0].to.Failures > 0 {
		group.SetLimit(1)
	}
	var stop atomic.Bool
	tried := make([]*outcome, len(batch))
	for i, one := range batch {
		group.Go(func() error {
			if stop.Load() || ctx.Err() != nil || !d.Now().Before(until) {
				return nil //nolint:nilerr // what is not begun has not failed
			}
			o := d.try(ctx, one)
			// If the process ends meanwhile, the endpoint has not failed.
			if o.status != 0 || ctx.Err() == nil {
				tried[i] = &o
			}
			if o.failed() {
				stop.Store(true)
			}
			return nil
		})
	}
	_ = group.Wait() // Nothing in the group fails.
	var done outcomes
	for _, o := range tried {
		if o != nil {
			done = append(done, *o)
		}
	}
	return done
}

// record writes what came of deliveries, also if the process is about to end.
func (d *Deliverer) record(
	ctx context.Context, tenant string, endpoint uuid.UUID, to dbsqlc.GetDueDeliveriesRow, done outcomes, more bool,
) error {
	p := dbsqlc.RecordDeliveriesParams{TenantID: tenant, EndpointID: endpoint, GiveUp: d.GiveUp}
	end := dbsqlc.RestEndpointParams{TenantID: tenant, EndpointID: endpoint}
	slices.SortFunc(done, func(a, b outcome) int { return cmp.Compare(a.of.Version, b.of.Version) }) // as others lock
	for _, o := range done {
		p.PaymentIds, p.Versions = append(p.PaymentIds, o.of.PaymentID), append(p.Versions, o.of.Version)
		p.DueAts = append(p.DueAts, o.of.DueAt)
		p.Delivered, p.Final = append(p.Delivered, o.delivered()), append(p.Final, o.delivered() || o.gone)
		p.Statuses, p.Answers = append(p.Statuses, o.status), append(p.Answers, o.answer)
		p.Errors = append(p.Errors, o.problem)
		p.Attempts = append(p.Attempts, o.of.Attempts)
		p.WaitMillis = append(p.WaitMillis, waitAfter(o.of.Attempts, d.Jitter()).Milliseconds())
		end.Succeeded, end.Failed = end.Succeeded || o.delivered(), end.Failed || o.failed()
	}
	switch {
	case end.Failed:
		end.Rest = restAfter(to.Failures, d.Jitter())
		end.Failure, end.Reason = done.lastFailure(), done.whyDisabled(to)
	case more:
		end.Rest = lease
	}
	if end.Reason != "" {
		p.GiveUp = forever // What waits is delivered when the endpoint is enabled again.
	}
	var results []string
	var ended []bool
	err := d.DB.Pipeline(context.WithoutCancel(ctx),
		func(ctx context.Context, q postgres.Statement) (err error) {
			results, err = dbsqlc.New(q).RecordDeliveries(ctx, p)
			return err
		},
		func(ctx context.Context, q postgres.Statement) (err error) {
			ended, err = dbsqlc.New(q).RestEndpoint(ctx, end)
			return err
		})
	if err != nil {
		return fmt.Errorf("record deliveries: %w", err)
	}
	for _, result := range results {
		d.Metrics.EventDelivered(result)
	}
	if len(ended) == 1 && ended[0] {
		d.Metrics.EndpointDisabled()
	}
	return nil
}

// forever is longer than any delivery waits.
const forever = 100 * 365 * 24 * time.Hour

// lastFailure says how the last of them that has failed did so.
func (all outcomes) lastFailure() (failure string) {
	for _, o := range all {
		if o.failed() {
			failure = o.said()
		}
	}
	return failure
}

// whyDisabled says why the endpoint gets nothing any more. "": it gets more.
func (all outcomes) whyDisabled(to dbsqlc.GetDueDeliveriesRow) string {
	for _, o := range all {
		switch {
		case o.status == http.StatusGone:
			return "the server has answered 410 Gone"
		case o.delivered():
			to.FailsTooLong = false
		}
	}
	if !to.FailsTooLong || to.FailingSince == nil {
		return ""
	}
	return cut("no delivery has succeeded since "+to.FailingSince.UTC().Format(time.RFC3339)+"; the last one: "+
		all.lastFailure(), maxProblem)
}
