package events

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/events/internal/dbsqlc"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/postgres"
)

// The errors of the feed.
var (
	ErrFeedOff = errors.New("no events are written for the tenant")
	ErrGone    = errors.New("the event is not in the feed any more")
	ErrGap     = errors.New("the feed has a gap after the event")
	ErrNoEvent = errors.New("no such event")
)

// scanned is how many events one page of the feed may look at. If few of them have the type that is asked for, the page
// is short, and the next page goes on behind them.
const scanned = 1000

// Position selects a page of the feed.
type Position struct {
	After *payments.EventName // nil: from the oldest event that is kept
	Type  string              // "": all
	Limit int
}

// Page is a part of the feed, oldest first. Next is the last event that was looked at, and the next page is what comes
// after it. It is Position.After if there was nothing to look at.
type Page struct {
	Events []Body
	Next   *payments.EventName
	More   bool
}

// Feed reads a page of a tenant's events. An event has a place in the feed only after its transaction has committed,
// and each place is behind those that were given out before. So no event that commits late is skipped. Feed fails with
// ErrFeedOff, and with ErrGone if the event that it begins after has no place: it is too old, or a restored backup does
// not have it. It fails with ErrGap if no events were written for some time after that event. The feed begins behind
// the last gap.
func (r *Registry) Feed(ctx context.Context, tenant string, p Position) (Page, error) {
	var after payments.EventName
	if p.After != nil {
		after = *p.After
	}
	found, err := dbsqlc.New(r.DB.Reader()).FindInFeed(ctx, dbsqlc.FindInFeedParams{TenantID: tenant,
		PaymentID: uuid.UUID(after.PaymentID), Version: after.Version})
	switch {
	case err != nil:
		return Page{}, fmt.Errorf("find place in feed: %w", err)
	case !found.Tells:
		return Page{}, ErrFeedOff
	case p.After != nil && found.Position == 0:
		return Page{}, ErrGone
	case p.After != nil && found.Position <= found.FeedAfter:
		return Page{}, ErrGap
	}
	most := scanned
	if p.Type == "" {
		most = min(p.Limit, most)
	}
	rows, err := r.readFeed(ctx, dbsqlc.ReadFeedParams{TenantID: tenant,
		After: max(found.Position, found.FeedAfter), MaxRows: int32(most) + 1})
	if err != nil {
		return Page{}, fmt.Errorf("read feed: %w", err)
	}
	names, page := p.choose(rows)
	all, err := r.Books.Events(ctx, tenant, names)
	if err != nil {
		return Page{}, err
	}
	for _, name := range names {
		if e, there := all[name]; there { // The pruner may have deleted it meanwhile.
			page.Events = append(page.Events, BodyOf(e))
		}
	}
	return page, nil
}

// readFeed reads again, durably, what a client is about to hear of: a failover must not give another event its place.
func (r *Registry) readFeed(ctx context.Context, p dbsqlc.ReadFeedParams) (rows []dbsqlc.ReadFeedRow, err error) {
	read := func(ctx context.Context, q postgres.DBTX) (err error) {
		rows, err = dbsqlc.New(q).ReadFeed(ctx, p)
		return err
	}
	if err = r.DB.ReadNow(ctx, read); err == nil && len(rows) > 0 {
		err = r.DB.ReadDurably(ctx, read)
	}
	return rows, err
}

// lastPlace is the place of the last event in a tenant's feed. An event of an earlier time that gets its place later is
// read after it.
func lastPlace(ctx context.Context, q *dbsqlc.Queries, tenant string) (int64, error) {
	last, err := q.FindPageBack(ctx, dbsqlc.FindPageBackParams{TenantID: tenant, Before: math.MaxInt64})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return last.Position, err
}

// choose takes the events of a page from the rows behind its place.
func (p Position) choose(rows []dbsqlc.ReadFeedRow) (names []payments.EventName, page Page) {
	page = Page{Events: []Body{}, Next: p.After}
	for i, row := range rows {
		wanted := p.Type == "" || p.Type == row.Type
		if i == scanned || wanted && len(names) == p.Limit {
			page.More = true
			return names, page
		}
		name := payments.EventName{PaymentID: payment.ID(row.PaymentID), Version: row.Version}
		page.Next = &name
		if wanted {
			names = append(names, name)
		}
	}
	return names, page
}

// Redeliver makes an event of a tenant due again, and returns the endpoints that get it: this one, or without one, all
// that are enabled and get its type. It fails with ErrNoEvent or ErrNoEndpoint. operator is the operator who asks, for
// the audit; "" if the merchant asks. An operator names the endpoint.
func (r *Registry) Redeliver(
	ctx context.Context, tenant string, event payments.EventName, to *EndpointID, operator string,
) (endpoints []EndpointID, err error) {
	err = r.DB.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := dbsqlc.New(tx)
		found, err := q.FindInFeed(ctx, dbsqlc.FindInFeedParams{TenantID: tenant,
			PaymentID: uuid.UUID(event.PaymentID), Version: event.Version})
		if err == nil && found.Position == 0 { // If it is only new, the dispatch makes its deliveries.
			err = ErrNoEvent
		}
		if err == nil && to != nil {
			_, err = r.readOne(ctx, tx, tenant, *to)
		}
		if err != nil {
			return err
		}
		ids, err := q.Redeliver(ctx, dbsqlc.RedeliverParams{TenantID: tenant, PaymentID: uuid.UUID(event.PaymentID),
			Version: event.Version, EndpointID: (*uuid.UUID)(to)})
		for _, id := range ids {
			endpoints = append(endpoints, EndpointID(id))
		}
		if err == nil && to != nil {
			err = auditTx(ctx, tx, tenant, *to, Action{Actor: operator, Did: "resend", What: IDOf(event)})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("redeliver event: %w", err)
	}
	return endpoints, nil
}
