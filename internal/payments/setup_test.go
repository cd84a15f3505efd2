package payments

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/demo/mockpsp"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	patience  = time.Minute
	pspSecret = "test-psp-secret"
)

// shop is a service on a database and a PSP of the test's own.
type shop struct {
	t       *testing.T
	pool    *pgxpool.Pool // straight to the tables
	keys    *idempotency.Keys
	service *Service
	pspURL  string
}

// setup is a shop at the mock PSP, which gives up at once what it leaves without an answer.
func setup(t *testing.T) *shop {
	t.Helper()
	config := mockpsp.DefaultConfig()
	config.Secret, config.HangLimit = pspSecret, time.Millisecond
	mock, err := mockpsp.New(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(mock)
	t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return setupAt(t, server.URL, time.Now)
}

// setupOn is a shop at a PSP that the test plays itself.
func setupOn(t *testing.T, psp http.Handler) *shop {
	t.Helper()
	server := httptest.NewServer(psp)
	t.Cleanup(server.Close)
	return setupAt(t, server.URL, time.Now)
}

// terms are the defaults of the settings.
func terms() idempotency.Terms {
	return idempotency.Terms{
		Lease: 30 * time.Second, Retention: 48 * time.Hour, PSPMemory: 24 * time.Hour,
		GracePeriod: 90 * time.Second, FirstLookup: 5 * time.Second, Audit: 30 * 24 * time.Hour,
	}
}

// setupAt is a shop with two tenants, and with the application's clock as the test has it.
func setupAt(t *testing.T, pspURL string, now func() time.Time) *shop {
	t.Helper()
	s := &shop{t: t, pool: pgtest.New(t), pspURL: pspURL}
	if err := terms().Check(); err != nil {
		t.Fatal(err)
	}
	db := postgres.Wrap(s.pool, patience)
	limits := gateway.DefaultLimits()
	limits.Total = patience // A busy machine may take longer than eight seconds for a page of megabytes.
	psp, err := native.New(pspURL, pspSecret, limits, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	s.keys = idempotency.New(db, terms(), now)
	s.service = New(Config{
		DB: db, Keys: s.keys, PSPs: gateway.PSPs{native.Name: psp}, NewID: uuid.NewV7,
		Metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
		Log:     slog.New(slog.DiscardHandler), PublicURL: "https://pay.example", Deadline: 30 * time.Second,
	})
	s.exec("INSERT INTO tenants (id, psp_account) VALUES ('acme', 'acme'), ('globex', 'globex')")
	return s
}

func keyed(t testing.TB, key string) Keyed {
	t.Helper()
	k, err := idempotency.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Keyed{Merchant: payment.Merchant{Tenant: "acme", PSP: native.Name, PSPAccount: "acme"}, Key: k}
}

// order is a request for 120 dollars that has passed Validate.
func order() payment.CreateRequest {
	return payment.CreateRequest{CustomerID: "cus-1", AmountCents: 12000, Currency: "USD", PaymentMethod: "pm_ok"}
}

// orderBy is an order that is paid by a token of the mock PSP.
func orderBy(method string) payment.CreateRequest {
	o := order()
	o.PaymentMethod = method
	return o
}

// paid takes a payment and returns it.
func (s *shop) paid(key string) payment.Payment {
	s.t.Helper()
	answer := s.create(key, order())
	if f, ok := answer.(Final); !ok || f.Response.Status != http.StatusCreated {
		s.t.Fatalf("answer is %T %+v", answer, answer)
	}
	page, err := s.service.Payments(s.t.Context(), "acme", Filter{Limit: 1})
	if err != nil || len(page.Payments) != 1 {
		s.t.Fatalf("%d payments: %v", len(page.Payments), err)
	}
	return page.Payments[0]
}

// create asks for a payment as a client does.
func (s *shop) create(key string, r payment.CreateRequest) Answer {
	s.t.Helper()
	answer, err := s.service.Create(s.t.Context(), keyed(s.t, key), r)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

func (s *shop) count(sql string, args ...any) int {
	s.t.Helper()
	return pgtest.Value[int](s.t, s.pool, sql, args...)
}

func (s *shop) exec(sql string, args ...any) {
	s.t.Helper()
	pgtest.Exec(s.t, s.pool, sql, args...)
}

// timePasses runs a statement that no program of ours would, behind the back of the triggers: it plays what time does.
func (s *shop) timePasses(sql string, args ...any) {
	s.t.Helper()
	tx := pgtest.Begin(s.t, s.pool)
	pgtest.Exec(s.t, tx, "SET LOCAL session_replication_role = replica")
	pgtest.Exec(s.t, tx, sql, args...)
	if err := tx.Commit(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// is checks which of its cases a value is.
func is[Case any](t testing.TB, v any) Case {
	t.Helper()
	c, ok := v.(Case)
	if !ok {
		t.Fatalf("it is %T %+v, want %T", v, v, c)
	}
	return c
}

// atOnce runs fn n times, all at the same time.
func atOnce(n int, fn func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() { <-start; fn(i) })
	}
	close(start)
	all.Wait()
}
