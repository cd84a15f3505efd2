package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	connectTimeout = 10 * time.Second
	drainTimeout   = 20 * time.Second
)

// schema is the application's own. The primary key is the only index: DBOS holds the keys, so a unique one here would
// be work that a user of DBOS does not pay for. The name keeps clear of the payments table of Payonce.
const schema = `
CREATE SCHEMA IF NOT EXISTS lab_dbos;
CREATE TABLE IF NOT EXISTS lab_dbos.payments (
	payment_id      uuid PRIMARY KEY,
	idempotency_key text NOT NULL,
	customer_id     text NOT NULL,
	amount_cents    bigint NOT NULL CHECK (amount_cents > 0),
	currency        text NOT NULL,
	status          text NOT NULL CHECK (status IN ('processing', 'succeeded')),
	psp_charge_id   text,
	created_at      timestamptz NOT NULL,
	completed_at    timestamptz
) WITH (fillfactor = 90)`

// peer is the program: one pool, and the DBOS context that shares it.
type peer struct {
	pool     *pgxpool.Pool
	dbos     dbos.Context
	source   *dbos.DataSource
	plain    bool // writes are plain steps instead of transactions
	pspDelay time.Duration
}

// open makes the tables, launches DBOS and with it the recovery of workflows that an earlier process left pending.
func open(ctx context.Context, s settings, logs io.Writer) (*peer, error) {
	pool, err := connect(ctx, s)
	if err != nil {
		return nil, err
	}
	p := &peer{pool: pool, plain: s.plainSteps, pspDelay: s.pspDelay}
	if err := p.launch(ctx, logs); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func connect(ctx context.Context, s settings) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(s.databaseURL)
	if err != nil {
		return nil, fmt.Errorf("read DATABASE_URL: %w", err)
	}
	config.MaxConns = s.maxConns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open pool: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if _, err := pool.Exec(ctx, schema); err != nil {
		pool.Close()
		return nil, fmt.Errorf("create the application's table in DATABASE_URL: %w", err)
	}
	return pool, nil
}

func (p *peer) launch(ctx context.Context, logs io.Writer) error {
	// A cancelled context makes DBOS cancel the workflows that run in it, for good. A signal must let them finish
	// instead.
	ctx = context.WithoutCancel(ctx)
	var err error
	p.dbos, err = dbos.NewContext(ctx, dbos.Config{
		AppName:      "payonce-lab",
		SystemDBPool: p.pool,
		Logger:       slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return fmt.Errorf("open DBOS: %w", err)
	}
	// The very pool of the system database: then a transaction and its checkpoint share one commit.
	if p.source, err = dbos.NewDataSource(p.dbos, p.pool); err != nil {
		return fmt.Errorf("open data source: %w", err)
	}
	dbos.RegisterWorkflow(p.dbos, p.pay, dbos.WithWorkflowName("pay"))
	if err := dbos.Launch(p.dbos); err != nil {
		return fmt.Errorf("launch DBOS: %w", err)
	}
	return nil
}

// close waits for workflows in flight, then closes the pool. After a stop that ran out of time the pool stays open:
// closing it waits for every connection, so it might never return.
func (p *peer) close() error {
	if p.dbos != nil {
		if err := dbos.Shutdown(p.dbos, drainTimeout); err != nil {
			return fmt.Errorf("stop DBOS: %w", err)
		}
	}
	p.pool.Close()
	return nil
}
