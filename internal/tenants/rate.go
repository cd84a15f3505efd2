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

// Tenant is a tenant as its administrator sees it. Its id, its provider and its account never change: its unknown
// payments are looked up there.
type Tenant struct {
	ID                string
	PSP               PSP
	PSPAccount        string // no two tenants have the same, not even at two providers
	RequestsPerSecond int
	Burst             int
	Created           time.Time
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
		Burst: int(row.RequestBurst), Created: row.CreatedAt,
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
