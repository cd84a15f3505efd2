package commands

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/demo/mockpsp"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/operator"
	"payonce/internal/payments"
	"payonce/internal/telemetry"
	"payonce/internal/tenants"
	"payonce/test/pgtest"
)

const lostKey = "order-0000000042"

// operatorCall is a person at a terminal, with a database and a PSP of the test's own.
type operatorCall struct {
	t    *testing.T
	pool *pgxpool.Pool
	its  *pgxpool.Pool // the command's own, for closing
	pay  *payments.Service
	keys *idempotency.Keys
	ops  *operator.Service
	// lossy: the PSP does what it is asked for and answers 500.
	lossy atomic.Bool
}

func terminal(t *testing.T) *operatorCall {
	t.Helper()
	c := &operatorCall{t: t, pool: pgtest.New(t)}
	db := pgtest.Open(t, c.pool.Config().ConnString(), pgtest.Limits())
	c.its = db.Pool()
	if err := tenants.NewRegistry(db, uuid.NewV7).EnsureTenant(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	config := mockpsp.DefaultConfig()
	config.Secret = "test-psp-secret"
	mock, err := mockpsp.New(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.lossy.Load() {
			mock.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		mock.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	psp, err := native.New(server.URL, "test-psp-secret", gateway.DefaultLimits(), nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	keys := idempotency.New(db, idempotency.Terms{
		Lease: 30 * time.Second, Retention: 48 * time.Hour, PSPMemory: 24 * time.Hour, GracePeriod: 90 * time.Second,
		FirstLookup: time.Hour,
	}, time.Now)
	log := slog.New(slog.DiscardHandler)
	c.pay = payments.New(payments.Config{
		DB: db, Keys: keys, PSPs: gateway.PSPs{native.Name: psp}, NewID: uuid.NewV7,
		Metrics:   telemetry.NewMetrics(prometheus.NewRegistry()),
		Log:       log,
		PublicURL: "http://payonce.test", Deadline: 30 * time.Second,
	})
	c.keys = keys
	c.ops = operator.New(operator.Config{DB: db, Keys: keys, Payments: c.pay, Log: log})
	return c
}

// lost leaves a key unknown, under which the PSP has charged.
func (c *operatorCall) lost() {
	c.t.Helper()
	c.lossy.Store(true)
	c.charge(lostKey)
	c.lossy.Store(false)
}
