package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"payonce/internal/deadletters"
	"payonce/internal/httpapi/pages"
	"payonce/internal/operator"
	"payonce/internal/postgres"
	"payonce/internal/problem"
	"payonce/internal/query"
	"payonce/internal/telemetry"
	"payonce/internal/tenants"
)

// readyLimit bounds one readiness check.
const readyLimit = 2 * time.Second

// OperatorConfig is what the operator's side needs.
type OperatorConfig struct {
	Operators *operator.Service
	Directory *tenants.Directory
	Gatherer  prometheus.Gatherer // for /metrics
	// Checks are the checks of /readyz, with their names.
	Checks    map[string]func(context.Context) error
	Metrics   *telemetry.Metrics
	Console   http.Handler // the pages below /console/; nil for none
	Log       *slog.Logger
	PublicURL string        // the base of the problem types, whose pages are on the public side
	URL       string        // the address of this listener, for people who read the pages
	RequestID func() string // returns a new id for each request
	Now       func() time.Time
}

// ops is the operator's side. It uses the methods of API that both sides need.
type ops struct {
	*API
	operator *operator.Service
}

// Operator is the handler of the operator's listener. /livez checks only the process, and /readyz runs the checks.
// Neither these two nor /metrics and /docs need a login, because they are for machines and people on a private network.
// Everything below /operator needs an operator's API key, and the console a session, which begins with such a key.
func Operator(c OperatorConfig) http.Handler {
	d := &ops{operator: c.Operators, API: &API{
		directory: c.Directory, metrics: c.Metrics, log: c.Log, publicURL: c.PublicURL, requestID: c.RequestID,
		now: c.Now,
	}}
	r := chi.NewRouter()
	r.Use(middleware.GetHead)
	r.Get("/livez", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
	})
	r.Get("/readyz", func(w http.ResponseWriter, r *http.Request) { ready(w, r, c.Checks) })
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(c.Gatherer, promhttp.HandlerOpts{}))

	every := chi.Chain(d.identify, d.observe, d.recoverPanics)
	r.NotFound(every.HandlerFunc(d.nothing).ServeHTTP)
	r.MethodNotAllowed(every.HandlerFunc(d.otherMethod).ServeHTTP)
	r.Group(func(r chi.Router) {
		r.Use(every...)
		// A tenant's key is refused here, even if it is valid.
		isOperator := func(p tenants.Principal) bool { return p.Tenant == "" }
		reading := d.admit(tenants.OpsRead, isOperator, d.answerError)
		resolving := d.admit(tenants.OpsResolve, isOperator, d.answerError)
		r.With(reading).Get("/operator/summary", d.summary)
		r.With(reading).Get("/operator/keys", listing(d, d.operator.Keys()))
		r.With(reading).Get("/operator/payments", listing(d, d.operator.Payments()))
		r.With(reading).Get("/operator/webhooks", listing(d, d.operator.Webhooks()))
		r.With(reading).Get("/operator/statements", listing(d, d.operator.Statements()))
		r.With(reading).Get("/operator/breaks", listing(d, d.operator.Breaks()))
		r.With(reading).Get("/operator/search", listing(d, d.operator.Search()))
		r.With(reading).Get("/operator/dead-letters", listing(d, d.operator.DeadLetters()))
		r.With(resolving).Post("/operator/dead-letters/plan", d.plan)
		r.With(resolving).Post("/operator/dead-letters/run", d.runPlan)
		r.With(reading).Get("/operator/dead-letters/{deadLetterId}", d.showDeadLetter)
		r.With(resolving).Post("/operator/dead-letters/{deadLetterId}/resolve", d.resolveDeadLetter)
		at := pages.Addresses{Public: c.PublicURL, Operator: operatorOr(c.URL)}
		static := pages.OperatorHandler(at, func() []byte { return publishedToOperators(at) },
			http.HandlerFunc(d.nothing))
		for _, path := range []string{"/docs", "/docs/*", "/openapi.yaml"} {
			r.Method(http.MethodGet, path, static)
		}
		if c.Console != nil {
			r.Get("/console", c.Console.ServeHTTP)
			r.Get("/console/*", c.Console.ServeHTTP)
			r.Post("/console/*", c.Console.ServeHTTP)
			r.Get("/", http.RedirectHandler("/console/", http.StatusSeeOther).ServeHTTP)
		}
	})
	return r
}

// listing answers a page of a list that operators read.
func listing[F, T any](d *ops, l operator.Listing[F, T]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := query.Parse(r.URL.RawQuery, l.Parameters...)
		filter, bad := l.Filter(q.Values)
		if bad := wrong(append(q.Bad, bad...)); bad != nil {
			d.reject(w, r, bad)
			return
		}
		page, err := l.Read(r.Context(), filter)
		if err != nil {
			d.answerError(w, r, err)
			return
		}
		d.show(w, r, page)
	}
}

func (d *ops) nothing(w http.ResponseWriter, r *http.Request) {
	d.refuse(w, r, problem.NotFound, "There is nothing at this path.")
}

func (d *ops) otherMethod(w http.ResponseWriter, r *http.Request) {
	if !allow(w, r) {
		d.nothing(w, r)
		return
	}
	d.refuse(w, r, problem.MethodNotAllowed, "This path does not take "+knownMethod(r.Method)+".")
}

// answerError is fail with texts for operators, who have no idempotency key to send again.
func (d *ops) answerError(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, deadletters.ErrNoDeadLetter):
		d.refuse(w, r, problem.NotFound, noSuchDeadLetter)
	case errors.Is(err, operator.ErrTooMuch):
		d.refuse(w, r, problem.IdempotencyStoreUnavailable, operator.TooMuch)
	case postgres.Unavailable(err) && r.Context().Err() == nil:
		d.log.WarnContext(r.Context(), "refused for now", slog.String("request_id", requestIDOf(r)),
			slog.Any("error", err))
		retryAfter(w, afterStoreFailure)
		d.refuse(w, r, problem.IdempotencyStoreUnavailable,
			"The store is not available. Ask again; what was decided is decided once.")
	default:
		d.fail(w, r, err)
	}
}

func ready(w http.ResponseWriter, r *http.Request, checks map[string]func(context.Context) error) {
	ctx, cancel := context.WithTimeout(r.Context(), readyLimit)
	defer cancel()
	status := http.StatusOK
	report := struct {
		Ready  bool              `json:"ready"`
		Checks map[string]string `json:"checks"`
	}{Ready: true, Checks: map[string]string{}}
	for name, check := range checks {
		report.Checks[name] = "ok"
		if err := check(ctx); err != nil {
			report.Checks[name] = err.Error()
			report.Ready, status = false, http.StatusServiceUnavailable
		}
	}
	body, err := json.Marshal(report, json.Deterministic(true))
	if err != nil {
		status, body = http.StatusInternalServerError, nil
	}
	write(w, status, jsonType, append(body, '\n'))
}
