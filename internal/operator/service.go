package operator

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/tracing"
)

// Service lists dead letters and carries out operators' decisions about them. It is safe for concurrent use.
type Service struct {
	config Config
	lists  chan struct{} // has room for the long lists that are being read
}

// Config is what a Service needs. Requeue, Reprocess and Reconsider are the retries of dead letters that are not about
// an unknown key. They run in the operator's transaction. If the hook for a retry is nil, or returns
// deadletters.ErrGone or deadletters.ErrQueued, the retry is refused.
type Config struct {
	DB       *postgres.DB
	Keys     *idempotency.Keys
	PSPs     gateway.PSPs // they read the webhooks of the lists
	Payments *payments.Service
	Tracer   *tracing.Tracer // nil: off
	Log      *slog.Logger

	// Requeue makes a discarded job run again.
	Requeue func(ctx context.Context, tx pgx.Tx, jobID int64) error
	// Reprocess makes a stored webhook event be processed again. The dead letter's evidence has its id as eventId.
	Reprocess func(ctx context.Context, tx pgx.Tx, eventID string) error
	// Reconsider makes a record of the PSP's ledger be judged again. record is JSON for gateway.ParseRecord.
	Reconsider func(ctx context.Context, tx pgx.Tx, record []byte) error
	// Forget marks a stored webhook event as processed. It is called if the event's job was discarded and the dead
	// letter about that is dismissed. If it is nil, nothing is marked.
	Forget func(ctx context.Context, tx pgx.Tx, eventID string) error
}

// New returns a Service.
func New(c Config) *Service { return &Service{config: c, lists: make(chan struct{}, longLists)} }
