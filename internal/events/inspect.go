package events

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/events/internal/dbsqlc"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/query"
)

// What operators see of endpoints, and do with them.

// ListAll lists the endpoints of all tenants, or of one.
func (r *Registry) ListAll(q *query.Query) func(context.Context) (query.List[EndpointRow], error) {
	limit := min(q.Limit(), query.MaxPage)
	p := dbsqlc.ListAllEndpointsParams{MaxWaiting: MaxWaiting,
		MaxRows: int32(limit) + 1, //nolint:gosec // bounded by MaxPage
		Tenant:  postgres.Nullable(q.Text("tenant"))}
	if after := query.CursorOf(q, parsePlace); after != nil {
		p.AfterTenant, p.AfterID = after.tenant, uuid.UUID(after.id)
	}
	return func(ctx context.Context) (query.List[EndpointRow], error) {
		rows, err := dbsqlc.New(r.DB.Reader()).ListAllEndpoints(ctx, p)
		if err != nil {
			return query.List[EndpointRow]{}, fmt.Errorf("list endpoints: %w", err)
		}
		var l query.List[EndpointRow]
		for _, row := range rows[:min(len(rows), limit)] {
			l.Rows = append(l.Rows, endpointOf(dbsqlc.ListEndpointsRow(row)))
		}
		if len(rows) > limit {
			last := l.Rows[limit-1]
			l.Next = place{last.Tenant, last.ID}.String()
		}
		return l, nil
	}
}

// place is a position in the list of all endpoints.
type place struct {
	tenant string
	id     EndpointID
}

// String returns the form that parsePlace reads. An endpoint's id has no dot.
func (p place) String() string { return p.tenant + "." + p.id.String() }

func parsePlace(s string) (place, error) {
	dot := strings.LastIndexByte(s, '.')
	if dot < 0 || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return place{}, ErrNoEndpoint
	}
	id, err := ParseEndpointID(s[dot+1:])
	return place{s[:dot], id}, err
}

// MoreWait reports whether more deliveries may wait than were counted.
func (e EndpointRow) MoreWait() bool { return e.Waiting >= MaxWaiting }

// Delivery is what has become of the tries to deliver an event to an endpoint.
type Delivery struct {
	Event     payments.EventName
	Type      string
	Attempts  int
	Due       *time.Time // of the next try; nil: there will be none
	Last      *time.Time // try; nil: there was none
	Status    int        // of the last answer; 0: there was none
	Answer    string     // the beginning of its body
	Error     string     // why there was no answer
	Delivered *time.Time
}

// EventID is the id of the event.
func (d Delivery) EventID() string { return IDOf(d.Event) }

// State is the state of a delivery in a word.
func (d Delivery) State() string { return stateOf(d.Due, d.Delivered) }

func stateOf(due, delivered *time.Time) string {
	switch {
	case delivered != nil:
		return "delivered"
	case due != nil:
		return "waiting"
	}
	return "given up"
}

func deliveryOf(r dbsqlc.ListDeliveriesRow) Delivery {
	d := Delivery{Event: payments.EventName{PaymentID: payment.ID(r.PaymentID), Version: r.Version}, Type: r.Type,
		Attempts: int(r.Attempts), Due: r.DueAt, Last: r.LastAt, Answer: postgres.Text(r.LastAnswer),
		Error: postgres.Text(r.LastError), Delivered: r.DeliveredAt}
	if r.LastStatus != nil {
		d.Status = int(*r.LastStatus)
	}
	return d
}

// Deliveries lists at most so many deliveries to an endpoint, the newest event first, from behind an event. If after is
// nil, the list begins with the newest event. It looks at a limited number of events. So there may be none of the
// endpoint's among them, and older is the last event that was looked at. It is nil if no event is older.
func (r *Registry) Deliveries(
	ctx context.Context, tenant string, to EndpointID, after *payments.EventName, limit int,
) (found []Delivery, older *payments.EventName, err error) {
	q := dbsqlc.New(r.DB.Reader())
	p, err := findPart(ctx, q, tenant, after)
	if err != nil {
		return nil, nil, err
	}
	limit = min(max(limit, 1), query.MaxPage)
	rows, err := q.ListDeliveries(ctx, dbsqlc.ListDeliveriesParams{TenantID: tenant, EndpointID: uuid.UUID(to),
		First: p.first, Before: p.before, MaxRows: int32(limit) + 1})
	if err != nil {
		return nil, nil, fmt.Errorf("list deliveries: %w", err)
	}
	for _, row := range rows[:min(len(rows), limit)] {
		found = append(found, deliveryOf(row))
	}
	if len(rows) > limit {
		return found, &found[limit-1].Event, nil
	}
	return found, p.last, nil
}

// part is a part of a tenant's feed, which operators read backwards.
type part struct {
	first, before int64               // places
	last          *payments.EventName // that is looked at; nil: no event is older
}

// findPart finds the part that ends before an event, or without one, with the newest event. The pruner deletes the
// oldest events. So if the event is not kept any more, no event is older.
func findPart(ctx context.Context, q *dbsqlc.Queries, tenant string, after *payments.EventName) (part, error) {
	p := part{before: math.MaxInt64}
	if after != nil {
		found, err := q.FindInFeed(ctx, dbsqlc.FindInFeedParams{TenantID: tenant,
			PaymentID: uuid.UUID(after.PaymentID), Version: after.Version})
		if err != nil {
			return part{}, fmt.Errorf("find place in feed: %w", err)
		}
		p.before = found.Position
	}
	end, err := q.FindPageBack(ctx, dbsqlc.FindPageBackParams{TenantID: tenant, Before: p.before, Between: scanned - 1})
	if errors.Is(err, pgx.ErrNoRows) {
		return p, nil
	}
	if err != nil {
		return part{}, fmt.Errorf("find page of feed: %w", err)
	}
	p.first = end.Position
	p.last = &payments.EventName{PaymentID: payment.ID(end.PaymentID), Version: end.Version}
	return p, nil
}

// Sent is a delivery with its request.
type Sent struct {
	Delivery

	Headers []string // each as "name: value", sorted
	Body    []byte
}

// hiddenSignature takes the place of a signature. Who has a request with its signature can send it once more.
const hiddenSignature = "v1,••••"

// Sent reads a delivery with its request. The signature is hidden. It fails with ErrNoEvent.
func (r *Registry) Sent(ctx context.Context, tenant string, to EndpointID, event payments.EventName) (Sent, error) {
	row, err := dbsqlc.New(r.DB.Reader()).GetDelivery(ctx, dbsqlc.GetDeliveryParams{TenantID: tenant,
		EndpointID: uuid.UUID(to), PaymentID: uuid.UUID(event.PaymentID), Version: event.Version})
	if errors.Is(err, pgx.ErrNoRows) {
		return Sent{}, ErrNoEvent
	}
	if err != nil {
		return Sent{}, fmt.Errorf("read delivery: %w", err)
	}
	all, err := r.Books.Events(ctx, tenant, []payments.EventName{event})
	if err != nil {
		return Sent{}, err
	}
	e, there := all[event]
	if !there {
		return Sent{}, ErrNoEvent
	}
	s := Sent{Delivery: deliveryOf(dbsqlc.ListDeliveriesRow(row))}
	for name, values := range headersOf(IDOf(event), "the second of the try", hiddenSignature) {
		s.Headers = append(s.Headers, http.CanonicalHeaderKey(name)+": "+strings.Join(values, ", "))
	}
	slices.Sort(s.Headers)
	s.Body, err = BodyOf(e).JSON()
	return s, err
}

// Told is an event of a payment, with one of its deliveries if there are any.
type Told struct {
	Event payments.EventName
	Type  string
	To    *EndpointID // nil: it has no delivery
	URL   string      // of the endpoint; "" if it was deleted
	State string      // of the delivery
}

// EventID is the id of the event.
func (t Told) EventID() string { return IDOf(t.Event) }

// MaxTold bounds what ToldOf returns.
const MaxTold = 100

// ToldOf lists the events of a payment with their deliveries, the newest first.
func (r *Registry) ToldOf(ctx context.Context, tenant string, id payment.ID) (all []Told, err error) {
	rows, err := dbsqlc.New(r.DB.Reader()).ListTold(ctx, dbsqlc.ListToldParams{TenantID: tenant,
		PaymentID: uuid.UUID(id), MaxRows: MaxTold})
	if err != nil {
		return nil, fmt.Errorf("list events of payment: %w", err)
	}
	for _, row := range rows {
		t := Told{Event: payments.EventName{PaymentID: id, Version: row.Version}, Type: row.Type,
			To: (*EndpointID)(row.EndpointID), URL: postgres.Text(row.Url)}
		if t.To != nil {
			t.State = stateOf(row.DueAt, row.DeliveredAt)
			if t.URL == "" && row.DueAt != nil {
				t.State = "not sent" // The endpoint was deleted before.
			}
		}
		all = append(all, t)
	}
	return all, nil
}

// latest bounds how much later than an older event one may have got its place in the feed: its transaction was
// committed late. No transaction takes as long.
const latest = time.Hour

// RedeliverSince makes the events since a time due again for one endpoint, and says how many. It looks at a limited
// number of them, the newest first, from behind an event or from the newest. If there may be more of them, older is the
// last event that was looked at. It fails with ErrNoEndpoint. operator is the operator who asks, for the audit.
func (r *Registry) RedeliverSince(
	ctx context.Context, tenant string, to EndpointID, since time.Time, after *payments.EventName, operator string,
) (resent int, older *payments.EventName, err error) {
	err = r.DB.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := r.readOne(ctx, tx, tenant, to); err != nil {
			return err
		}
		queries := dbsqlc.New(tx)
		p, err := findPart(ctx, queries, tenant, after)
		if err != nil {
			return err
		}
		n, err := queries.RedeliverSince(ctx, dbsqlc.RedeliverSinceParams{TenantID: tenant, EndpointID: uuid.UUID(to),
			Since: since.UnixMicro(), First: p.first, Before: p.before})
		resent, older = int(n), p.last
		if older != nil && older.Version < since.Add(-latest).UnixMicro() {
			older = nil
		}
		if err != nil || n == 0 {
			return err
		}
		what := fmt.Sprintf("%d since %s", n, since.UTC().Format(time.RFC3339))
		if after != nil {
			what += ", older than " + IDOf(*after)
		}
		return auditTx(ctx, tx, tenant, to, Action{Actor: operator, Did: "resend", What: what})
	})
	if err != nil {
		return 0, nil, fmt.Errorf("redeliver events: %w", err)
	}
	return resent, older, nil
}
