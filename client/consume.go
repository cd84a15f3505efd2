package client

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
)

// ConsumerTables are the tables of an idempotent consumer, for PostgreSQL: which events were taken, and the last
// version of each payment, refund and dispute. Events may be deleted from taken_events after a month
// (EVENTS_RETENTION).
const ConsumerTables = `
CREATE TABLE IF NOT EXISTS taken_events (
    id       text PRIMARY KEY,
    taken_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS told_payments (
    payment_id text PRIMARY KEY,
    version    bigint NOT NULL,
    status     text NOT NULL,
    reference  text NOT NULL,
    payment    jsonb NOT NULL
);
CREATE TABLE IF NOT EXISTS told_objects (
    id      text PRIMARY KEY,
    version bigint NOT NULL
);`

// News says what an event tells that was not known: the payment, or the object that it is about (a refund or a
// dispute), or both. What is not news is older than what an earlier event has told.
type News struct{ Payment, Object bool }

// Consume takes an event once, whether it comes twice, late, or out of order. newer is called in the same transaction
// if the event is the newest of its payment, refund or dispute: it does what the event is to cause, such as to mark the
// order as paid. If newer fails, nothing is taken, and the next delivery tries again. Answer the delivery with 204 when
// Consume returns nil, and not before.
//
// newer is called once for an event, and not once for an outcome: a refund's event has the payment's status, too, and
// after a restore of Payonce's database the same outcome is told by another event. So newer asks whether its work for
// the payment is done already (lab/lessons/consumer, sendOnce).
//
// What newer does outside of the transaction may happen twice: an email, a call. Write it down in the transaction, and
// send it from there.
func Consume(ctx context.Context, db *sql.DB, e Event, newer func(tx *sql.Tx, n News) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("take event %s: %w", e.ID, err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	// Of two deliveries at the same time, the second waits here for the end of the first.
	taken, err := wrote(ctx, tx, "INSERT INTO taken_events (id) VALUES ($1) ON CONFLICT DO NOTHING", e.ID)
	if err != nil || !taken {
		return err // taken before
	}
	var n News
	n.Payment, err = wrote(ctx, tx, `INSERT INTO told_payments AS p (payment_id, version, status, reference, payment)
		VALUES ($1, $2, $3, $4, $5) ON CONFLICT (payment_id) DO UPDATE SET version = excluded.version,
		status = excluded.status, payment = excluded.payment WHERE p.version < excluded.version`,
		e.PaymentID, e.Version, e.Status, e.Reference, string(e.Payment))
	if object := cmp.Or(e.RefundID, e.DisputeID); err == nil && object != "" {
		n.Object, err = wrote(ctx, tx, `INSERT INTO told_objects AS o (id, version) VALUES ($1, $2)
			ON CONFLICT (id) DO UPDATE SET version = excluded.version WHERE o.version < excluded.version`,
			e.PaymentID+" "+object, e.Version) // A PSP may count its disputes by payment.
	}
	if err == nil && n != (News{}) {
		err = newer(tx, n)
	}
	if err != nil {
		return fmt.Errorf("take event %s: %w", e.ID, err)
	}
	return tx.Commit()
}

// wrote reports whether a statement has written its row.
func wrote(ctx context.Context, tx *sql.Tx, statement string, args ...any) (bool, error) {
	done, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, err
	}
	rows, err := done.RowsAffected()
	return rows > 0, err
}
