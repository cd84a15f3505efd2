package operator

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency"
	"payonce/internal/payments"
	"payonce/internal/postgres"
)

// Desk is where dead letters are worked off. It is safe for concurrent use.
type Desk struct {
	db         *postgres.DB
	keys       *idempotency.Keys
	payments   *payments.Service
	log        *slog.Logger
	requeue    func(ctx context.Context, tx pgx.Tx, jobID int64) error
	reprocess  func(ctx context.Context, tx pgx.Tx, eventID string) error
	reconsider func(ctx context.Context, tx pgx.Tx, record []byte) error
	forget     func(ctx context.Context, tx pgx.Tx, eventID string) error
}

// ErrGone is what a hook of Config answers when there is nothing left to do again, such as a job that the queue has forgotten.
var ErrGone = errors.New("there is nothing left to do again")

// ErrQueued is what a hook of Config answers when what it should have done again is about to be done.
var ErrQueued = errors.New("it is about to be done again")

// Config is what a Desk is made of. The last three do the retries of letters that are about no unknown key, in the operator's
// transaction. A retry that has none of them, or is told ErrGone, is refused.
type Config struct {
	DB       *postgres.DB
	Keys     *idempotency.Keys
	Payments *payments.Service
	Log      *slog.Logger

	// Requeue has a discarded job run again.
	Requeue func(ctx context.Context, tx pgx.Tx, jobID int64) error
	// Reprocess has a stored webhook event processed again. The letter's evidence names it as eventId.
	Reprocess func(ctx context.Context, tx pgx.Tx, eventID string) error
	// Reconsider has a record of the PSP's ledger settled again. It is JSON that gateway.ParseRecord takes.
	Reconsider func(ctx context.Context, tx pgx.Tx, record []byte) error
	// Forget has a stored webhook event count as processed, whose job was given up and whose letter is dismissed. nil does nothing.
	Forget func(ctx context.Context, tx pgx.Tx, eventID string) error
}

// New returns a Desk.
func New(c Config) *Desk {
	return &Desk{
		db: c.DB, keys: c.Keys, payments: c.Payments, log: c.Log,
		requeue: c.Requeue, reprocess: c.Reprocess, reconsider: c.Reconsider, forget: c.Forget,
	}
}
