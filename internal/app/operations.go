package app

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/config"
	"payonce/internal/console"
	"payonce/internal/deadletters"
	"payonce/internal/events"
	"payonce/internal/gateway"
	"payonce/internal/gateway/stripe"
	"payonce/internal/httpapi"
	"payonce/internal/httpapi/pages"
	"payonce/internal/operator"
	"payonce/internal/postgres"
	"payonce/internal/primary"
	"payonce/internal/reconcile"
	"payonce/internal/statement"
	"payonce/internal/telemetry"
	"payonce/internal/tracing"
	"payonce/internal/webhooks"
)

// What this file adds are the parts that payments do without: what operators do and see, statements, events, traces,
// and further dialects. Only this file names them. A service that does without them deletes this file.
var (
	_ extendsParts      = (*parts)(nil)
	_ extendsAPI        = (*API)(nil)
	_ extendsReconciler = (*Reconciler)(nil)
	_ Tuned             = (*API)(nil)
	_ Tuned             = (*Reconciler)(nil)
)

// Tune implements Tuned.
func (a *API) Tune(ctx context.Context, getenv func(string) string) {
	tuneMemory(getenv)
	go followLoad(ctx, getenv)
}

// Tune implements Tuned.
func (r *Reconciler) Tune(_ context.Context, getenv func(string) string) { tuneMemory(getenv) }

// Operators makes what operators ask.
func (p *parts) Operators() (*operator.Service, error) {
	queue, err := reconcile.NewQueue(p.log)
	if err != nil {
		return nil, err
	}
	// reprocess has a stored webhook processed again.
	reprocess := func(ctx context.Context, tx pgx.Tx, id string) error {
		err := webhooks.ReopenTx(ctx, tx, id)
		switch {
		case errors.Is(err, webhooks.ErrNoEvent):
			return fmt.Errorf("%w: %w", deadletters.ErrGone, err)
		case err != nil:
			return err
		}
		return queue.WebhookTx(ctx, tx, id)
	}
	return operator.New(operator.Config{
		DB: p.db, Keys: p.Keys, PSPs: p.psps, Payments: p.Payments, Tracer: p.tracer, Log: p.log,
		Requeue: queue.RetryTx, Reprocess: reprocess, Reconsider: queue.EvidenceTx, Forget: forgetWebhook,
	}), nil
}

// forgetWebhook has a stored webhook count as processed that an operator does not want to hear of again.
func forgetWebhook(ctx context.Context, tx pgx.Tx, id string) error {
	return postgres.PipelineTx(ctx, tx, webhooks.Processed(id, "dismissed"))
}

// trace has the process send its traces to a collector, if there is one.
func (p *parts) trace(ctx context.Context, c config.Shared, service string) (*tracing.Tracer, error) {
	return tracing.New(ctx, tracing.Config{
		Endpoint: c.TraceEndpoint, Ratio: c.TraceRatio, Service: service, Log: p.log,
	})
}

// follow has the pool find the primary, if the connection string names several hosts.
func (p *parts) follow(cfg *pgxpool.Config) (end func()) { return primary.Follow(cfg, time.Now, p.log) }

// addDialects adds the providers of further dialects, where we have a secret.
func (p *parts) addDialects(ctx context.Context, psps gateway.PSPs, c config.API) (err error) {
	installation := func() string {
		id, _ := p.db.Installation(ctx) // checkSchema says why it cannot be read.
		return id
	}
	further := gateway.PSPs{}
	if c.StripeSecret != "" {
		if further[stripe.Name], err = stripe.New(stripe.Config{
			URL: c.StripeURL, Secret: c.StripeSecret, WebhookSecrets: c.StripeWebhookSecrets,
			Limits: limitsOf(c.Shared), Now: time.Now, Installation: installation,
		}); err != nil {
			return fmt.Errorf("STRIPE_…: %w", err)
		}
	}
	for name, psp := range further {
		if most := psp.Traits().KeyMemory; c.PSPMemory > most {
			return fmt.Errorf("PSP_KEY_MEMORY (%s) must not exceed %s, which is how long %s recognises a key",
				c.PSPMemory, most, name)
		}
		psps[name] = gateway.Observed(psp, time.Now, p.metrics.PSPRequest)
	}
	return nil
}

// addReceivers adds who takes the webhooks of further dialects in, by the last part of their path.
func (a *API) addReceivers(all map[string]*webhooks.Receiver) {
	all["stripe"] = a.receiver(stripe.Name, a.settings.StripeWebhookSecrets)
}

// extend adds to the public API what people read, what the console remembers of its requests, and what merchants ask
// about their events. The operator's side of an API has the console.
func (a *API) extend(public *httpapi.Config) (http.Handler, error) {
	c, recent := a.settings, console.NewRecent(time.Now())
	operators, err := a.Operators()
	if err != nil {
		return nil, err
	}
	public.Remember = recent.Add
	public.Pages = pages.Handler(pages.Addresses{Public: c.PublicURL, Operator: c.OperatorURL(), PSP: c.PSPPage},
		httpapi.OpenAPI)
	public.Further = httpapi.Events(a.events())
	console, err := a.console(operators, recent)
	return a.operatorSide(httpapi.OperatorConfig{Operators: operators, Checks: a.checks, OperatorURL: c.OperatorURL(),
		PSPPage: c.PSPPage, Console: console}, c.PublicURL), err
}

// events is what merchants ask about their events, and operators.
func (a *API) events() *events.Registry {
	return &events.Registry{DB: a.db, Books: &a.Payments.Books, Addresses: addressesOf(a.settings.Shared), NewID: NewID,
		Changed: a.directory.Forget, Random: cryptorand.Reader}
}

// backlog is the operator's summary in the words of the metrics.
func backlog(ctx context.Context, operators *operator.Service) (telemetry.Backlog, error) {
	s, err := operators.Summary(ctx)
	if err != nil {
		return telemetry.Backlog{}, err
	}
	b := telemetry.Backlog{
		Keys: map[string]int64{}, OldestUnknown: s.OldestUnknown,
		DeadLettersOpen: map[string]int64{}, OldestDeadLetter: s.DeadLetters.Oldest,
		WebhooksWaiting: s.Webhooks.Count, OldestWebhook: s.Webhooks.Oldest,
		JobsByState: s.Jobs, LookupsOverdueBy: s.Lookups.Oldest, OldestEvent: s.OldestEvent,
	}
	for status, n := range s.Keys {
		b.Keys[string(status)] = n
	}
	for kind, n := range s.DeadLetters.Open {
		b.DeadLettersOpen[string(kind)] = n
	}
	for _, w := range s.Ledger {
		b.OldestWatermark = max(b.OldestWatermark, w.Age)
	}
	return b, nil
}

// operatorSide is the handler of the operator's listener.
func (p *parts) operatorSide(c httpapi.OperatorConfig, publicURL string) http.Handler {
	telemetry.RegisterBacklog(p.registry, time.Now, func(ctx context.Context) (telemetry.Backlog, error) {
		return backlog(ctx, c.Operators)
	})
	c.Gatherer = p.registry
	c.Config = httpapi.Config{Directory: p.directory, Metrics: p.metrics, Log: p.log, PublicURL: publicURL,
		RequestID: requestID, Now: time.Now}
	return httpapi.Operator(c)
}

func (a *API) console(operators *operator.Service, recent *console.Recent) (http.Handler, error) {
	c := a.settings
	secret := []byte(c.ConsoleSecret)
	if len(secret) == 0 {
		secret = []byte(cryptorand.Text()) // The sessions of this process end with it.
	}
	pages, err := console.New(console.Config{
		Keys: a.Keys, Payments: a.Payments, Operators: operators, Events: a.events(), Directory: a.directory,
		Tracer: a.tracer, Recent: recent, Secret: secret,
		GracePeriod: c.GracePeriod(), PublicURL: c.PublicURL, DemoPage: c.DemoPage, Notice: c.Notice,
		EventsFile: c.EventsFile,
		Log:        a.log, Now: time.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("make the console: %w", err)
	}
	return pages, nil
}

// extend adds the jobs that no key's outcome depends on.
func (r *Reconciler) extend(jobs *reconcile.Config) (http.Handler, error) {
	c := r.Settings
	operators, err := r.Operators()
	if err != nil {
		return nil, err
	}
	statements, err := statement.New(r.StatementConfig())
	jobs.Further = []reconcile.Jobs{reconcile.Statements(statements), reconcile.Answered(operators.CloseAnswered),
		reconcile.Events(r.deliverer())}
	return r.operatorSide(httpapi.OperatorConfig{Operators: operators, Checks: r.readiness(), OperatorURL: c.LocalURL(),
		ConsoleURL: c.ConsoleURL}, c.PublicURL), err
}

func (r *Reconciler) deliverer() *events.Deliverer {
	return events.New(events.Config{
		DB: r.db, Books: &r.Payments.Books, Addresses: addressesOf(r.Settings.Shared),
		Timeout: r.Settings.EventsTimeout, GiveUp: r.Settings.EventsGiveUp,
		Now: time.Now, Jitter: rand.Float64, Metrics: r.metrics,
	})
}

// addressesOf says where events may be sent.
func addressesOf(c config.Shared) events.Addresses {
	a := events.Addresses{AllowHTTP: c.EventsAllowHTTP, Allow: c.EventsAllowNetworks}
	if c.EventsProxy != "" {
		a.Proxy, _ = url.Parse(c.EventsProxy) // config has checked it.
	}
	return a
}

// StatementConfig is what statements are reconciled with.
func (r *Reconciler) StatementConfig() statement.Config {
	c := statement.DefaultConfig()
	c.DB, c.PSPs, c.Payments, c.Metrics, c.NewID = r.db, r.psps, r.Payments, r.metrics, NewID
	c.Horizon = r.Settings.PSPMemory + time.Hour
	return c
}

// Jobs are the reconciler's work.
func (r *Reconciler) Jobs() *reconcile.Reconciler { return r.jobs }
