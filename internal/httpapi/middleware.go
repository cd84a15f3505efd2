package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/problem"
	"payonce/internal/tenants"
)

// known is what is known about a request so far. The goroutine of the request fills it in. One pointer in the context
// is enough; with a context value for each field, the request would be copied for each of them.
type known struct {
	requestID string
	principal tenants.Principal // set after authentication
	resource  string            // for the log: the path of the payment or refund that the answer is about
	key       idempotency.Key   // that was sent
	keyErr    error             // what is wrong with it, or that it has not been read
	ref       idempotency.Ref   // of a request with an Idempotency-Key, once its tenant is known
	code      problem.Code      // of the problem that was answered
	async     bool              // the answer is about another request that is in flight
}

type knownKey struct{}

func knownOf(r *http.Request) *known {
	if k, ok := r.Context().Value(knownKey{}).(*known); ok {
		return k
	}
	return &known{keyErr: errKeyMissing}
}

// identify gives the request an id of our own. An id that the client sends is ignored: it would be logged, and it could
// hold anything.
func (a *API) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k := &known{requestID: a.config.RequestID(), keyErr: errKeyMissing}
		w.Header().Set("X-Request-Id", k.requestID)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), knownKey{}, k)))
	})
}

func requestIDOf(r *http.Request) string { return knownOf(r).requestID }

// observe counts and logs the request after it was answered.
func (a *API) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := a.config.Now()
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			took := a.config.Now().Sub(began)
			route := chi.RouteContext(r.Context()).RoutePattern()
			if route == "" {
				route = "none"
			}
			status := ww.Status()
			if status == 0 {
				status = http.StatusOK
				if r.Context().Err() != nil {
					status = problem.ClientGone
				}
			}
			a.config.Metrics.HTTPRequest(route, strconv.Itoa(status), took)
			a.remember(r, began, began.Add(took), status, ww.Header().Get("Idempotent-Replayed") == "true")
			a.config.Log.LogAttrs(r.Context(), slog.LevelInfo, "request", slog.String("method", knownMethod(r.Method)),
				slog.String("route", route),
				slog.Int("status", status), slog.Float64("took_ms", float64(took.Microseconds())/1000),
				slog.String("request_id", requestIDOf(r)),
				slog.String("tenant", principalOf(r).Tenant), slog.String("resource", knownOf(r).resource))
		}()
		next.ServeHTTP(ww, r)
	})
}

// Request is an answered request with an Idempotency-Key.
type Request struct {
	Ref       idempotency.Ref
	Began, At time.Time // by the clock of this process
	Gone      time.Time // when the client hung up; zero if it did not, or if that was not seen
	Status    int
	Code      string // of the problem; "" if the answer is none
	Replayed  bool
	// Async says that the answer is about another request with the key, which is in flight.
	Async bool
}

// remember hands on a request with an Idempotency-Key.
func (a *API) remember(r *http.Request, began, at time.Time, status int, replayed bool) {
	if k := knownOf(r); k.ref.Tenant != "" && a.config.Remember != nil {
		if unread(r.Context(), at.Sub(began)) {
			status = problem.ClientGone
		}
		a.config.Remember(Request{Ref: k.ref, Began: began, At: at, Gone: hungUp(r.Context()), Status: status,
			Code: string(k.code), Replayed: replayed, Async: k.async})
	}
}

// unread reports whether nobody can have read the answer. The client has closed the connection. Or the process was
// paused for longer than WriteTimeout: then the server closes the connection.
func unread(request context.Context, took time.Duration) bool {
	return request.Err() != nil || took > WriteTimeout
}

func (a *API) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler { //nolint:errorlint // recover gives the value itself
				panic(cause)
			}
			stack := debug.Stack()
			if elsewhere, is := cause.(interface{ Stack() []byte }); is { // It is the panic of another goroutine.
				stack = elsewhere.Stack()
			}
			// The cause may have data of the client in it, so only the stack is logged.
			a.config.Log.ErrorContext(r.Context(), "panic", slog.String("request_id", requestIDOf(r)),
				slog.String("stack", string(stack)))
			a.refuse(w, r, problem.InternalError, "Something went wrong on our side.")
		}()
		next.ServeHTTP(w, r)
	})
}

func (a *API) turnAwayWhenDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.leaving.Load() || a.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		if a.draining.Load() {
			retryAfter(w, afterStoreFailure)
			a.refuse(w, r, problem.ShuttingDown, "This process is shutting down. Send the request again.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admit lets a request pass if its principal belongs to this listener and has the permission.
func (a *API) admit(
	permission tenants.Permission, belongs func(tenants.Principal) bool,
) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			secret, ok := bearer(r)
			if !ok {
				w.Header().Set("WWW-Authenticate", `Bearer realm="payonce"`)
				a.refuse(w, r, problem.Unauthenticated, "Send one header: Authorization: Bearer <API key>.")
				return
			}
			p, err := a.config.Directory.Authenticate(r.Context(), secret)
			if err != nil {
				if isUnauthenticated(err) {
					w.Header().Set("WWW-Authenticate", `Bearer realm="payonce", error="invalid_token"`)
				}
				a.fail(w, r, err)
				return
			}
			knownOf(r).principal = p
			if !belongs(p) || !p.May(permission) {
				a.refuse(w, r, problem.Forbidden, "This API key does not carry the scope "+string(permission)+".")
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// limitRate lets a request pass if it is within its tenant's rate.
func (a *API) limitRate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := principalOf(r)
		if wait, ok := a.limits.allow(p, a.config.Now()); !ok {
			retryAfter(w, wait)
			a.refuse(w, r, problem.RateLimited, "Too many requests: "+strconv.Itoa(p.RequestsPerSecond)+
				" per second are allowed.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// limitLists lets a request pass while its tenant reads few lists.
func (a *API) limitLists(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, ok := a.limits.enter(r.Context(), principalOf(r))
		if !ok {
			retryAfter(w, listPatience)
			a.refuse(w, r, problem.RateLimited, "Too many lists at the same time: "+strconv.Itoa(maxLists)+
				" are read at once, and the others wait for a second.")
			return
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}

func principalOf(r *http.Request) tenants.Principal { return knownOf(r).principal }

// bearer reads the token in the Authorization header (RFC 6750). There must be exactly one such header.
func bearer(r *http.Request) (string, bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}

// knownMethod keeps methods that do not exist out of logs and answers.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return m
	}
	return "this method"
}

func (a *API) nothing(w http.ResponseWriter, r *http.Request) {
	a.refuse(w, r, problem.NotFound, "There is nothing at this path.")
}

func (a *API) otherMethod(w http.ResponseWriter, r *http.Request) {
	if !allow(w, r) {
		a.nothing(w, r) // For a method that the router does not know, it would not look at the path.
		return
	}
	a.refuse(w, r, problem.MethodNotAllowed, "This path does not take "+knownMethod(r.Method)+".")
}

// allow sets the Allow header to the methods of the path (RFC 9110, section 15.5.6). It returns false if the path has
// none.
func allow(w http.ResponseWriter, r *http.Request) bool {
	routes := chi.RouteContext(r.Context()).Routes
	path := cmp.Or(r.URL.RawPath, r.URL.Path) // as the router does
	if routes.Match(chi.NewRouteContext(), http.MethodGet, path) {
		w.Header()["Allow"] = []string{http.MethodGet, http.MethodHead}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		if routes.Match(chi.NewRouteContext(), method, path) {
			w.Header().Add("Allow", method)
		}
	}
	return w.Header().Get("Allow") != ""
}

// trace begins the span of a request with an Idempotency-Key, before its body is read. id is the id of the payment or
// refund if the request creates one. The caller calls end after the answer.
func (a *API) trace(
	w http.ResponseWriter, r *http.Request, operation string, id uuid.UUID,
) (_ *http.Request, end func()) {
	ctx, span := a.config.Tracer.Request(r.Context(), r.Header, operation, id)
	if !span.Recorded() {
		return r, untraced
	}
	traced := r.WithContext(ctx)
	return traced, func() {
		if answered, ok := w.(interface{ Status() int }); ok {
			span.Status(answered.Status())
		}
		span.Replayed(w.Header().Get("Idempotent-Replayed") == "true")
		span.Resource(knownOf(traced).resource)
		span.End()
	}
}

func untraced() {}
