package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// schema is created at each start. The lock is for two processes that start at once: IF NOT EXISTS alone lets one of
// them fail.
//
// Fault 6: the answer as jsonb. PostgreSQL keeps what it means and not what it was: a replay has other bytes, in
// another order, and no header of the first answer. A client that compares or verifies a signature sees two answers.
const schema = `
SELECT pg_advisory_xact_lock(hashtext('lab/naive'));
CREATE SCHEMA IF NOT EXISTS naive;
CREATE TABLE IF NOT EXISTS naive.payments (
	seq            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id             text        NOT NULL UNIQUE,
	tenant         text        NOT NULL,
	key            text        NOT NULL,
	status         text        NOT NULL,
	customer_id    text        NOT NULL,
	amount_cents   bigint      NOT NULL,
	currency       text        NOT NULL,
	payment_method text        NOT NULL,
	description    text        NOT NULL,
	metadata       jsonb       NOT NULL,
	psp_charge_id  text        NOT NULL,
	decline_code   text        NOT NULL,
	created_at     timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS payments_tenant ON naive.payments (tenant, seq);
CREATE TABLE IF NOT EXISTS naive.naive_keys (
	tenant     text        NOT NULL,
	key        text        NOT NULL,
	status     int         NOT NULL,
	response   jsonb       NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (tenant, key)
);`

const (
	maxConns = 16
	// tries is how often a transaction is run whose trouble passes.
	tries = 3
)

// store is the two tables.
type store struct{ pool *pgxpool.Pool }

func openStore(ctx context.Context, databaseURL string) (*store, error) {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("read DATABASE_URL: %w", err) // pgx leaves the password out
	}
	config.MaxConns = maxConns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if _, err := pool.Exec(ctx, schema); err != nil {
		pool.Close()
		return nil, fmt.Errorf("create tables: %w", err)
	}
	return &store{pool}, nil
}

func (s *store) close() { s.pool.Close() }

// inTransaction runs fn in a transaction, and runs it again when the trouble is one that passes.
func (s *store) inTransaction(ctx context.Context, fn func(pgx.Tx) error) error {
	var err error
	for range tries {
		if err = pgx.BeginFunc(ctx, s.pool, fn); err == nil || ctx.Err() != nil || !passes(err) {
			break
		}
	}
	return err
}

// passes tells trouble that passes: a lost race, and a connection that broke.
func passes(err error) bool {
	if _, ok := errors.AsType[*pspError](err); ok {
		return false
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refused.Code == "40001" || refused.Code == "40P01" // serialization failure, deadlock
	}
	// Fault 9: an error of COMMIT is believed. A connection that broke at the COMMIT says that its acknowledgement was
	// lost, not that nothing was written. Run again, fn charges again: two charges from one request, and a client that
	// did nothing wrong.
	return true
}

// find is the answer that a key has. Without one the error is pgx.ErrNoRows.
func (s *store) find(ctx context.Context, tenant, key string) (answer, error) {
	var a answer
	err := s.pool.QueryRow(ctx, `SELECT status, response FROM naive.naive_keys WHERE tenant = $1 AND key = $2`, tenant,
		key).
		Scan(&a.status, (*json.RawMessage)(&a.body))
	a.contentType = jsonType
	if a.status >= http.StatusBadRequest {
		a.contentType = problemType
	}
	return a, err
}

// insertKeyTx remembers an answer. A key that another request has remembered meanwhile is left as it is: both have
// paid.
func insertKeyTx(ctx context.Context, tx pgx.Tx, tenant, key string, a answer) error {
	_, err := tx.Exec(ctx,
		`INSERT INTO naive.naive_keys (tenant, key, status, response) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		tenant, key, a.status, json.RawMessage(a.body))
	return err
}

func insertPaymentTx(ctx context.Context, tx pgx.Tx, tenant, key string, p payment) error {
	metadata := p.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	createdAt, err := time.Parse(timeLayout, p.CreatedAt)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO naive.payments (id, tenant, key, status, customer_id, amount_cents, currency, payment_method,
			description, metadata, psp_charge_id, decline_code, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		p.ID, tenant, key, p.Status, p.CustomerID, p.AmountCents, p.Currency, p.PaymentMethod,
		p.Description, metadata, p.PSPChargeID, p.DeclineCode, createdAt)
	return err
}
