package payments

import (
	"log/slog"
	"time"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/internal/tracing"
)

// Service takes and refunds payments. It is safe for concurrent use.
type Service struct {
	Books
	newID     func() (uuid.UUID, error)
	metrics   *telemetry.Metrics
	tracer    *tracing.Tracer
	log       *slog.Logger
	publicURL string
	deadline  time.Duration
	waits     *waits
	crowds    crowds
}

// Books are the rows of payments and refunds, and what is known of the keys under which they were asked for. What moves
// a key, and who is told, is of Service.
type Books struct {
	db     *postgres.DB
	keys   *idempotency.Keys
	psps   gateway.PSPs
	groups groups
}

// Config is what a Service needs.
type Config struct {
	DB      *postgres.DB
	Keys    *idempotency.Keys
	PSPs    gateway.PSPs
	NewID   func() (uuid.UUID, error) // UUIDv7
	Metrics *telemetry.Metrics
	Tracer  *tracing.Tracer // nil: off
	Log     *slog.Logger
	// PublicURL is the base of the problem types. It is part of the stored bytes, so every process that resolves
	// payments must have the same one.
	PublicURL string
	// Deadline bounds one execution from its reservation on. A client that hangs up no longer stops the execution then.
	Deadline time.Duration
}

// New returns a Service.
func New(c Config) *Service {
	s := &Service{
		Books: Books{db: c.DB, keys: c.Keys, psps: c.PSPs}, newID: c.NewID, metrics: c.Metrics, tracer: c.Tracer,
		log: c.Log, publicURL: c.PublicURL, deadline: c.Deadline, waits: newWaits(c.Keys.Undecided),
		crowds: crowds{looks: map[asked]*look{}},
	}
	s.groups = s.newGroups()
	return s
}
