package main

import (
	"context"
	"errors"
	"time"

	"payonce/demo/controls"
	"payonce/internal/idempotency"
	"payonce/internal/payments"
	"payonce/internal/postgres"
)

// tenant is whose payments the page sends.
const tenant = "acme"

// rows reads rows for the page with the buttons, on a connection of its own: it must answer while the API is killed.
type rows struct {
	db   *postgres.DB
	keys *idempotency.Keys
}

func openRows(ctx context.Context, url string) (*rows, error) {
	limits := postgres.DefaultLimits()
	limits.MaxConns = 1
	db, err := postgres.Open(ctx, url, limits)
	if err != nil {
		return nil, err
	}
	// Nothing is reserved through this store, so it needs no terms.
	return &rows{db, idempotency.New(db, idempotency.Terms{}, time.Now)}, nil
}

func (r *rows) close() { r.db.Close() }

// read reads the row of a payment's key. A key that does not exist has the zero row.
func (r *rows) read(ctx context.Context, key string) (controls.Row, error) {
	row, err := r.keys.Find(ctx, idempotency.StoredRef(tenant, payments.CreateOperation, key))
	if errors.Is(err, idempotency.ErrNoKey) {
		return controls.Row{}, nil
	}
	if err != nil {
		return controls.Row{}, err
	}
	found := controls.Row{Status: row.Status}
	if row.LockedUntil != nil {
		found.LeaseEnd = *row.LockedUntil
	}
	return found, nil
}
