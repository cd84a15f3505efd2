package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"payonce/client"
)

// parcels is what the shop has sent for each payment. A shop has no such number; it has customers who wonder.
const parcels = `CREATE TABLE IF NOT EXISTS parcels (payment_id text PRIMARY KEY, sent int NOT NULL)`

// shop is the merchant's database, and how it takes events.
type shop struct {
	way string
	db  *sql.DB
}

// open makes the database at its first use.
func (s *shop) open(ctx context.Context, url string) error {
	at, err := pgx.ParseConfig(url)
	if err != nil || url == "" {
		return fmt.Errorf("DATABASE_URL must be the one that the demo prints: %w", err)
	}
	server := stdlib.OpenDB(*at)
	defer func() { _ = server.Close() }()
	var exists bool
	err = server.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = 'shop')").Scan(&exists)
	if err == nil && !exists {
		_, err = server.ExecContext(ctx, "CREATE DATABASE shop")
	}
	if err != nil {
		return fmt.Errorf("make the database of the shop: %w", err)
	}
	at.Database = "shop"
	s.db = stdlib.OpenDB(*at)
	_, err = s.db.ExecContext(ctx, client.ConsumerTables+parcels)
	return err
}

// take takes an event, and says what it has caused.
func (s *shop) take(ctx context.Context, e client.Event) (did string, err error) {
	if s.way == "" || s.way == "client" {
		did = "nothing new"
		err = client.Consume(ctx, s.db, e, func(tx *sql.Tx, _ client.News) (err error) {
			did, err = sendOnce(ctx, tx, e)
			return err
		})
		return did, err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if s.way == "ids" {
		done, err := tx.ExecContext(ctx, "INSERT INTO taken_events (id) VALUES ($1) ON CONFLICT DO NOTHING", e.ID)
		if err != nil {
			return "", err
		}
		if rows, err := done.RowsAffected(); err != nil || rows == 0 {
			return "nothing new", err
		}
	}
	did, err = sendByType(ctx, tx, e)
	if err == nil {
		err = tx.Commit()
	}
	return did, err
}

// sendOnce looks at what the payment is, and at what was sent for it.
func sendOnce(ctx context.Context, tx *sql.Tx, e client.Event) (did string, err error) {
	if e.Status != "succeeded" {
		return "stored", nil
	}
	done, err := tx.ExecContext(ctx, "INSERT INTO parcels VALUES ($1, 1) ON CONFLICT DO NOTHING", e.PaymentID)
	if err != nil {
		return "", err
	}
	if rows, err := done.RowsAffected(); err != nil || rows == 0 {
		return "stored", err
	}
	return "stored, and a parcel sent", nil
}

// sendByType believes that each event is new, and newer than the others.
func sendByType(ctx context.Context, tx *sql.Tx, e client.Event) (did string, err error) {
	_, err = tx.ExecContext(ctx, `INSERT INTO told_payments VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (payment_id) DO UPDATE SET payment = excluded.payment`,
		e.PaymentID, e.Version, e.Status, e.Reference, string(e.Payment))
	if err != nil || e.Type != "payment.succeeded" {
		return "stored", err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO parcels VALUES ($1, 1)
		ON CONFLICT (payment_id) DO UPDATE SET sent = parcels.sent + 1`, e.PaymentID)
	return "stored, and a parcel sent", err
}

// say says what the shop knows of a payment.
func (s *shop) say(ctx context.Context, out io.Writer, paymentID string) error {
	var sent, refunded int
	err := s.db.QueryRowContext(ctx, `SELECT coalesce(p.sent, 0), (t.payment->>'amountRefundedCents')::int
		FROM told_payments t LEFT JOIN parcels p USING (payment_id) WHERE payment_id = $1`, paymentID).Scan(&sent, &refunded)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the shop: %d sent, %d cents refunded\n", sent, refunded)
	return nil
}
