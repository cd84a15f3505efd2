package events

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/events/internal/dbsqlc"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/postgres"
)

// Registry is what merchants ask about their events: the endpoints, the feed, and one more delivery.
type Registry struct {
	DB        *postgres.DB
	Books     *payments.Books
	Addresses Addresses // of endpoints
	NewID     func() (uuid.UUID, error)
	Random    io.Reader // of secrets
	// Changed is called when a tenant wants events, or does not want them any more. nil: nobody in this process asks.
	Changed func()
}

// EndpointID identifies an endpoint. Its text has the form of a payment's id.
type EndpointID uuid.UUID

const endpointPrefix = "we_"

// String gives "we_" and 26 characters.
func (id EndpointID) String() string {
	_, of, _ := strings.Cut(payment.ID(id).String(), "_")
	return endpointPrefix + of
}

// ParseEndpointID reads what EndpointID.String writes, and nothing else.
func ParseEndpointID(s string) (EndpointID, error) {
	of, ok := strings.CutPrefix(s, endpointPrefix)
	id, err := payment.ParseID("pay_" + of)
	if !ok || err != nil {
		return EndpointID{}, ErrNoEndpoint
	}
	return EndpointID(id), nil
}

// EndpointRow is an endpoint without its secret.
type EndpointRow struct {
	Tenant         string
	ID             EndpointID
	URL            string
	Description    string
	Types          []string   // of the events that it gets; none: all
	PreviousUntil  *time.Time // until then, the secret from before the last rotation signs, too; nil: it does not
	DisabledReason string     // why nothing is delivered to it; "" if it is enabled
	DisabledAt     *time.Time
	FailingSince   *time.Time // when the first try failed after which none has succeeded
	LastFailure    string     // how the last try has failed, in words for the merchant; "" if it has not
	Created        time.Time
	Waiting        int // deliveries that are due or will be, at most MaxWaiting
}

// Bounds of endpoints.
const (
	MaxEndpoints   = 20 // of a tenant
	MaxWaiting     = 100
	MaxOverlap     = 7 * 24 * time.Hour
	DefaultOverlap = 24 * time.Hour

	maxDescription = 200 // characters
)

// The errors of endpoints.
var (
	ErrNoEndpoint       = errors.New("no such endpoint")
	ErrTooManyEndpoints = errors.New("too many endpoints")
)

// Create makes an endpoint that Check has nothing against, and returns its secret, which is not shown again. From then
// on, events are written for the tenant. It fails with ErrTooManyEndpoints.
func (r *Registry) Create(ctx context.Context, tenant string, n NewEndpoint) (e EndpointRow, secret string, err error) {
	id, err := r.NewID()
	if err != nil {
		return EndpointRow{}, "", fmt.Errorf("make endpoint id: %w", err)
	}
	raw, err := r.newSecret()
	if err != nil {
		return EndpointRow{}, "", err
	}
	e = EndpointRow{Tenant: tenant, ID: EndpointID(id), URL: n.URL, Description: n.Description,
		Types: append([]string{}, n.Types...)}
	err = r.change(ctx, tenant, func(ctx context.Context, q *dbsqlc.Queries, w wants) (_ wants, err error) {
		if w.endpoints >= MaxEndpoints {
			return w, ErrTooManyEndpoints
		}
		e.Created, err = q.CreateEndpoint(ctx, dbsqlc.CreateEndpointParams{TenantID: tenant, ID: id, Url: e.URL,
			Description: e.Description, EventTypes: e.Types, Secret: raw})
		return wants{w.feed, w.endpoints + 1}, err
	})
	if err != nil {
		return EndpointRow{}, "", fmt.Errorf("create endpoint: %w", err)
	}
	return e, textOf(raw), nil
}

// Endpoints lists the endpoints of a tenant, oldest first.
func (r *Registry) Endpoints(ctx context.Context, tenant string) ([]EndpointRow, error) {
	return r.read(ctx, r.DB.Reader(), tenant, nil)
}

// Endpoint reads an endpoint. For another tenant's endpoint it fails with ErrNoEndpoint, as if there were none.
func (r *Registry) Endpoint(ctx context.Context, tenant string, id EndpointID) (EndpointRow, error) {
	return r.readOne(ctx, r.DB.Reader(), tenant, id)
}

// Delete deletes an endpoint. Nothing is delivered to it any more, but what is being delivered.
func (r *Registry) Delete(ctx context.Context, tenant string, id EndpointID) error {
	err := r.change(ctx, tenant, func(ctx context.Context, q *dbsqlc.Queries, w wants) (wants, error) {
		n, err := q.WithdrawEndpoint(ctx, dbsqlc.WithdrawEndpointParams{TenantID: tenant, ID: uuid.UUID(id)})
		if err == nil && n == 0 {
			err = ErrNoEndpoint
		}
		return wants{w.feed, w.endpoints - 1}, err
	})
	if err != nil {
		return fmt.Errorf("delete endpoint: %w", err)
	}
	return nil
}

// Rotate gives an endpoint another secret, and returns it. During the overlap, the old secret signs, too. If the answer
// is lost, Rotate may be called again: the secret from before the first call still signs.
func (r *Registry) Rotate(
	ctx context.Context, tenant string, id EndpointID, overlap time.Duration,
) (e EndpointRow, secret string, err error) {
	raw, err := r.newSecret()
	if err != nil {
		return EndpointRow{}, "", err
	}
	err = r.DB.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := dbsqlc.New(tx).RotateSecret(ctx, dbsqlc.RotateSecretParams{TenantID: tenant, ID: uuid.UUID(id),
			Secret: raw, Overlap: overlap})
		if err == nil {
			e, err = r.readOne(ctx, tx, tenant, id)
		}
		return err
	})
	if err != nil {
		return EndpointRow{}, "", fmt.Errorf("rotate secret: %w", err)
	}
	return e, textOf(raw), nil
}

// Enable enables an endpoint again. What has waited for it is delivered. An endpoint that is enabled is not changed.
// operator is the operator who asks, for the audit; "" if the merchant asks.
func (r *Registry) Enable(
	ctx context.Context, tenant string, id EndpointID, operator string,
) (e EndpointRow, changed bool, err error) {
	err = r.DB.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		n, err := dbsqlc.New(tx).EnableEndpoint(ctx, dbsqlc.EnableEndpointParams{TenantID: tenant, ID: uuid.UUID(id)})
		changed = n > 0
		if err == nil {
			e, err = r.readOne(ctx, tx, tenant, id)
		}
		if err == nil && changed {
			err = auditTx(ctx, tx, tenant, id, Action{Actor: operator, Did: "enable"})
		}
		return err
	})
	if err != nil {
		return EndpointRow{}, false, fmt.Errorf("enable endpoint: %w", err)
	}
	return e, changed, nil
}

// SetFeed says whether a tenant wants the feed of its events.
func (r *Registry) SetFeed(ctx context.Context, tenant string, enabled bool) error {
	err := r.change(ctx, tenant, func(_ context.Context, _ *dbsqlc.Queries, w wants) (wants, error) {
		return wants{enabled, w.endpoints}, nil
	})
	if err != nil {
		return fmt.Errorf("set feed: %w", err)
	}
	return nil
}

// wants is what a tenant wants: the feed, or deliveries to endpoints.
type wants struct {
	feed      bool
	endpoints int64
}

// events says that events are written for the tenant.
func (w wants) events() bool { return w.feed || w.endpoints > 0 }

// change changes what a tenant wants. Events are written from then on, or not any more.
func (r *Registry) change(
	ctx context.Context, tenant string, do func(context.Context, *dbsqlc.Queries, wants) (wants, error),
) error {
	err := r.DB.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := dbsqlc.New(tx)
		feed, err := q.LockTenant(ctx, tenant)
		if err != nil {
			return err
		}
		endpoints, err := q.CountEndpoints(ctx, tenant)
		if err != nil {
			return err
		}
		before := wants{feed, endpoints}
		w, err := do(ctx, q, before)
		if err != nil {
			return err
		}
		p := dbsqlc.SetTellsParams{ID: tenant, Feed: w.feed, Tells: w.events()}
		if w.events() && !before.events() {
			last, err := lastPlace(ctx, q, tenant)
			if err != nil {
				return err
			}
			p.FeedAfter = &last
		}
		return q.SetTells(ctx, p)
	})
	if r.Changed != nil {
		r.Changed() // also if nobody knows whether it is committed
	}
	return err
}

func (r *Registry) readOne(ctx context.Context, q postgres.DBTX, tenant string, id EndpointID) (EndpointRow, error) {
	all, err := r.read(ctx, q, tenant, (*uuid.UUID)(&id))
	if err == nil && len(all) == 0 {
		err = ErrNoEndpoint
	}
	if err != nil {
		return EndpointRow{}, err
	}
	return all[0], nil
}

func (r *Registry) read(ctx context.Context, q postgres.DBTX, tenant string, id *uuid.UUID) ([]EndpointRow, error) {
	rows, err := dbsqlc.New(q).ListEndpoints(ctx, dbsqlc.ListEndpointsParams{TenantID: tenant, ID: id,
		MaxWaiting: MaxWaiting, MaxRows: MaxEndpoints})
	if err != nil {
		return nil, fmt.Errorf("read endpoints: %w", err)
	}
	all := make([]EndpointRow, len(rows))
	for i, row := range rows {
		all[i] = endpointOf(row)
	}
	return all, nil
}

func endpointOf(row dbsqlc.ListEndpointsRow) EndpointRow {
	e := EndpointRow{Tenant: row.TenantID, ID: EndpointID(row.ID), URL: row.Url, Description: row.Description,
		Types: row.EventTypes, DisabledReason: postgres.Text(row.DisabledReason), DisabledAt: row.DisabledAt,
		FailingSince: row.FailingSince, LastFailure: postgres.Text(row.LastFailure),
		Created: row.CreatedAt, Waiting: int(row.Waiting)}
	if row.Overlaps {
		e.PreviousUntil = row.PreviousUntil
	}
	return e
}

// secretBytes is how long the key of a signature is.
const secretBytes = 32

func (r *Registry) newSecret() ([]byte, error) {
	raw := make([]byte, secretBytes)
	if _, err := io.ReadFull(r.Random, raw); err != nil {
		return nil, fmt.Errorf("read randomness: %w", err)
	}
	return raw, nil
}

// textOf is a secret in the form of Standard Webhooks.
func textOf(secret []byte) string { return "whsec_" + base64.StdEncoding.EncodeToString(secret) }
