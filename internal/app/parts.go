package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/config"
	"payonce/internal/gateway"
	"payonce/internal/httpapi"
	"payonce/internal/idempotency"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/reconcile"
	"payonce/internal/telemetry"
	"payonce/internal/tenants"
	"payonce/internal/tracing"
	"payonce/internal/webhooks"
)

// parts are what the API and the reconciler are both made of.
type parts struct {
	db        *postgres.DB
	psps      gateway.PSPs
	Keys      *idempotency.Keys // reads keys and their timelines
	Payments  *payments.Service
	directory *tenants.Directory
	room      *postgres.Room
	registry  *prometheus.Registry
	metrics   *telemetry.Metrics // on the registry
	tracer    *tracing.Tracer    // nil: off
	log       *slog.Logger
	newest    int64 // schema version of this binary
	leaving   atomic.Bool
}

// Tuned is a process that follows what it has to do: how much memory it takes, and how many processors. A program of
// one process calls Tune once, which returns at once. The processes have the method if operations.go is there.
type Tuned interface {
	Tune(ctx context.Context, getenv func(string) string)
}

// The processes have these methods if operations.go is there. A service of one's own may do without the file, so no
// other file names anything that is in it.
type (
	// extendsParts adds the providers of further dialects, sends traces to a collector, and follows the primary.
	extendsParts interface {
		addDialects(ctx context.Context, psps gateway.PSPs, c config.API) error
		trace(ctx context.Context, c config.Shared, service string) (*tracing.Tracer, error)
		follow(cfg *pgxpool.Config) (end func())
	}
	// extendsAPI adds what takes the webhooks of further dialects in. It adds to the public API what payments do
	// without, and makes the operator's side.
	extendsAPI interface {
		addReceivers(all map[string]*webhooks.Receiver)
		extend(public *httpapi.Config) (operator http.Handler, err error)
	}
	// extendsReconciler adds the jobs that no key's outcome depends on, and makes the operator's side.
	extendsReconciler interface {
		extend(jobs *reconcile.Config) (operator http.Handler, err error)
	}
)

// newParts makes the parts. They connect to nothing yet. A process that takes no webhooks has no secrets of theirs.
func newParts(
	ctx context.Context, c config.API, service string, deadline time.Duration, log *slog.Logger,
) (_ *parts, err error) {
	terms := idempotency.Terms{
		Lease: c.Lease, Retention: c.Retention, PSPMemory: c.PSPMemory,
		GracePeriod: c.GracePeriod(), FirstLookup: c.FirstLookup, Audit: c.Audit,
	}
	if err := terms.Check(); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	p := &parts{registry: registry, metrics: telemetry.NewMetrics(registry), log: log}
	if p.newest, err = postgres.SchemaVersion(); err != nil {
		return nil, err
	}
	if p.db, err = p.openDB(ctx, c.Shared); err != nil {
		return nil, err
	}
	p.psps, err = p.newPSPs(ctx, c)
	if more, ok := any(p).(extendsParts); ok && err == nil {
		p.tracer, err = more.trace(ctx, c.Shared, service)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	p.Keys = idempotency.New(p.db, terms, time.Now)
	p.Payments = payments.New(payments.Config{
		DB: p.db, Keys: p.Keys, PSPs: p.psps, NewID: NewID, Metrics: p.metrics, Tracer: p.tracer, Log: log,
		PublicURL: c.PublicURL, Deadline: deadline,
	})
	p.directory = tenants.NewDirectory(p.db, time.Now)
	p.room = postgres.NewRoom(p.db, time.Now)
	return p, nil
}

func (p *parts) openDB(ctx context.Context, c config.Shared) (*postgres.DB, error) {
	limits := postgres.DefaultLimits()
	limits.MaxConns, limits.Acquire = c.DBMaxConns, c.DBAcquire
	limits.StatementTimeout, limits.LockTimeout = c.DBStatementTimeout, c.DBLockTimeout
	limits.Pooler, limits.Groups.AtOnce = c.DBPooler, c.DBCommitSlots
	if more, ok := any(p).(extendsParts); ok {
		limits.Follow = more.follow
	}
	return postgres.Open(ctx, c.DatabaseURL, limits)
}

// registerGauges adds the figures that are read when they are asked for.
func (p *parts) registerGauges() {
	telemetry.RegisterGauges(p.registry, telemetry.Gauges{
		PoolAcquired:       func() float64 { return float64(p.db.Stat().AcquiredConns()) },
		PoolIdle:           func() float64 { return float64(p.db.Stat().IdleConns()) },
		PoolMax:            func() float64 { return float64(p.db.Stat().MaxConns()) },
		CommitSlotsBusy:    func() float64 { busy, _ := p.db.CommitSlots(); return float64(busy) },
		CommitSlotsWaiting: func() float64 { _, waiting := p.db.CommitSlots(); return float64(waiting) },
		PSPInFlight:        func() float64 { return float64(p.psps.InFlight()) },
		RequestsWaiting:    func() float64 { return float64(p.Payments.Waiting()) },
	})
}

// readiness is what /readyz asks: the parts, and whether the process is on its way out.
func (p *parts) readiness() httpapi.Checks {
	return httpapi.Checks{
		"database": p.db.Ping,
		"schema":   p.checkSchema,
		"disk":     p.room.Check,
		"serving": func(context.Context) error {
			if p.leaving.Load() {
				return errors.New("shutting down")
			}
			return nil
		},
	}
}

func (p *parts) checkSchema(ctx context.Context) error {
	applied, err := p.db.AppliedVersion(ctx)
	if err != nil {
		return errors.New("schema version not readable; run api migrate")
	}
	if applied < p.newest {
		return fmt.Errorf("schema is at version %d, this binary needs %d; run api migrate", applied, p.newest)
	}
	err = p.db.CheckInstallation(ctx)
	if err != nil && !errors.Is(err, postgres.ErrOtherInstallation) {
		return errors.New("id of the installation not readable; run api migrate")
	}
	return err
}

// Close gives back what the parts have taken. Run does it by itself.
func (p *parts) Close() {
	p.psps.Close()
	p.db.Close()
	p.tracer.Close()
}

// schemaPoll is how often a process looks whether its database is ready for it.
const schemaPoll = time.Second

// await calls done again and again until it returns true. It reports false if ctx has ended first.
func await(ctx context.Context, done func() bool) bool {
	for !done() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(schemaPoll):
		}
	}
	return true
}

// warnIfForgetful says once that the server may lose what it acknowledges; see docs/failover.md. It refuses nothing:
// who tries things out may want the speed. It waits for a database that is not there yet.
func (p *parts) warnIfForgetful(ctx context.Context) {
	await(ctx, func() bool {
		settings, err := p.db.Forgetful(ctx)
		if len(settings) > 0 {
			p.log.WarnContext(ctx,
				"this PostgreSQL may forget payments that it has acknowledged, when it crashes or fails over",
				slog.String("settings", strings.Join(settings, ", ")))
		}
		return err == nil
	})
}
