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
	"payonce/internal/telemetry"
	"payonce/internal/tenants"
)

// readyLimit bounds one readiness check.
const readyLimit = 2 * time.Second

// OperatorConfig is what an operator's side is made of.
type OperatorConfig struct {
	Desk      *operator.Desk
	Directory *tenants.Directory
	Gatherer  prometheus.Gatherer // what /metrics shows
	// Checks are run by /readyz, each under its name.
	Checks    map[string]func(context.Context) error
	Metrics   *telemetry.Metrics
	Log       *slog.Logger
	PublicURL string        // the base of the problem types, whose pages are on the public side
	URL       string        // of this listener, for people who read the pages
	RequestID func() string // fresh, for each request
	Now       func() time.Time
}

// desk is the operator's side. What it has in common with the public one, it takes from there.
type desk struct {
	*API
	operator *operator.Desk
}

// Operator is the handler of the operator's listener. /livez looks at the process only, /readyz runs the checks, and neither of
// them nor /metrics asks who is there: they are for machines on a private network. Nor does /docs, for people there. Everything below
// /operator needs an operator's API key.
func Operator(c OperatorConfig) http.Handler {
	d := &desk{operator: c.Desk, API: &API{
		directory: c.Directory, metrics: c.Metrics, log: c.Log, publicURL: c.PublicURL, requestID: c.RequestID, now: c.Now,
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
		// A tenant's key, however good, opens nothing here.
		isOperator := func(p tenants.Principal) bool { return p.Tenant == "" }
		reading := d.admit(tenants.OpsRead, isOperator, d.answerError)
		resolving := d.admit(tenants.OpsResolve, isOperator, d.answerError)
		r.With(reading).Get("/operator/summary", d.summary)
		r.With(reading).Get("/operator/dead-letters", d.listLetters)
		r.With(reading).Get("/operator/dead-letters/{letterId}", d.showLetter)
		r.With(resolving).Post("/operator/dead-letters/{letterId}/resolve", d.resolveLetter)
		at := pages.Addresses{Public: c.PublicURL, Operator: operatorOr(c.URL)}
		static := pages.OperatorHandler(at, publishedToOperators(at), http.HandlerFunc(d.nothing))
		for _, path := range []string{"/docs", "/docs/*", "/openapi.yaml"} {
			r.Method(http.MethodGet, path, static)
		}
	})
	return r
}

func (d *desk) nothing(w http.ResponseWriter, r *http.Request) {
	d.refuse(w, r, problem.NotFound, "There is nothing at this path.")
}

func (d *desk) otherMethod(w http.ResponseWriter, r *http.Request) {
	if !allow(w, r) {
		d.nothing(w, r)
		return
	}
	d.refuse(w, r, problem.MethodNotAllowed, "This path does not take "+knownMethod(r.Method)+".")
}

// answerError is fail in words for operators: they have no key to send again.
func (d *desk) answerError(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, deadletters.ErrNoLetter):
		d.refuse(w, r, problem.NotFound, noSuchLetter)
	case postgres.Unavailable(err) && r.Context().Err() == nil:
		d.log.WarnContext(r.Context(), "refused for now", slog.String("request_id", requestIDOf(r)), slog.Any("error", err))
		retryAfter(w, afterStoreFailure)
		d.refuse(w, r, problem.IdempotencyStoreUnavailable, "The store is not available. Ask again; what was decided is decided once.")
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
