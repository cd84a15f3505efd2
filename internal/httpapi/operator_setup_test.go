package httpapi_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/demo/mockpsp"
	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/httpapi"
	"payonce/internal/idempotency"
	"payonce/internal/operator"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/internal/tenants"
	"payonce/test/contract"
	"payonce/test/pgtest"
)

// operatorDocument is openapi.yaml with the operator's paths at whatever address a test gets.
var operatorDocument = sync.OnceValues(func() (*contract.Document, error) {
	return contract.Load(bytes.ReplaceAll(httpapi.OpenAPI(), []byte("servers: [{ url: http://localhost:8081 }]"),
		[]byte("summary: elsewhere")))
})

// The API keys of the operator's tests.
const (
	annKey      = "test-ann-key"       // labelled ann
	otherAnnKey = "test-other-ann-key" // labelled ann, too
	longKey     = "test-long-key"      // with the longest label
	namelessKey = "test-nameless-key"
	readerKey   = "test-reader-key" // may read only
	merchantKey = "test-acme-key"   // a tenant's
	orderKey    = "order-0000000042"
)

var longLabel = strings.Repeat("é", 100)

// console is an operator's side with everything behind it, on a database and a PSP of the test's own.
type console struct {
	t        *testing.T
	pool     *pgxpool.Pool // straight to the tables
	its      *pgxpool.Pool // the console's own, for closing
	server   *httptest.Server
	http     *http.Client
	payments *payments.Service
	registry *prometheus.Registry
	ids      map[string]uuid.UUID // of the API keys
	lossy    atomic.Bool
	deaf     atomic.Bool
}

func openConsole(t *testing.T) *console {
	t.Helper()
	c := &console{t: t, pool: pgtest.New(t), registry: prometheus.NewRegistry(), ids: map[string]uuid.UUID{}}
	db := pgtest.Open(t, c.pool.Config().ConnString(), pgtest.Limits())
	c.its = db.Pool()
	c.hire()
	log, metrics := slog.New(slog.DiscardHandler), telemetry.NewMetrics(c.registry)
	psp, err := native.New(c.servePSP(), "test-psp-secret", gateway.DefaultLimits(), nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	keys := idempotency.New(db, idempotency.Terms{
		Lease: 30 * time.Second, Retention: 48 * time.Hour, PSPMemory: 24 * time.Hour, GracePeriod: 90 * time.Second,
		FirstLookup: time.Hour,
	}, time.Now)
	c.payments = payments.New(payments.Config{
		DB: db, Keys: keys, PSPs: gateway.PSPs{native.Name: psp}, NewID: uuid.NewV7, Metrics: metrics, Log: log,
		PublicURL: "http://payonce.test", Deadline: 30 * time.Second,
	})
	c.server = httptest.NewUnstartedServer(nil)
	c.server.Config = httpapi.NewServer(httpapi.Operator(httpapi.OperatorConfig{
		Operators: operator.New(operator.Config{DB: db, Keys: keys, Payments: c.payments, Log: log}),
		Gatherer:  c.registry, Checks: map[string]func(context.Context) error{"database": db.Ping},
		Config: httpapi.Config{Directory: tenants.NewDirectory(db, time.Now), Metrics: metrics, Log: log,
			PublicURL: "http://payonce.test", RequestID: func() string { return "req_1" }, Now: time.Now},
	}), time.Minute, log)
	c.server.Start()
	t.Cleanup(c.server.Close)
	document, err := operatorDocument()
	if err != nil {
		t.Fatal(err)
	}
	c.http = &http.Client{Transport: document.Transport(t, &http.Transport{}), Timeout: 40 * time.Second}
	return c
}

func (c *console) hire() {
	c.t.Helper()
	r := tenants.NewRegistry(postgres.Wrap(c.pool, 0), uuid.NewV7)
	if err := r.EnsureTenant(c.t.Context(), "acme"); err != nil {
		c.t.Fatal(err)
	}
	for _, k := range []struct {
		tenant, secret, label string
		may                   []tenants.Permission
	}{
		{"acme", merchantKey, "shop", []tenants.Permission{tenants.PaymentsRead, tenants.PaymentsWrite}},
		{"", annKey, "ann", []tenants.Permission{tenants.OpsRead, tenants.OpsResolve}},
		{"", otherAnnKey, "ann", []tenants.Permission{tenants.OpsResolve}},
		{"", longKey, longLabel, []tenants.Permission{tenants.OpsResolve}},
		{"", readerKey, "reader", []tenants.Permission{tenants.OpsRead}},
		{"", namelessKey, "", []tenants.Permission{tenants.OpsResolve}},
	} {
		key, err := r.AddKey(c.t.Context(), k.tenant, k.secret, k.label, k.may)
		if err != nil {
			c.t.Fatal(err)
		}
		c.ids[k.secret] = key.ID
	}
}

func (c *console) servePSP() string {
	config := mockpsp.DefaultConfig()
	config.Secret = "test-psp-secret"
	mock, err := mockpsp.New(config)
	if err != nil {
		c.t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case c.lossy.Load() && r.Method == http.MethodPost:
			mock.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusInternalServerError)
		case c.deaf.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			mock.ServeHTTP(w, r)
		}
	}))
	c.t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			c.t.Error(err)
		}
		server.Close()
	})
	return server.URL
}

// lost is the id of a dead letter about an unknown key: the PSP has done what the method says, and its answer was lost.
func (c *console) lost(method string) string {
	c.t.Helper()
	key, err := idempotency.ParseKey(orderKey)
	if err != nil {
		c.t.Fatal(err)
	}
	c.lossy.Store(true)
	_, err = c.payments.Create(c.t.Context(),
		payments.Keyed{Merchant: payment.Merchant{Tenant: "acme", PSP: native.Name, PSPAccount: "acme"}, Key: key},
		payment.CreateRequest{CustomerID: "cus-1", AmountCents: 12000, Currency: "USD", PaymentMethod: method})
	c.lossy.Store(false)
	if err != nil {
		c.t.Fatal(err)
	}
	subject := pgtest.Value[uuid.UUID](c.t, c.pool, "SELECT subject FROM idempotency_keys WHERE status = 'unknown'")
	about := deadletters.About{Tenant: "acme", Operation: "POST /payments", Key: orderKey, Generation: 1}
	return c.put(deadletters.DeadLetter{
		Kind: deadletters.LookupsExhausted, Finding: about.KeyFinding(subject), About: &about, Subject: &subject,
	})
}

// stray is the id of a dead letter about nothing of ours.
func (c *console) stray() string {
	return c.put(deadletters.DeadLetter{Kind: deadletters.UnknownMovement, Finding: uuid.NewString()})
}

func (c *console) put(l deadletters.DeadLetter) string {
	c.t.Helper()
	l.ID, l.Reason, l.Evidence = uuid.Must(uuid.NewV7()), "found", []byte(`{"id": "ch_1"}`)
	if err := postgres.Wrap(c.pool, 0).Pipeline(c.t.Context(), deadletters.Open(l)); err != nil {
		c.t.Fatal(err)
	}
	return l.ID.String()
}

// said is an answer, read to its end.
type said struct {
	status int
	header http.Header
	body   string
}

func (c *console) ask(as, method, path, body string, header ...string) said {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.server.URL+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if as != "" {
		req.Header.Set("Authorization", "Bearer "+as)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return said{res.StatusCode, res.Header, string(raw)}
}

func (c *console) get(path string) said { return c.ask(annKey, "GET", path, "") }

func (c *console) resolve(deadLetter, body string) said {
	c.t.Helper()
	return c.ask(annKey, "POST", "/operator/dead-letters/"+deadLetter+"/resolve", body)
}

// expect checks the status and, of a problem, the code.
func (s said) expect(t *testing.T, status int, code string) said {
	t.Helper()
	if s.status != status || code != "" && !strings.Contains(s.body, `"code":"`+code+`"`) {
		t.Fatalf("%d %s, want %d %s", s.status, s.body, status, code)
	}
	return s
}

// into reads the body.
func (s said) into(t *testing.T, dst any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s.body), dst); err != nil {
		t.Fatalf("%v: %s", err, s.body)
	}
}
