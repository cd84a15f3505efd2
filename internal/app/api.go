// Package app puts the processes together: it makes the parts, hands each its dependencies, and owns the order of starting
// and stopping. cmd/api and cmd/demo run the same processes from here. It holds no logic of any part.
package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/config"
	"payonce/internal/gateway"
	"payonce/internal/httpapi"
	"payonce/internal/idempotency"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/internal/tenants"
)

// API is one API process, made but not yet listening.
type API struct {
	settings config.API
	log      *slog.Logger
	db       *postgres.DB
	psp      *gateway.Client
	public   *httpapi.API
	operator http.Handler
	checks   map[string]func(context.Context) error // of readiness
	leaving  atomic.Bool
}

// answerMargin is what remains of the server's write timeout for the answer, when an execution has used up its deadline.
const answerMargin = 5 * time.Second

// NewID makes a UUIDv7 from the system's randomness.
func NewID() (uuid.UUID, error) { return uuid.NewV7FromReader(rand.Reader) }

// NewAPI makes the parts. It connects to nothing yet.
func NewAPI(ctx context.Context, c config.API, log *slog.Logger) (*API, error) {
	limits := postgres.DefaultLimits()
	limits.MaxConns, limits.Acquire = c.DBMaxConns, c.DBAcquire
	limits.StatementTimeout, limits.LockTimeout = c.DBStatementTimeout, c.DBLockTimeout
	db, err := postgres.Open(ctx, c.DatabaseURL, limits)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	metrics := telemetry.NewMetrics(registry)
	pspLimits := gateway.DefaultLimits()
	pspLimits.Dial, pspLimits.Total, pspLimits.InFlight = c.PSPDial, c.PSPTotal, c.PSPInFlight
	pspLimits.BreakerFailures, pspLimits.BreakerOpen = c.PSPBreakerFailures, c.PSPBreakerOpen
	psp, err := gateway.New(c.PSPURL, c.PSPSecret, pspLimits, time.Now, metrics.PSPRequest)
	if err != nil {
		db.Close()
		return nil, err
	}
	telemetry.RegisterGauges(registry, telemetry.Gauges{
		PoolAcquired: func() float64 { return float64(db.Stat().AcquiredConns()) },
		PoolIdle:     func() float64 { return float64(db.Stat().IdleConns()) },
		PoolMax:      func() float64 { return float64(db.Stat().MaxConns()) },
		PSPInFlight:  func() float64 { return float64(psp.InFlight()) },
	})
	a := &API{settings: c, log: log, db: db, psp: psp}
	if err := a.assemble(registry, metrics); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *API) assemble(registry *prometheus.Registry, metrics *telemetry.Metrics) error {
	c := a.settings
	terms := idempotency.Terms{Lease: c.Lease, Retention: c.Retention, PSPMemory: c.PSPMemory}
	if err := terms.Check(); err != nil {
		return err
	}
	newest, err := postgres.SchemaVersion()
	if err != nil {
		return err
	}
	keys := idempotency.New(a.db, terms, time.Now)
	a.public = httpapi.New(httpapi.Config{
		Payments: payments.New(payments.Config{
			DB: a.db, Keys: keys, PSP: a.psp, NewID: NewID, Metrics: metrics, Log: a.log,
			PublicURL: c.PublicURL, Deadline: min(c.Lease, httpapi.WriteTimeout-answerMargin),
		}),
		Keys: keys, Directory: tenants.NewDirectory(a.db, time.Now), Metrics: metrics, Log: a.log,
		PublicURL: c.PublicURL, RequestID: requestID, Now: time.Now,
	})
	a.checks = map[string]func(context.Context) error{
		"database": a.db.Ping,
		"schema":   func(ctx context.Context) error { return a.checkSchema(ctx, newest) },
		"serving": func(context.Context) error {
			if a.leaving.Load() {
				return errors.New("shutting down")
			}
			return nil
		},
	}
	a.operator = httpapi.Operator(registry, a.checks)
	return nil
}

func (a *API) checkSchema(ctx context.Context, newest int64) error {
	applied, err := a.db.AppliedVersion(ctx)
	if err != nil {
		return errors.New("schema version not readable; run api migrate")
	}
	if applied < newest {
		return fmt.Errorf("schema is at version %d, this binary needs %d; run api migrate", applied, newest)
	}
	return nil
}

// Public is the handler of the public API.
func (a *API) Public() http.Handler { return a.public }

// Operator is the handler of the operator's side.
func (a *API) Operator() http.Handler { return a.operator }

// Close gives back what NewAPI has taken. Run does it by itself.
func (a *API) Close() { a.close() }

// Run listens and serves until ctx ends; then it finishes what is in flight, and turns everything else away. ready is called once
// both listeners are open.
func (a *API) Run(ctx context.Context, ready func()) error {
	defer a.close()
	public, err := Listen(ctx, "HTTP_ADDR", a.settings.HTTPAddr)
	if err != nil {
		return err
	}
	operator, err := Listen(ctx, "OPERATOR_ADDR", a.settings.OperatorAddr)
	if err != nil {
		_ = public.Close()
		return err
	}
	publicServer, operatorServer := httpapi.NewServer(a.public, a.log), httpapi.NewServer(a.operator, a.log)
	failed := make(chan error, 2)
	go func() { failed <- publicServer.Serve(public) }()
	go func() { failed <- operatorServer.Serve(operator) }()
	a.log.InfoContext(ctx, "serving", slog.String("public", public.Addr().String()), slog.String("operator", operator.Addr().String()))
	ready()
	go a.warnUnlessReady(ctx)

	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	return errors.Join(err, a.drain(context.WithoutCancel(ctx), publicServer, operatorServer))
}

// warnUnlessReady says at the start what /readyz would say if somebody asked.
func (a *API) warnUnlessReady(ctx context.Context) {
	for name, check := range a.checks {
		if err := check(ctx); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "not ready to take payments", slog.String("check", name), slog.Any("error", err))
		}
	}
}

// drain stops in the order that loses nothing: not ready, wait for load balancers to notice, no new requests, the rest
// finished, the operator's side last.
func (a *API) drain(ctx context.Context, public, operator *http.Server) error {
	a.leaving.Store(true)
	a.log.InfoContext(ctx, "draining")
	if a.settings.DrainDelay > 0 {
		<-time.After(a.settings.DrainDelay)
	}
	a.public.Drain()
	ctx, cancel := context.WithTimeout(ctx, a.settings.DrainLimit)
	defer cancel()
	err := public.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("payments still in flight after %s: %w", a.settings.DrainLimit, err)
		_ = public.Close()
	}
	_ = operator.Close()
	a.log.InfoContext(ctx, "stopped")
	return err
}

func (a *API) close() {
	a.psp.Close()
	a.db.Close()
}

// Listen opens addr, or says which setting names another one.
func Listen(ctx context.Context, setting, addr string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s=%s is taken by another process; set %s to a free address, such as 127.0.0.1:18080", setting, addr, setting)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s=%s: %w", setting, addr, err)
	}
	return l, nil
}

func requestID() string { return "req_" + rand.Text() }
