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
	"payonce/internal/reconcile"
	"payonce/internal/statement"
	"payonce/internal/telemetry"
	"payonce/internal/webhooks"
)

// operations are the parts that payments do without: what operators do and see, statements, and further dialects. Only
// this file names them. A service that does without them, too, deletes it, and the calls that the compiler then names.
type operations struct {
	Operators *operator.Service
	recent    *console.Recent // of an API
}

func (p *parts) addOperator() {
	p.Operators = operator.New(operator.Config{
		DB: p.db, Keys: p.Keys, PSPs: p.psps, Payments: p.Payments, Tracer: p.tracer, Log: p.log,
		Requeue: p.queue.RetryTx, Reprocess: p.reprocess, Reconsider: p.queue.EvidenceTx, Forget: forgetWebhook,
	})
}

// reprocess has a stored webhook processed again.
func (p *parts) reprocess(ctx context.Context, tx pgx.Tx, id string) error {
	err := webhooks.ReopenTx(ctx, tx, id)
	switch {
	case errors.Is(err, webhooks.ErrNoEvent):
		return fmt.Errorf("%w: %w", deadletters.ErrGone, err)
	case err != nil:
		return err
	}
	return p.queue.WebhookTx(ctx, tx, id)
}

// forgetWebhook has a stored webhook count as processed that an operator does not want to hear of again.
func forgetWebhook(ctx context.Context, tx pgx.Tx, id string) error {
	return postgres.PipelineTx(ctx, tx, webhooks.Processed(id, "dismissed"))
}

// addDialects adds the providers of further dialects, where we have a secret.
func addDialects(
	psps gateway.PSPs, c config.API, installation func() string, metrics *telemetry.Metrics,
) (err error) {
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
		psps[name] = gateway.Observed(psp, time.Now, metrics.PSPRequest)
	}
	return nil
}

// addReceivers adds who takes the webhooks of further dialects in, by the last part of their path.
func (a *API) addReceivers(all map[string]*webhooks.Receiver) {
	all["stripe"] = a.receiver(stripe.Name, a.settings.StripeWebhookSecrets)
}

// addPages adds to the public API what people read, what the console remembers of its requests, and what merchants ask
// about their events.
func (a *API) addPages(public *httpapi.Config) {
	a.recent = console.NewRecent(time.Now())
	public.Remember = a.recent.Add
	public.Pages = pages.Handler(pages.Addresses{Public: public.PublicURL, Operator: a.settings.OperatorURL(),
		PSP: a.settings.PSPPage}, httpapi.OpenAPI)
	public.Further = httpapi.Events(a.events())
}

// events is what merchants ask about their events, and operators.
func (a *API) events() *events.Registry {
	return &events.Registry{DB: a.db, Books: &a.Payments.Books, Addresses: addressesOf(a.settings.Shared), NewID: NewID,
		Changed: a.directory.Forget, Random: cryptorand.Reader}
}

// backlog is the operator's summary in the words of the metrics.
func (p *parts) backlog(ctx context.Context) (telemetry.Backlog, error) {
	s, err := p.Operators.Summary(ctx)
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

// operatorSide is the handler of the operator's listener. Every process has one. An API has the console.
func (p *parts) operatorSide(c httpapi.OperatorConfig, publicURL string) http.Handler {
	telemetry.RegisterBacklog(p.registry, time.Now, p.backlog)
	c.Operators, c.Gatherer = p.Operators, p.registry
	c.Config = httpapi.Config{Directory: p.directory, Metrics: p.metrics, Log: p.log, PublicURL: publicURL,
		RequestID: requestID, Now: time.Now}
	return httpapi.Operator(c)
}

func (a *API) console(c config.API) (http.Handler, error) {
	secret := []byte(c.ConsoleSecret)
	if len(secret) == 0 {
		secret = []byte(cryptorand.Text()) // The sessions of this process end with it.
	}
	pages, err := console.New(console.Config{
		Keys: a.Keys, Payments: a.Payments, Operators: a.Operators, Events: a.events(), Directory: a.directory,
		Tracer: a.tracer, Recent: a.recent, Secret: secret,
		GracePeriod: c.GracePeriod(), PublicURL: c.PublicURL, DemoPage: c.DemoPage, Notice: c.Notice,
		EventsFile: c.EventsFile,
		Log:        a.log, Now: time.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("make the console: %w", err)
	}
	return pages, nil
}

// furtherJobs are the reconciler's jobs that no key's outcome depends on.
func (r *Reconciler) furtherJobs() ([]reconcile.Jobs, error) {
	statements, err := statement.New(r.StatementConfig())
	return []reconcile.Jobs{reconcile.Statements(statements), reconcile.Answered(r.Operators.CloseAnswered),
		reconcile.Events(r.deliverer())}, err
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
