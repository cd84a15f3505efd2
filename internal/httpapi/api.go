package httpapi

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/problem"
	"payonce/internal/telemetry"
	"payonce/internal/tenants"
	"payonce/internal/tracing"
	"payonce/internal/webhooks"
)

// Config is what an API needs.
type Config struct {
	Payments  *payments.Service
	Keys      *idempotency.Keys
	Directory *tenants.Directory
	Webhooks  map[string]*webhooks.Receiver // by the last part of their path; nil if no secret is configured
	Metrics   *telemetry.Metrics
	Remember  func(Request)          // is told of each answered request with an Idempotency-Key; may be nil
	Pages     http.Handler           // what people read without an API key; nil for nothing
	Further   func(*API, chi.Router) // adds routes that payments do without; nil for none
	Log       *slog.Logger
	PublicURL string
	RequestID func() string             // returns a new id for each request
	NewID     func() (uuid.UUID, error) // UUIDv7
	Tracer    *tracing.Tracer           // nil: off
	Now       func() time.Time
	// InFlightWait is how long a request waits for the end of the first one with its key, unless it prefers otherwise.
	InFlightWait time.Duration
}

// API is the public HTTP API.
type API struct {
	config Config
	base   string // of the paths that clients get: the path of PublicURL, which a proxy takes away; operators have none
	// problemFor is the table of errors; again is what a client does about an error that passes by itself.
	problemFor func(err error, again string) *requestError
	again      string
	limits     *limits
	large      chan struct{} // has a place for each large webhook that is being read
	leaving    atomic.Bool
	draining   atomic.Bool
	router     http.Handler
}

// New returns the public API.
func New(c Config) *API {
	a := &API{config: c, base: problem.Path(c.PublicURL, ""), problemFor: problemFor, again: "Send the same key again.",
		limits: newLimits(), large: make(chan struct{}, maxLarge)}
	a.router = a.routes()
	return a
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.router.ServeHTTP(w, r) }

// Routes lists the routes of a handler of this package, such as "GET /payments/{paymentId}". It is used to compare the
// routes with openapi.yaml.
func Routes(h http.Handler) (served []string) {
	if a, ok := h.(*API); ok {
		h = a.router
	}
	if router, ok := h.(chi.Routes); ok {
		// Walk fails only if the function fails, and this function does not.
		_ = chi.Walk(router, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			served = append(served, method+" "+route)
			return nil
		})
	}
	return served
}

// Leave makes the API close each connection after its next answer, so that no client sends on one that is about to end.
func (a *API) Leave() { a.leaving.Store(true) }

// Drain makes the API refuse new requests. The requests that are being served are finished.
func (a *API) Drain() { a.draining.Store(true) }

func isTenant(p tenants.Principal) bool { return p.Tenant != "" }

func (a *API) routes() http.Handler {
	r := chi.NewRouter()
	r.Use(a.identify, a.echoKey, a.observe, a.recoverPanics, a.turnAwayWhenDraining, middleware.GetHead)
	r.NotFound(a.nothing)
	r.MethodNotAllowed(a.otherMethod)

	reading := chi.Chain(a.admit(tenants.PaymentsRead, isTenant), a.limitRate)
	writing := chi.Chain(a.admit(tenants.PaymentsWrite, isTenant), a.limitRate)
	r.With(writing...).Post("/payments", a.keyed(payment.CreateOperation, a.createPayment))
	r.With(reading...).With(a.limitLists).Get("/payments", a.answer(a.listPayments))
	r.With(reading...).Get("/payments/{paymentId}", a.answer(a.getPayment))
	r.With(reading...).Get("/payments/{paymentId}/refunds", a.answer(a.listRefunds))
	r.With(writing...).Post("/payments/{paymentId}/refunds", a.keyed(payment.RefundOperation, a.createRefund))
	r.With(reading...).Get("/refunds/{refundId}", a.answer(a.getRefund))
	r.With(reading...).Get("/idempotency-keys/{key}", a.answer(a.getKey))
	for path, receiver := range a.config.Webhooks { // A webhook has a signature instead of an API key.
		r.Post("/webhooks/"+path, func(w http.ResponseWriter, r *http.Request) { a.takeWebhook(w, r, receiver) })
	}
	if a.config.Further != nil {
		a.config.Further(a, r)
	}

	if a.config.Pages != nil {
		for _, path := range []string{"/", "/docs", "/docs/*", "/problems", "/problems/*", "/openapi.yaml"} {
			r.Method(http.MethodGet, path, a.config.Pages)
		}
	}
	return r
}
