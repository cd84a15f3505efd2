package operator

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
	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/problem"
	"payonce/internal/telemetry"
	"payonce/internal/tenants"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	patience  = time.Minute
	pspSecret = "test-psp-secret"
	clientKey = "order-0000000042"
)

// fixture is the operator's service with everything behind it, on a database and a PSP of the test's own.
type fixture struct {
	t       *testing.T
	pool    *pgxpool.Pool // straight to the tables
	db      *postgres.DB
	service *payments.Service
	psp     *native.Client
	ops     *Service
	config  Config // of the service, for another one

	lossy atomic.Bool // the PSP does what it is asked for and answers 500
	deaf  atomic.Bool // the PSP answers no question
	asked func()      // runs while the PSP is asked a question
}

func setup(t *testing.T) *fixture {
	t.Helper()
	o := &fixture{t: t, pool: pgtest.New(t)}
	o.db = postgres.Wrap(o.pool, patience)
	if err := tenants.NewRegistry(o.db, uuid.NewV7).EnsureTenant(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	limits := gateway.DefaultLimits()
	limits.BreakerFailures = 10_000 // An outage here shall reach the PSP, and lose its answers.
	psp, err := native.New(o.servePSP(), pspSecret, limits, nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	o.psp = psp
	o.config = o.configOn(o.db)
	o.service = o.config.Payments
	o.ops = New(o.config)
	return o
}

// configOn is the configuration of a service on a database.
func (f *fixture) configOn(db *postgres.DB) Config {
	keys := idempotency.New(db, idempotency.Terms{
		Lease: 30 * time.Second, Retention: 48 * time.Hour, PSPMemory: 24 * time.Hour, GracePeriod: 90 * time.Second,
		FirstLookup: time.Hour,
	}, time.Now)
	psps, log := gateway.PSPs{native.Name: f.psp}, slog.New(slog.DiscardHandler)
	return Config{DB: db, Keys: keys, PSPs: psps, Log: log, Payments: payments.New(payments.Config{
		DB: db, Keys: keys, PSPs: psps, NewID: uuid.NewV7, Log: log,
		Metrics:   telemetry.NewMetrics(prometheus.NewRegistry()),
		PublicURL: "https://pay.example", Deadline: 30 * time.Second,
	})}
}

// behindProxy is another service on the same database, behind a proxy that loses what it is told to lose.
func (f *fixture) behindProxy() (*Service, *pgproxy.Proxy) {
	f.t.Helper()
	proxy := pgproxy.Start(f.t, f.pool.Config().ConnString())
	db := pgtest.Open(f.t, proxy.URL(), pgtest.Limits())
	return New(f.configOn(db)), proxy
}

// servePSP is the mock PSP behind the faults that a test can switch on.
func (f *fixture) servePSP() (url string) {
	config := mockpsp.DefaultConfig()
	config.Secret = pspSecret
	mock, err := mockpsp.New(config)
	if err != nil {
		f.t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.asked != nil && r.Method == http.MethodGet {
			f.asked()
		}
		switch {
		case f.lossy.Load() && r.Method == http.MethodPost:
			mock.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusInternalServerError)
		case f.deaf.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			mock.ServeHTTP(w, r)
		}
	}))
	f.t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			f.t.Error(err)
		}
		server.Close()
	})
	return server.URL
}

// charged is the one charge that the PSP has under the client's key.
func (f *fixture) charged() (id string) {
	f.t.Helper()
	charge := gateway.Charge{Account: "acme", Key: clientKey}
	found, _ := f.psp.Lookup(f.t.Context(), charge, gateway.EndNothing).(gateway.Found)
	if len(found.Records) != 1 {
		f.t.Fatalf("the PSP has %+v", found.Records)
	}
	return found.Records[0].ID
}

// pay asks for 120 dollars under the client's key.
func (f *fixture) pay(method string) payments.Answer {
	f.t.Helper()
	key, err := idempotency.ParseKey(clientKey)
	if err != nil {
		f.t.Fatal(err)
	}
	answer, err := f.service.Create(f.t.Context(),
		payments.Keyed{Merchant: payment.Merchant{Tenant: "acme", PSP: native.Name, PSPAccount: "acme"}, Key: key},
		payment.CreateRequest{CustomerID: "cus-1", AmountCents: 12000, Currency: "USD", PaymentMethod: method})
	if err != nil {
		f.t.Fatal(err)
	}
	return answer
}

// windowOver lets the grace period of the key pass.
func (f *fixture) windowOver() {
	f.t.Helper()
	f.exec("UPDATE idempotency_keys SET unknown_since = unknown_since - interval '1 hour'")
}

func decision(l deadletters.DeadLetter, action deadletters.Action) Decision {
	return Decision{Decision: deadletters.Decision{DeadLetter: l.ID, Version: 1, Action: action, Reason: "seen to it",
		Actor: "ann"}}
}

func (f *fixture) resolve(d Decision) Outcome {
	f.t.Helper()
	outcome, err := f.ops.Resolve(f.t.Context(), d)
	if err != nil {
		f.t.Fatal(err)
	}
	return outcome
}

// done resolves a dead letter, which must work.
func (f *fixture) done(d Decision) Entry {
	f.t.Helper()
	outcome := f.resolve(d)
	if outcome.Did != WasDone || outcome.Refused != nil {
		f.t.Fatalf("it is %s, refused %+v", outcome.Did, outcome.Refused)
	}
	return outcome.Entry
}

// refused checks that a decision is refused on that ground, that nothing has moved, and that the refusal is on record.
func (f *fixture) refused(d Decision, ground problem.Code) string {
	f.t.Helper()
	before := f.picture()
	detail := f.refusedOn(d, ground)
	if after := f.picture(); after != before {
		f.t.Fatalf("%s was refused and has moved:\n%s\n%s", d.Action, before, after)
	}
	return detail
}

// refusedOn is refused, while others are at work.
func (f *fixture) refusedOn(d Decision, ground problem.Code) string {
	f.t.Helper()
	outcome := f.resolve(d)
	no := outcome.Refused
	if outcome.Did != WasRefused || no == nil || no.Ground != ground || no.Detail == "" {
		f.t.Fatalf("%s: it is %s, refused %+v, want %s", d.Action, outcome.Did, no, ground)
	}
	trail := f.show(d.DeadLetter).AuditTrail
	last := trail[len(trail)-1]
	if last.Done || last.Detail != no.Detail || last.Actor != d.Actor || last.Reason != d.Reason ||
		last.Action != d.Action || last.Version != d.Version {
		f.t.Fatalf("%s: audit row is %+v", d.Action, last)
	}
	return no.Detail
}

// picture is everything that a refusal must leave as it is.
func (f *fixture) picture() string {
	f.t.Helper()
	return pgtest.Value[string](f.t, f.pool, `SELECT coalesce(
		(SELECT string_agg(k::text, ';') FROM idempotency_keys AS k) || (SELECT string_agg(p::text, ';') FROM payments AS p), '')
		|| (SELECT count(*) FROM idempotency_key_events) || (SELECT string_agg(d::text, ';' ORDER BY id) FROM dead_letters AS d)`)
}

func (f *fixture) show(id uuid.UUID) Case {
	f.t.Helper()
	c, err := f.ops.Show(f.t.Context(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	pgtest.Exec(f.t, f.pool, sql, args...)
}

func scan[T any](o *fixture, sql string, args ...any) T {
	o.t.Helper()
	return pgtest.Value[T](o.t, o.pool, sql, args...)
}

// with is the fixture with another service, whose settings have changed.
func (f *fixture) with(change func(*Config)) *fixture {
	c := f.config
	change(&c)
	f.ops = New(c)
	return f
}
