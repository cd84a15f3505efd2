package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"payonce/internal/config"
	"payonce/internal/deadletters"
	"payonce/internal/httpapi"
	"payonce/internal/idempotency"
	"payonce/internal/operator"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/reconcile"
	"payonce/internal/statement"
	"payonce/internal/webhooks"
)

// Reconciler is one reconciler process, made but not yet working.
type Reconciler struct {
	*parts

	settings config.Reconciler
	jobs     *reconcile.Reconciler
	operator http.Handler
}

// NewReconciler makes the parts. It connects to nothing yet. In a program that runs an API as well, t is that one's telemetry;
// otherwise it is nil.
func NewReconciler(ctx context.Context, c config.Reconciler, log *slog.Logger, t *Telemetry) (*Reconciler, error) {
	shared := t != nil
	if !shared {
		t = NewTelemetry()
	}
	parts, err := newParts(ctx, c.Shared, c.Lease, t, log)
	if err != nil {
		return nil, err
	}
	r := &Reconciler{parts: parts, settings: c}
	if err := r.assemble(shared); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *Reconciler) assemble(shared bool) error {
	c := r.settings
	statements, err := statement.New(r.StatementConfig())
	if err != nil {
		return err
	}
	r.jobs, err = reconcile.New(reconcile.Config{
		DB: r.db, Keys: r.keys, Payments: r.payments, Inbox: webhooks.New(r.db, r.queue.QueueWebhook),
		Resolver: payments.NewResolver(r.payments, payments.Patience{
			Budget: c.LookupBudget, Base: c.LookupBase, Cap: c.LookupCap, Recheck: c.LookupRecheck, Jitter: jitter,
		}),
		Statements: statements, NewID: NewID, Now: time.Now, Jitter: jitter, Metrics: r.telemetry.metrics, Log: r.log,
		Settings: reconcile.Settings{
			SweepEvery: c.SweepEvery, ClaimEvery: c.ClaimEvery, ScanEvery: c.ScanEvery, PruneEvery: c.PruneEvery,
			ScanOverlap: c.ScanOverlap, WebhookRetention: c.WebhookRetention, ResolveWorkers: c.ResolveWorkers,
			PollOnly: c.DBPooler, StopLimit: c.StopLimit,
		},
	})
	if err != nil {
		return err
	}
	if !shared {
		r.registerGauges()
	}
	r.operator = r.operatorSide(c.PublicURL, c.LocalURL(), r.readiness())
	return nil
}

// Desk is where dead letters are worked off.
func (r *Reconciler) Desk() *operator.Desk { return r.desk }

// Keys reads keys and their timelines.
func (r *Reconciler) Keys() *idempotency.Keys { return r.keys }

// Payments reads payments and refunds.
func (r *Reconciler) Payments() *payments.Service { return r.payments }

// Close gives back what NewReconciler has taken. Run does it by itself.
func (r *Reconciler) Close() { r.close() }

// StatementConfig is what statements are reconciled with.
func (r *Reconciler) StatementConfig() statement.Config {
	c := statement.DefaultConfig()
	c.DB, c.PSP, c.NewID, c.OnBreak = r.db, r.psp, NewID, r.onBreak
	c.Horizon = r.settings.PSPMemory + time.Hour
	return c
}

// onBreak counts a break that is new, and puts it on an operator's desk where money is missing or too much. Differences between two
// rows that both exist are in the report, and come as evidence by the scan.
func (r *Reconciler) onBreak(ctx context.Context, tx pgx.Tx, b statement.Break) error {
	r.telemetry.metrics.Discrepancy("statement_" + string(b.Kind))
	letter := deadletters.Letter{Subject: b.Subject}
	switch {
	case b.Kind == statement.Status && (b.Ours.Status == string(payments.Refused) || b.Ours.Status == string(payments.Failed)):
		// What is processing has a key that is being resolved. Of this, nobody would ever hear: the PSP's list may lack the record.
		letter.Kind, letter.Finding = deadletters.ContradictsCompleted, "record "+b.Account+" "+b.PSPID
		letter.Reason = "the PSP's statement has moved money for a " + string(b.Object) + " that is " + b.Ours.Status + " here"
	case b.Kind == statement.MissingHere:
		letter.Kind, letter.Finding = deadletters.UnknownMovement, "record "+b.Account+" "+b.PSPID
		letter.Reason = "the PSP's statement has a " + string(b.Object) + " that nothing of ours asked for"
		if b.OtherTenant {
			letter.Kind, letter.Subject = deadletters.OtherAccount, nil
			letter.Reason = "the PSP's statement names one tenant's " + string(b.Object) + " under another's account"
		}
	case b.Kind == statement.Duplicate:
		letter.Kind, letter.Finding = deadletters.DuplicateMovement, "record "+b.Account+" "+b.PSPID
		letter.Reason = "the PSP's statement has a further " + string(b.Object) + " for one of ours"
	case b.Kind == statement.PSPID:
		// It need not be a further one: to give it back may be to give back the only one.
		letter.Kind, letter.Finding = deadletters.ContradictsCompleted, "record "+b.Account+" "+b.PSPID
		letter.Reason = "the PSP's statement has a " + string(b.Object) + " of ours under another id or reference than we know"
	case b.Kind == statement.MissingThere:
		letter.Kind, letter.Finding = deadletters.MissingAtPSP, "missing "+b.Account+" "+b.Reference
		letter.Reason = "our " + string(b.Object) + " succeeded, and the PSP's statement does not have it"
	default:
		return nil
	}
	var err error
	if letter.ID, err = NewID(); err != nil {
		return fmt.Errorf("make dead letter id: %w", err)
	}
	if letter.Evidence, err = breakEvidence(b); err != nil {
		return err
	}
	batch := &pgx.Batch{}
	deadletters.QueueOpen(batch, letter)
	return postgres.SendTx(ctx, tx, batch)
}

// breakEvidence is a break as a dead letter keeps it.
func breakEvidence(b statement.Break) ([]byte, error) {
	side := b.Theirs
	if side == nil {
		side = b.Ours
	}
	kept := struct {
		Source      string `json:"source"`
		Account     string `json:"account"`
		Day         string `json:"day"`
		ID          string `json:"id"`
		Object      string `json:"object"`
		Reference   string `json:"reference"`
		AmountCents int64  `json:"amountCents,omitzero"`
		Currency    string `json:"currency,omitzero"`
		OurPSPID    string `json:"ourPspId,omitzero"`
	}{Source: "statement", Account: b.Account, Day: b.Day.Format(time.DateOnly), ID: b.PSPID, Object: string(b.Object), Reference: b.Reference}
	if side != nil {
		kept.AmountCents, kept.Currency = side.AmountMinor, side.Currency
	}
	if b.Ours != nil {
		kept.OurPSPID = b.Ours.PSPID
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("marshal break: %w", err)
	}
	return raw, nil
}

// Run works, and serves its readiness and metrics, until ctx ends; then it finishes the jobs that it has. ready is called once the
// listener is open.
func (r *Reconciler) Run(ctx context.Context, ready func()) error {
	opened, err := Listen(ctx, Address{"RECONCILER_ADDR", r.settings.Addr})
	if err != nil {
		r.close()
		return err
	}
	server := httpapi.NewServer(r.operator, r.log)
	l := httpapi.LimitConnections(opened[0], server, httpapi.MaxOperatorConnections, r.log, time.Now)
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

// Work is Run without a listener, for a program that has one already.
func (r *Reconciler) Work(ctx context.Context) error {
	defer r.close()
	defer context.AfterFunc(ctx, func() { r.leaving.Store(true) })()
	if !r.awaitSchema(ctx) {
		return nil
	}
	go r.warnIfForgetful(ctx)
	return r.jobs.Run(ctx)
}

// schemaPoll is how often a reconciler looks whether its database is ready for it.
const schemaPoll = time.Second

// awaitSchema waits until the database is there and has the schema of this binary, and says once what it waits for. It reports false
// when ctx has ended first.
func (r *Reconciler) awaitSchema(ctx context.Context) bool {
	poll := time.NewTicker(schemaPoll)
	defer poll.Stop()
	for said := false; ; {
		err := r.checkSchema(ctx)
		if err == nil {
			return true
		}
		if !said && ctx.Err() == nil {
			r.log.WarnContext(ctx, "not ready to reconcile", slog.Any("error", err))
			said = true
		}
		select {
		case <-ctx.Done():
			return false
		case <-poll.C:
		}
	}
}
