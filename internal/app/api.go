// Package app puts the processes together: it makes the parts, hands each its dependencies, and owns the order of
// starting and stopping. cmd/api and demo/supervisor run the same processes from here. It holds no logic of any part.
package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"

	"payonce/internal/config"
	"payonce/internal/httpapi"
)

// API is one API process, made but not yet listening.
type API struct {
	*parts

	settings config.API
	Public   *httpapi.API
	Operator http.Handler
	checks   httpapi.Checks // of readiness
}

// answerMargin is what remains of the server's write timeout for the answer, when an execution has used up its
// deadline.
const answerMargin = 5 * time.Second

// NewID makes a UUIDv7 from the system's randomness.
func NewID() (uuid.UUID, error) { return uuid.NewV7FromReader(rand.Reader) }

// NewAPI makes the parts. It connects to nothing yet.
func NewAPI(ctx context.Context, c config.API, log *slog.Logger) (*API, error) {
	parts, err := newParts(ctx, c, "payonce-api",
		min(c.Lease, httpapi.WriteTimeout-answerMargin)+c.Held, log)
	if err != nil {
		return nil, err
	}
	a := &API{parts: parts, settings: c}
	public := httpapi.Config{
		Payments: a.Payments, Keys: a.Keys, Directory: a.directory, Webhooks: a.receivers(), Metrics: a.metrics,
		Log:       a.log,
		PublicURL: c.PublicURL, RequestID: requestID, NewID: NewID, Tracer: a.tracer, Now: time.Now,
		InFlightWait: c.InFlightWait,
	}
	a.checks = a.readiness()
	a.Operator = httpapi.Machines(a.registry, a.checks)
	if more, ok := any(a).(extendsAPI); ok {
		if a.Operator, err = more.extend(&public); err != nil {
			a.Close()
			return nil, err
		}
	}
	a.Public = httpapi.New(public)
	a.registerGauges()
	return a, nil
}

// Run listens, and serves as Serve does.
func (a *API) Run(ctx context.Context, ready func()) error {
	opened, err := Listen(ctx, Address{"HTTP_ADDR", a.settings.HTTPAddr},
		Address{"OPERATOR_ADDR", a.settings.OperatorAddr})
	if err != nil {
		a.Close()
		return err
	}
	return a.Serve(ctx, opened[0], opened[1], ready)
}

// Serve serves on both listeners until ctx ends; then it finishes what is in flight, and turns everything else away.
// ready is called once it serves.
func (a *API) Serve(ctx context.Context, public, operator net.Listener, ready func()) error {
	defer a.Close()
	publicServer := httpapi.NewServer(a.Public, a.settings.HTTPIdle, a.log)
	publicServer.WriteTimeout += a.settings.Held
	operatorServer := httpapi.NewServer(a.Operator, a.settings.HTTPIdle, a.log)
	public = httpapi.LimitConnections(public, publicServer, maxConnections(a.settings.Shared), a.log, time.Now)
	operator = httpapi.LimitConnections(operator, operatorServer, httpapi.MaxOperatorConnections, a.log, time.Now)
	failed := make(chan error, 2)
	go func() { failed <- publicServer.Serve(public) }()
	go func() { failed <- operatorServer.Serve(operator) }()
	a.log.InfoContext(ctx, "serving", slog.String("public", public.Addr().String()),
		slog.String("operator", operator.Addr().String()))
	ready()
	go a.warnUnlessReady(ctx)
	go a.warnIfForgetful(ctx)

	var err error
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

// drain stops in the order that loses nothing: not ready, wait for load balancers to notice, no new requests, no more
// waits for an outcome, the rest finished, the operator's side last.
func (a *API) drain(ctx context.Context, public, operator *http.Server) error {
	a.leaving.Store(true)
	a.Public.Leave()
	a.log.InfoContext(ctx, "draining")
	if a.settings.DrainDelay > 0 {
		<-time.After(a.settings.DrainDelay)
	}
	a.Public.Drain()
	// The answers that follow say that their connections end. Clients send a request again whose connection just ends.
	public.SetKeepAlivesEnabled(false)
	a.Payments.EndWaits()
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

func requestID() string { return "req_" + rand.Text() }
