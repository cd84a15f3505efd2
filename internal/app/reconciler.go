package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"payonce/internal/config"
	"payonce/internal/httpapi"
	"payonce/internal/reconcile"
	"payonce/internal/webhooks"
)

// Reconciler is one reconciler process, made but not yet working.
type Reconciler struct {
	*parts

	Settings config.Reconciler
	jobs     *reconcile.Reconciler
	operator http.Handler
}

// NewReconciler makes the parts. It connects to nothing yet.
func NewReconciler(ctx context.Context, c config.Reconciler, log *slog.Logger) (*Reconciler, error) {
	parts, err := newParts(ctx, config.API{Shared: c.Shared}, "payonce-reconciler", c.Lease, log)
	if err != nil {
		return nil, err
	}
	r := &Reconciler{parts: parts, Settings: c}
	if err := r.assemble(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Reconciler) assemble() (err error) {
	c := reconcile.Config{
		DB: r.db, Keys: r.Keys, PSPs: r.psps, Payments: r.Payments, Inbox: webhooks.New(r.db, reconcile.WebhookJob()),
		NewID: NewID, Now: time.Now, Jitter: rand.Float64, Metrics: r.metrics, Tracer: r.tracer, Log: r.log,
		Reconciler: r.Settings,
	}
	r.operator = httpapi.Machines(r.registry, r.readiness())
	if more, ok := any(r).(extendsReconciler); ok {
		if r.operator, err = more.extend(&c); err != nil {
			return err
		}
	}
	r.registerGauges()
	r.jobs, err = reconcile.New(c)
	return err
}

// Run listens, and serves as Serve does.
func (r *Reconciler) Run(ctx context.Context, ready func()) error {
	opened, err := Listen(ctx, Address{"RECONCILER_ADDR", r.Settings.Addr})
	if err != nil {
		r.Close()
		return err
	}
	return r.Serve(ctx, opened[0], ready)
}

// Serve works, and serves its readiness and metrics on the listener, until ctx ends; then it finishes the jobs that it
// has. ready is called once it serves.
func (r *Reconciler) Serve(ctx context.Context, operator net.Listener, ready func()) error {
	server := httpapi.NewServer(r.operator, r.Settings.HTTPIdle, r.log)
	l := httpapi.LimitConnections(operator, server, httpapi.MaxOperatorConnections, r.log, time.Now)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve RECONCILER_ADDR: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		return errors.Join(r.Work(ctx), server.Close())
	})
	r.log.InfoContext(ctx, "reconciling", slog.String("operator", l.Addr().String()))
	ready()
	return group.Wait()
}

// Work is Serve without a listener, for programs that ask it nothing.
func (r *Reconciler) Work(ctx context.Context) error {
	defer r.Close()
	defer context.AfterFunc(ctx, func() { r.leaving.Store(true) })()
	if !r.awaitSchema(ctx) {
		return nil
	}
	go r.warnIfForgetful(ctx)
	return r.jobs.Run(ctx)
}

// awaitSchema waits until the database is there and has the schema of this binary, and says once what it waits for. It
// reports false when ctx has ended first.
func (r *Reconciler) awaitSchema(ctx context.Context) bool {
	said := false
	return await(ctx, func() bool {
		err := r.checkSchema(ctx)
		if err != nil && !said && ctx.Err() == nil {
			r.log.WarnContext(ctx, "not ready to reconcile", slog.Any("error", err))
			said = true
		}
		return err == nil
	})
}
