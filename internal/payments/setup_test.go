package payments

import (
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/gateway"
	"payonce/internal/gateway/mockpsp"
	"payonce/internal/idempotency"
	"payonce/internal/pgtest"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	patience  = 20 * time.Second
	pspSecret = "test-psp-secret"
)

// shop is a service on a database and a PSP of the test's own.
type shop struct {
	t       *testing.T
	pool    *pgxpool.Pool // straight to the tables
	keys    *idempotency.Keys
	service *Service
}

func setup(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, pool: pgtest.New(t)}
	config := mockpsp.DefaultConfig()
	config.Secret = pspSecret
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
	db := postgres.Wrap(s.pool, patience)
	psp, err := gateway.New(server.URL, pspSecret, gateway.DefaultLimits(), time.Now, func(string, time.Duration) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	s.keys = idempotency.New(db, idempotency.Terms{Lease: 30 * time.Second, Retention: 48 * time.Hour, PSPMemory: 24 * time.Hour}, time.Now)
	s.service = New(Config{
		DB: db, Keys: s.keys, PSP: psp, NewID: uuid.NewV7, Metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
		Log: slog.New(slog.DiscardHandler), PublicURL: "https://pay.example", Deadline: 30 * time.Second,
	})
	return s
}

func keyed(t testing.TB, key string) Keyed {
	t.Helper()
	k, err := idempotency.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Keyed{Merchant: Merchant{Tenant: "acme", PSPAccount: "acme"}, Key: k}
}

// order is a request for 120 dollars that has passed Validate.
func order() CreateRequest {
	return CreateRequest{CustomerID: "cus-1", AmountCents: 12000, Currency: "USD", PaymentMethod: "pm_ok"}
}

// paid takes a payment and returns it.
func (s *shop) paid(key string) Payment {
	s.t.Helper()
	answer, err := s.service.Create(s.t.Context(), keyed(s.t, key), order())
	if err != nil {
		s.t.Fatal(err)
	}
	if f, ok := answer.(Final); !ok || f.Response.Status != 201 {
		s.t.Fatalf("answer is %T %+v", answer, answer)
	}
	page, err := s.service.Payments(s.t.Context(), "acme", Filter{Limit: 1})
	if err != nil || len(page.Payments) != 1 {
		s.t.Fatalf("%d payments: %v", len(page.Payments), err)
	}
	return page.Payments[0]
}

func (s *shop) count(sql string, args ...any) (n int) {
	s.t.Helper()
	if err := s.pool.QueryRow(s.t.Context(), sql, args...).Scan(&n); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return n
}
