package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/deadletters"
	"payonce/internal/httpapi/pages"
	"payonce/internal/operator"
	"payonce/internal/problem"
	"payonce/internal/query"
	"payonce/internal/tenants"
)

// OperatorConfig is what the operator's side needs.
type OperatorConfig struct {
	Config // of the public side, whose pages explain the problems; what only payments need may be missing

	Operators   *operator.Service
	Gatherer    prometheus.Gatherer // for /metrics
	Checks      Checks              // for /readyz
	OperatorURL string              // of this listener, for the pages
	PSPPage     string              // of the demo; or ""
	Console     http.Handler        // the pages below /console/; nil if another process has them
	ConsoleURL  string              // where a browser finds them, if that is known and another process has them
}

// ops is the operator's side. It uses the methods of API that both sides need.
type ops struct {
	*API
	operator *operator.Service
}

// Operator is the handler of the operator's listener. Neither what machines ask nor /docs needs a login, because they
// are for machines and people on a private network.
// Everything below /operator needs an operator's API key, and the console a session, which begins with such a key.
func Operator(c OperatorConfig) http.Handler {
	d := &ops{operator: c.Operators, API: &API{config: c.Config, problemFor: problemForOperators,
		again: "Ask again; what was decided is decided once."}} // Operators have no idempotency key to send again.
	r := chi.NewRouter()
	r.Use(middleware.GetHead)
	forMachines(r, c.Gatherer, c.Checks)

	every := chi.Chain(d.identify, d.observe, d.recoverPanics)
	r.NotFound(append(every, c.leadBrowsers).HandlerFunc(d.nothing).ServeHTTP)
	r.MethodNotAllowed(every.HandlerFunc(d.otherMethod).ServeHTTP)
	r.Group(func(r chi.Router) {
		r.Use(append(every, c.leadBrowsers)...)
		// A tenant's key is refused here, even if it is valid.
		isOperator := func(p tenants.Principal) bool { return p.Tenant == "" }
		reading := d.admit(tenants.OpsRead, isOperator)
		resolving := d.admit(tenants.OpsResolve, isOperator)
		r.With(reading).Get("/operator/summary", d.answer(d.summary))
		r.With(reading).Get("/operator/keys", listing(d, d.operator.Keys))
		r.With(reading).Get("/operator/payments", listing(d, d.operator.Payments))
		r.With(reading).Get("/operator/webhooks", listing(d, d.operator.Webhooks))
		r.With(reading).Get("/operator/statements", listing(d, d.operator.Statements))
		r.With(reading).Get("/operator/breaks", listing(d, d.operator.Breaks))
		r.With(reading).Get("/operator/search", listing(d, d.operator.Search))
		r.With(reading).Get("/operator/dead-letters", listing(d, d.operator.DeadLetters))
		r.With(resolving).Post("/operator/dead-letters/plan", d.answer(d.plan))
		r.With(resolving).Post("/operator/dead-letters/run", d.answer(d.runPlan))
		r.With(reading).Get("/operator/dead-letters/{deadLetterId}", d.answer(d.showDeadLetter))
		r.With(resolving).Post("/operator/dead-letters/{deadLetterId}/resolve", d.answer(d.resolveDeadLetter))
		static := pages.OperatorHandler(pages.Addresses{Public: c.PublicURL, Operator: c.OperatorURL, PSP: c.PSPPage},
			OpenAPI, http.HandlerFunc(d.nothing))
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

// leadBrowsers leads a browser from the operator's API to the same page of the console. A browser has no API key to
// send. If another process has the console, each page is there. Where that is, only the demo knows: an address that is
// guessed may be that of another installation.
func (c OperatorConfig) leadBrowsers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ours := strings.CutPrefix(r.URL.Path, "/operator/")
		if c.Console == nil && !ours {
			page, ours = strings.CutPrefix(r.URL.Path+"/", "/console/")
			page, ours = strings.TrimSuffix(page, "/"), ours || r.URL.Path == "/"
		}
		if !ours || r.Method != http.MethodGet || r.Header.Get("Authorization") != "" ||
			!strings.Contains(r.Header.Get("Accept"), "text/html") {
			next.ServeHTTP(w, r)
			return
		}
		if page == "summary" || r.URL.Path == "/" {
			page = "" // the overview
		}
		if c.Console == nil && c.ConsoleURL == "" {
			write(w, http.StatusNotFound, "text/plain; charset=utf-8",
				[]byte("The console is at the operator's listener of an API process (OPERATOR_ADDR).\n"))
			return
		}
		to := url.URL{Path: "/console/" + page, RawQuery: r.URL.RawQuery}
		http.Redirect(w, r, c.ConsoleURL+to.String(), http.StatusSeeOther)
	})
}

// listing answers a page of a list that operators read.
func listing[T any](d *ops, l operator.Listing[T]) http.HandlerFunc {
	return d.answer(func(_ http.ResponseWriter, r *http.Request) (any, error) {
		q := query.Parse(r.URL.RawQuery)
		read := l(q)
		if bad := wrong(q.Bad()); bad != nil {
			return nil, bad
		}
		return read(r.Context())
	})
}

// problemForOperators is the table of errors with those that only an operator can meet.
func problemForOperators(err error, again string) *requestError {
	switch {
	case errors.Is(err, deadletters.ErrNoDeadLetter): // or the id is not valid
		return &requestError{code: problem.NotFound, detail: "There is no such dead letter."}
	case errors.Is(err, operator.ErrTooMuch):
		return &requestError{code: problem.IdempotencyStoreUnavailable, detail: operator.TooMuch}
	}
	return problemFor(err, again)
}
