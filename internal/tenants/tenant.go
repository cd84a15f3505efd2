package tenants

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/internal/tenants/internal/dbsqlc"
)

// PSP names a payment service provider. It decides in which dialect the PSP is spoken to.
type PSP string

// The providers that some code knows by name. Any other name is as good here: config says which providers there are.
const (
	Native PSP = "native" // the dialect of the mock PSP
	Stripe PSP = "stripe"
)

// Tenant is a tenant as its administrator sees it. Its id, its provider and its account never change: its unknown
// payments are looked up there.
type Tenant struct {
	ID                string
	PSP               PSP
	PSPAccount        string // no two tenants have the same, not even at two providers
	RequestsPerSecond int
	Burst             int
	Feed, Tells       bool // the tenant wants the feed of its events; events are written for it
	Created           time.Time
}

// The rate limits of a tenant that EnsureTenant makes.
const (
	DefaultRate  = 50
	DefaultBurst = 100
)

// The errors of Create. Each is wrapped in an error that says more.
var (
	ErrTenantExists = errors.New("exists")
	ErrAccountInUse = errors.New("is in use by another tenant")
)

// Create makes a tenant. It may be called again after a failure: if the tenant exists and is what n says, nothing is
// written. It fails with ErrMalformed, ErrTenantExists or ErrAccountInUse. n.Created is not used, and neither is what
// the tenant wants to hear.
func (r *Registry) Create(ctx context.Context, n Tenant) error {
	if err := checkRate(n.RequestsPerSecond, n.Burst); err != nil {
		return err
	}
	p := dbsqlc.CreateTenantParams{
		ID: n.ID, Psp: string(n.PSP), PspAccount: n.PSPAccount,
		RequestsPerSecond: int32(n.RequestsPerSecond), //nolint:gosec // bounded by MaxRate
		RequestBurst:      int32(n.Burst),             //nolint:gosec // bounded by MaxRate
	}
	err := r.db.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := dbsqlc.New(tx).CreateTenant(ctx, p)
		if errors.Is(err, pgx.ErrNoRows) { // Another process has just made it.
			row, err = dbsqlc.New(tx).CreateTenant(ctx, p)
		}
		if err != nil {
			return err
		}
		there := tenantOf(dbsqlc.Tenant(row))
		n.Created, n.Feed, n.Tells = there.Created, there.Feed, there.Tells
		if n != there {
			return fmt.Errorf("tenant %q %w, at provider %s with account %s, %d requests per second and burst %d",
				there.ID, ErrTenantExists, there.PSP, there.PSPAccount, there.RequestsPerSecond, there.Burst)
		}
		return nil
	})
	return n.refusal(err)
}

// EnsureTenant makes the tenant at the native provider, with an account of the same name there, unless it exists.
func (r *Registry) EnsureTenant(ctx context.Context, id string) error {
	err := r.Create(ctx, Tenant{ID: id, PSP: Native, PSPAccount: id, RequestsPerSecond: DefaultRate,
		Burst: DefaultBurst})
	if errors.Is(err, ErrTenantExists) {
		return nil
	}
	return err
}

// refusal translates the violation of a constraint.
func (t Tenant) refusal(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrTenantExists):
		return err
	case postgres.Violates(err, "tenants_id_format"):
		return fmt.Errorf("tenant %q is %w: an id is a lower-case letter and up to 30 lower-case letters, digits or hyphens",
			t.ID, ErrMalformed)
	case postgres.Violates(err, "tenants_psp_format"):
		return fmt.Errorf("provider %q is %w: it has no name of a provider", t.PSP, ErrMalformed)
	case postgres.Violates(err, "tenants_psp_account_format"):
		return fmt.Errorf("account %q is %w: an account has 1 to 64 letters, digits, hyphens or underscores",
			t.PSPAccount, ErrMalformed)
	case postgres.Violates(err, "tenants_psp_account_key"):
		return fmt.Errorf("account %q %w: each tenant has an account of its own", t.PSPAccount, ErrAccountInUse)
	}
	return fmt.Errorf("make tenant: %w", err)
}

// Tenants lists the tenants by their ids, at most 1000.
func (r *Registry) Tenants(ctx context.Context) ([]Tenant, error) {
	return list(ctx, r.db, maxListed, tenantOf)
}

// IDs lists the ids of all tenants.
func IDs(ctx context.Context, db *postgres.DB) ([]string, error) {
	return list(ctx, db, math.MaxInt32, func(t dbsqlc.Tenant) string { return t.ID })
}

func list[T any](ctx context.Context, db *postgres.DB, limit int32, show func(dbsqlc.Tenant) T) ([]T, error) {
	rows, err := dbsqlc.New(db.Reader()).ListTenants(ctx, limit)
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	var all []T
	for _, t := range rows {
		all = append(all, show(t))
	}
	return all, nil
}

func tenantOf(row dbsqlc.Tenant) Tenant {
	return Tenant{
		ID: row.ID, PSP: PSP(row.Psp), PSPAccount: row.PspAccount, RequestsPerSecond: int(row.RequestsPerSecond),
		Burst: int(row.RequestBurst), Feed: row.Feed, Tells: row.Tells, Created: row.CreatedAt,
	}
}

// checkRate fails with ErrMalformed if a rate limit or a burst is not from 1 to MaxRate.
func checkRate(perSecond, burst int) error {
	for _, n := range []int{perSecond, burst} {
		if n < 1 || n > MaxRate {
			return fmt.Errorf("rate limit %d is %w: it must be from 1 to %d", n, ErrMalformed, MaxRate)
		}
	}
	return nil
}

// SetRate sets how many requests a second a tenant may make on each API process, and how many at once after a pause,
// both from 1 to MaxRate. It fails with ErrNoTenant when there is none of this id. A Directory notices within 5
// seconds.
func (r *Registry) SetRate(ctx context.Context, tenant string, perSecond, burst int) error {
	if err := checkRate(perSecond, burst); err != nil {
		return err
	}
	err := r.db.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		changed, err := dbsqlc.New(tx).SetRate(ctx, dbsqlc.SetRateParams{
			ID:                tenant,
			RequestsPerSecond: int32(perSecond), //nolint:gosec // bounded by MaxRate
			RequestBurst:      int32(burst),     //nolint:gosec // bounded by MaxRate
		})
		if err == nil && changed == 0 {
			return ErrNoTenant
		}
		return err
	})
	if err != nil && !errors.Is(err, ErrNoTenant) {
		return fmt.Errorf("set rate limit: %w", err)
	}
	return err
}
