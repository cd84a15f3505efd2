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
func (o *fixture) configOn(db *postgres.DB) Config {
	keys := idempotency.New(db, idempotency.Terms{
		Lease: 30 * time.Second, Retention: 48 * time.Hour, PSPMemory: 24 * time.Hour, GracePeriod: 90 * time.Second,
		FirstLookup: time.Hour,
	}, time.Now)
	psps, log := gateway.PSPs{native.Name: o.psp}, slog.New(slog.DiscardHandler)
	return Config{DB: db, Keys: keys, PSPs: psps, Log: log, Payments: payments.New(payments.Config{
		DB: db, Keys: keys, PSPs: psps, NewID: uuid.NewV7, Log: log,
		Metrics:   telemetry.NewMetrics(prometheus.NewRegistry()),
		PublicURL: "https://pay.example", Deadline: 30 * time.Second,
	})}
}

// behindProxy is another service on the same database, behind a proxy that loses what it is told to lose.
func (o *fixture) behindProxy() (*Service, *pgproxy.Proxy) {
	o.t.Helper()
	proxy := pgproxy.Start(o.t, o.pool.Config().ConnString())
	db := pgtest.Open(o.t, proxy.URL(), pgtest.Limits())
	return New(o.configOn(db)), proxy
}

// servePSP is the mock PSP behind the faults that a test can switch on.
func (o *fixture) servePSP() (url string) {
	config := mockpsp.DefaultConfig()
	config.Secret = pspSecret
	mock, err := mockpsp.New(config)
	if err != nil {
		o.t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.asked != nil && r.Method == http.MethodGet {
			o.asked()
		}
		switch {
		case o.lossy.Load() && r.Method == http.MethodPost:
			mock.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusInternalServerError)
		case o.deaf.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			mock.ServeHTTP(w, r)
		}
	}))
	o.t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			o.t.Error(err)
		}
		server.Close()
	})
	return server.URL
}

// charged is the one charge that the PSP has under the client's key.
func (o *fixture) charged() (id string) {
	o.t.Helper()
	charge := gateway.Charge{Account: "acme", Key: clientKey}
	found, _ := o.psp.Lookup(o.t.Context(), charge, gateway.EndNothing).(gateway.Found)
	if len(found.Records) != 1 {
		o.t.Fatalf("the PSP has %+v", found.Records)
	}
	return found.Records[0].ID
}

// pay asks for 120 dollars under the client's key.
func (o *fixture) pay(method string) payments.Answer {
	o.t.Helper()
	key, err := idempotency.ParseKey(clientKey)
	if err != nil {
		o.t.Fatal(err)
	}
	answer, err := o.service.Create(o.t.Context(),
		payments.Keyed{Merchant: payment.Merchant{Tenant: "acme", PSP: native.Name, PSPAccount: "acme"}, Key: key},
		payment.CreateRequest{CustomerID: "cus-1", AmountCents: 12000, Currency: "USD", PaymentMethod: method})
	if err != nil {
		o.t.Fatal(err)
	}
	return answer
}

// windowOver lets the grace period of the key pass.
func (o *fixture) windowOver() {
	o.t.Helper()
	o.exec("UPDATE idempotency_keys SET unknown_since = unknown_since - interval '1 hour'")
}

func decision(l deadletters.DeadLetter, action deadletters.Action) Decision {
	return Decision{Decision: deadletters.Decision{DeadLetter: l.ID, Version: 1, Action: action, Reason: "seen to it",
		Actor: "ann"}}
}

func (o *fixture) resolve(d Decision) Outcome {
	o.t.Helper()
	outcome, err := o.ops.Resolve(o.t.Context(), d)
	if err != nil {
		o.t.Fatal(err)
	}
	return outcome
}

// done resolves a dead letter, which must work.
func (o *fixture) done(d Decision) Entry {
	o.t.Helper()
	outcome := o.resolve(d)
	if outcome.Did != WasDone || outcome.Refused != nil {
		o.t.Fatalf("it is %s, refused %+v", outcome.Did, outcome.Refused)
	}
	return outcome.Entry
}

// refused checks that a decision is refused on that ground, that nothing has moved, and that the refusal is on record.
func (o *fixture) refused(d Decision, ground problem.Code) string {
	o.t.Helper()
	before := o.picture()
	detail := o.refusedOn(d, ground)
	if after := o.picture(); after != before {
		o.t.Fatalf("%s was refused and has moved:\n%s\n%s", d.Action, before, after)
	}
	return detail
}

// refusedOn is refused, while others are at work.
func (o *fixture) refusedOn(d Decision, ground problem.Code) string {
	o.t.Helper()
	outcome := o.resolve(d)
	no := outcome.Refused
	if outcome.Did != WasRefused || no == nil || no.Ground != ground || no.Detail == "" {
		o.t.Fatalf("%s: it is %s, refused %+v, want %s", d.Action, outcome.Did, no, ground)
	}
	trail := o.show(d.DeadLetter).AuditTrail
	last := trail[len(trail)-1]
	if last.Done || last.Detail != no.Detail || last.Actor != d.Actor || last.Reason != d.Reason ||
		last.Action != d.Action || last.Version != d.Version {
		o.t.Fatalf("%s: audit row is %+v", d.Action, last)
	}
	return no.Detail
}

// picture is everything that a refusal must leave as it is.
func (o *fixture) picture() string {
	o.t.Helper()
	return pgtest.Value[string](o.t, o.pool, `SELECT coalesce(
		(SELECT string_agg(k::text, ';') FROM idempotency_keys AS k) || (SELECT string_agg(p::text, ';') FROM payments AS p), '')
		|| (SELECT count(*) FROM idempotency_key_events) || (SELECT string_agg(d::text, ';' ORDER BY id) FROM dead_letters AS d)`)
}

func (o *fixture) show(id uuid.UUID) Case {
	o.t.Helper()
	c, err := o.ops.Show(o.t.Context(), id)
	if err != nil {
		o.t.Fatal(err)
	}
	return c
}

func (o *fixture) exec(sql string, args ...any) {
	o.t.Helper()
	pgtest.Exec(o.t, o.pool, sql, args...)
}

func scan[T any](o *fixture, sql string, args ...any) T {
	o.t.Helper()
	return pgtest.Value[T](o.t, o.pool, sql, args...)
}

// with is the fixture with another service, whose settings have changed.
func (o *fixture) with(change func(*Config)) *fixture {
	c := o.config
	change(&c)
	o.ops = New(c)
	return o
}
