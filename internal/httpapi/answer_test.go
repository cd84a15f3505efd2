package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/problem"
	"payonce/internal/telemetry"
	"payonce/internal/tenants"
)

// newTestAPI has everything but a database.
func newTestAPI() (*API, *bytes.Buffer) {
	logs := &bytes.Buffer{}
	n := 0
	return New(Config{
		Metrics:   telemetry.NewMetrics(prometheus.NewRegistry()),
		Log:       slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		PublicURL: "http://payonce.test", RequestID: func() string { n++; return fmt.Sprintf("req_%d", n) },
		NewID: uuid.NewV7,
		Now:   time.Now,
	}), logs
}

func problemOf(t *testing.T, rec *httptest.ResponseRecorder) problem.Document {
	t.Helper()
	var d problem.Document
	if err := json.Unmarshal(rec.Body.Bytes(), &d); err != nil {
		t.Fatalf("%v\n%s", err, rec.Body)
	}
	if rec.Header().Get("Content-Type") != problem.ContentType || d.Status != rec.Code {
		t.Fatalf("status %d, headers %v, body %s", rec.Code, rec.Header(), rec.Body)
	}
	return d
}

func TestEachErrorHasItsProblem(t *testing.T) {
	t.Parallel()
	secret := errors.New("canary")
	for name, row := range map[string]struct {
		err   error
		code  problem.Code
		after string
	}{
		"unauthenticated": {tenants.ErrUnauthenticated, problem.Unauthenticated, ""},
		"no payment":      {payments.ErrPaymentNotFound, problem.NotFound, ""},
		"no refund":       {payments.ErrRefundNotFound, problem.NotFound, ""},
		"not refundable":  {payments.ErrPaymentNotRefundable, problem.PaymentNotRefundable, ""},
		"too much":        {payments.ErrRefundExceedsPayment, problem.RefundExceedsPayment, ""},
		"store away": {&postgres.UnavailableError{Op: "canary", Err: secret}, problem.IdempotencyStoreUnavailable,
			"2"},
		"commit ambiguous": {&postgres.AmbiguousError{Err: secret}, problem.IdempotencyStoreUnavailable, "2"},
		"refused by the database": {&pgconn.PgError{Severity: "ERROR", Code: "23514", Message: "canary",
			Detail: "canary"},
			problem.InternalError, "2"},
		"anything else":             {secret, problem.InternalError, "2"},
		"somebody else's deadline":  {fmt.Errorf("canary: %w", context.DeadlineExceeded), problem.InternalError, "2"},
		"somebody else's cancelled": {fmt.Errorf("canary: %w", context.Canceled), problem.InternalError, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, _ := newTestAPI()
			rec := httptest.NewRecorder()
			a.fail(rec, httptest.NewRequest("GET", "/payments", nil), fmt.Errorf("read canary: %w", row.err))
			d := problemOf(t, rec)
			if d.Code != row.code || rec.Header().Get("Retry-After") != row.after {
				t.Fatalf("code %s, Retry-After %q", d.Code, rec.Header().Get("Retry-After"))
			}
			if strings.Contains(rec.Body.String(), "canary") {
				t.Fatalf("the inside leaves: %s", rec.Body)
			}
		})
	}
}

func TestClientThatHasGoneIsNotAnswered(t *testing.T) {
	t.Parallel()
	a, logs := newTestAPI()
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	h := a.observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.fail(w, r, gone.Err()) }))
	rec := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/payments", nil).WithContext(gone)
	func() {
		defer func() {
			// A client that has closed only its half would be told 200 by a plain return.
			if cause := recover(); cause != http.ErrAbortHandler { //nolint:errorlint // recover gives the value itself
				t.Errorf("the connection was not cut: %v", cause)
			}
		}()
		h.ServeHTTP(rec, r)
	}()
	if rec.Body.Len() != 0 || !strings.Contains(logs.String(), `"status":499`) ||
		strings.Contains(logs.String(), "ERROR") {
		t.Fatalf("body %q, logs %s", rec.Body, logs)
	}
}

func TestRetryAfterIsOneToFiveWholeSeconds(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Nanosecond: "1", time.Millisecond: "1", time.Second: "1", time.Second + 1: "2",
		1500 * time.Millisecond: "2",
		2 * time.Second:         "2", 5*time.Second - time.Nanosecond: "5", time.Hour: "5", afterHeld: "5",
	} {
		rec := httptest.NewRecorder()
		if retryAfter(rec, d); rec.Header().Get("Retry-After") != want {
			t.Errorf("%s gives %q, want %q", d, rec.Header().Get("Retry-After"), want)
		}
	}
}

func TestPanicIsAnInternalErrorWithoutItsCause(t *testing.T) {
	t.Parallel()
	a, logs := newTestAPI()
	h := a.identify(a.observe(a.recoverPanics(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic("canary: " + strings.Repeat("4", 16))
	}))))
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("POST", "/payments", nil))
	if d := problemOf(t, rec); d.Code != problem.InternalError || rec.Header().Get("X-Request-Id") != "req_1" {
		t.Fatalf("%+v", d)
	}
	if strings.Contains(rec.Body.String()+logs.String(), "canary") {
		t.Fatalf("the cause leaves:\n%s\n%s", rec.Body, logs)
	}
	if !strings.Contains(logs.String(), `"msg":"panic"`) || !strings.Contains(logs.String(), "answer_test.go") {
		t.Fatalf("the log does not say where: %s", logs)
	}
}

// elsewhere is a panic of another goroutine.
type elsewhere struct{}

func (elsewhere) Stack() []byte { return []byte("its own stack") }

func TestPanicOfAnotherGoroutineIsLoggedWithItsOwnStack(t *testing.T) {
	t.Parallel()
	a, logs := newTestAPI()
	h := a.recoverPanics(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(elsewhere{}) }))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/payments", nil))
	if !strings.Contains(logs.String(), `"stack":"its own stack"`) {
		t.Fatalf("the log does not say where: %s", logs)
	}
}

func TestAbortedHandlerStaysAborted(t *testing.T) {
	t.Parallel()
	a, _ := newTestAPI()
	h := a.recoverPanics(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer func() {
		if cause := recover(); cause != http.ErrAbortHandler { //nolint:errorlint // recover gives the value itself
			t.Fatalf("recovered %v", cause)
		}
	}()
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	t.Fatal("swallowed")
}

func TestDrainingServerTurnsAwayAndHangsUp(t *testing.T) {
	t.Parallel()
	a, _ := newTestAPI()
	if a.draining.Load() {
		t.Fatal("drains before it is told to")
	}
	get := func() http.Header {
		rec := httptest.NewRecorder()
		if a.ServeHTTP(rec, httptest.NewRequest("GET", "/none", nil)); rec.Code != http.StatusNotFound {
			t.Fatalf("answered %d", rec.Code)
		}
		return rec.Header()
	}
	if h := get(); h.Get("Connection") != "" {
		t.Fatalf("hangs up before it leaves: %v", h)
	}
	a.Leave() // Load balancers have not noticed yet, so it still answers.
	if h := get(); h.Get("Connection") != "close" {
		t.Fatalf("a balancer would send the next request on a connection that is about to end: %v", h)
	}
	a.Drain()
	for path, method := range map[string]string{"/payments": "POST", "/docs": "GET", "/none": "PUT"} {
		rec := httptest.NewRecorder()
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set(keyHeader, `"order-0000000042"`)
		a.ServeHTTP(rec, r)
		d := problemOf(t, rec)
		if d.Code != problem.ShuttingDown || rec.Header().Get("Connection") != "close" ||
			rec.Header().Get("Retry-After") == "" || rec.Header().Get(keyHeader) != "order-0000000042" ||
			rec.Header().Get("X-Request-Id") == "" {
			t.Fatalf("%s: %+v %v", path, d, rec.Header())
		}
	}
	if !a.draining.Load() {
		t.Fatal("does not say that it drains")
	}
}

func TestRateIsATokenBucketForEachTenant(t *testing.T) {
	t.Parallel()
	l := newLimits()
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	acme := tenants.Principal{Tenant: "acme", RequestsPerSecond: 2, Burst: 3}
	globex := tenants.Principal{Tenant: "globex", RequestsPerSecond: 2, Burst: 1}
	take := func(p tenants.Principal, want time.Duration) {
		t.Helper()
		wait, ok := l.allow(p, now)
		if ok != (want == 0) || wait != want {
			t.Fatalf("%s: wait %s, ok %v; want %s", p.Tenant, wait, ok, want)
		}
	}
	for range 3 {
		take(acme, 0)
	}
	for range 5 { // who is refused takes nothing, so the wait does not grow
		take(acme, 500*time.Millisecond)
	}
	take(globex, 0)
	now = now.Add(499 * time.Millisecond)
	take(acme, time.Millisecond)
	now = now.Add(time.Millisecond)
	take(acme, 0)
	take(acme, 500*time.Millisecond)

	acme.RequestsPerSecond, acme.Burst = 1000, 1000 // an administrator was kind
	take(acme, time.Millisecond)
	now = now.Add(2 * time.Millisecond)
	take(acme, 0)
	take(acme, 0)
	take(acme, time.Millisecond)
	now = now.Add(time.Second)
	for range 1000 {
		take(acme, 0)
	}
	take(acme, time.Millisecond)
}
