package tenants

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/internal/tenants/internal/dbsqlc"
)

// PSP names a payment service provider. It decides in which dialect the PSP is spoken to.
type PSP string

// The providers.
const (
	Native PSP = "native" // the dialect of the mock PSP
	Stripe PSP = "stripe"
)

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

// Check fails with ErrMalformed if the tenant cannot be. The database checks the form of the id and of the account.
func (t Tenant) Check() error {
	if t.PSP != Native && t.PSP != Stripe {
		return fmt.Errorf("provider %q is %w: it must be native or stripe", t.PSP, ErrMalformed)
	}
	return checkRate(t.RequestsPerSecond, t.Burst)
}

// Create makes a tenant. It may be called again after a failure: if the tenant exists and is what n says, nothing is
// written. It fails with ErrMalformed, ErrTenantExists or ErrAccountInUse. n.Created is not used.
func (r *Registry) Create(ctx context.Context, n Tenant) error {
	if err := n.Check(); err != nil {
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
		if n.Created = there.Created; n != there {
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
	case postgres.Violates(err, "tenants_psp_account_format"):
		return fmt.Errorf("account %q is %w: an account has 1 to 64 letters, digits, hyphens or underscores",
			t.PSPAccount, ErrMalformed)
	case postgres.Violates(err, "tenants_psp_account_key"):
		return fmt.Errorf("account %q %w: each tenant has an account of its own", t.PSPAccount, ErrAccountInUse)
	}
	return fmt.Errorf("make tenant: %w", err)
}
