package httpapi

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"payonce/internal/httpapi/pages"
	"payonce/internal/idempotency"
	"payonce/internal/payments"
	"payonce/internal/problem"
	"payonce/internal/telemetry"
	"payonce/internal/tenants"
	"payonce/internal/webhooks"
)

// Config is what an API is made of.
type Config struct {
	Payments  *payments.Service
	Keys      *idempotency.Keys
	Directory *tenants.Directory
	Webhooks  *webhooks.Receiver // nil where no secret is configured: none are taken in
	Metrics   *telemetry.Metrics
	Log       *slog.Logger
	PublicURL string
	// OperatorURL and PSPPage are for people who read the pages: the operator's listener, and a page of the PSP's, if it has one.
	OperatorURL, PSPPage string
	RequestID            func() string // fresh, for each request
	Now                  func() time.Time
}

// API is the public side.
type API struct {
	payments  *payments.Service
	keys      *idempotency.Keys
	directory *tenants.Directory
	webhooks  *webhooks.Receiver
	metrics   *telemetry.Metrics
	log       *slog.Logger
	publicURL string
	requestID func() string
	now       func() time.Time
	limits    *rateLimits
	draining  atomic.Bool
	router    http.Handler
	static    http.Handler // the pages
}

// New returns the public API.
func New(c Config) *API {
	a := &API{
		payments: c.Payments, keys: c.Keys, directory: c.Directory, webhooks: c.Webhooks, metrics: c.Metrics, log: c.Log,
		publicURL: c.PublicURL, requestID: c.RequestID, now: c.Now, limits: newRateLimits(),
	}
	at := pages.Addresses{Public: c.PublicURL, Operator: operatorOr(c.OperatorURL), PSP: c.PSPPage}
	a.static = pages.Handler(at, published(at))
	a.router = a.routes()
	return a
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.router.ServeHTTP(w, r) }

// Routes lists what a handler of this package serves, such as "GET /payments/{paymentId}", for whoever compares it with openapi.yaml.
func Routes(h http.Handler) (served []string) {
	if a, ok := h.(*API); ok {
		h = a.router
	}
	if router, ok := h.(chi.Routes); ok {
		// It fails when the function does, and this one does not.
		_ = chi.Walk(router, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			served = append(served, method+" "+route)
			return nil
		})
	}
	return served
}

// Drain turns new requests away from now on. Those being served are finished.
func (a *API) Drain() { a.draining.Store(true) }

func (a *API) routes() http.Handler {
	r := chi.NewRouter()
	r.Use(a.identify, a.observe, a.recoverPanics, a.turnAwayWhenDraining, middleware.GetHead)
	nothing := func(w http.ResponseWriter, r *http.Request) {
		a.refuse(w, r, problem.NotFound, "There is nothing at this path.")
	}
	r.NotFound(nothing)
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		if !allow(w, r) {
			nothing(w, r) // the router asks no path about a method that it does not know
			return
		}
		a.refuse(w, r, problem.MethodNotAllowed, "This path does not take "+knownMethod(r.Method)+".")
	})

	isTenant := func(p tenants.Principal) bool { return p.Tenant != "" }
	reading := chi.Chain(a.admit(tenants.PaymentsRead, isTenant, a.fail), a.limitRate)
	writing := chi.Chain(a.admit(tenants.PaymentsWrite, isTenant, a.fail), a.limitRate)
	r.With(writing...).Post("/payments", a.keyed(payments.CreateOperation, a.createPayment))
	r.With(reading...).Get("/payments", a.listPayments)
	r.With(reading...).Get("/payments/{paymentId}", a.getPayment)
	r.With(writing...).Post("/payments/{paymentId}/refunds", a.keyed(payments.RefundOperation, a.createRefund))
	r.With(reading...).Get("/refunds/{refundId}", a.getRefund)
	r.With(reading...).Get("/idempotency-keys/{key}", a.getKey)
	r.Post("/webhooks/psp", a.takeWebhook) // its signature is its API key

	for _, path := range []string{"/", "/docs", "/docs/*", "/problems", "/problems/*", "/openapi.yaml"} {
		r.Method(http.MethodGet, path, a.static)
	}
	return r
}
