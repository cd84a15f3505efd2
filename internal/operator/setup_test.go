// What the tests of this package share:
//
//	fixture       the operator's service with everything behind it, and the key of a client's payment
//	dead letters  about that key, about a refund, or about no key
//	hooks         what a decision hands on to others
//	rows          of tables that no program of ours would write so, and neighbours of a name

package operator

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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
	if last.Outcome != "refused" || last.Detail != no.Detail || last.Actor != d.Actor || last.Reason != d.Reason ||
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

// lost makes an unknown key: the PSP has done what the method says, and its answer was lost. A dead letter about the
// key is open.
func (f *fixture) lost(method string) deadletters.DeadLetter {
	f.t.Helper()
	f.lossy.Store(true)
	answer := f.pay(method)
	f.lossy.Store(false)
	if _, ok := answer.(payments.Pending); !ok {
		f.t.Fatalf("answer is %T %+v", answer, answer)
	}
	return f.put(f.about(deadletters.LookupsExhausted, `{}`))
}

// lostRefund is lost for a refund of the payment.
func (f *fixture) lostRefund(fault string) deadletters.DeadLetter {
	f.t.Helper()
	f.pay("pm_ok")
	key, err := idempotency.ParseKey(clientKey)
	if err != nil {
		f.t.Fatal(err)
	}
	k := payments.Keyed{Merchant: payment.Merchant{Tenant: "acme", PSP: native.Name, PSPAccount: "acme"}, Key: key}
	charge := payment.ID(scan[uuid.UUID](f, "SELECT id FROM payments"))
	f.lossy.Store(true)
	answer, err := f.service.Refund(f.t.Context(), k, charge, payment.RefundRequest{AmountCents: 2000, Reason: fault})
	f.lossy.Store(false)
	if _, ok := answer.(payments.Pending); !ok || err != nil {
		f.t.Fatalf("answer is %T %+v, %v", answer, answer, err)
	}
	about := deadletters.About{Tenant: "acme", Operation: payment.RefundOperation, Key: clientKey, Generation: 1}
	subject := scan[uuid.UUID](f, "SELECT id FROM refunds")
	return f.put(deadletters.DeadLetter{
		ID: uuid.Must(uuid.NewV7()), Kind: deadletters.LookupsExhausted, Finding: about.KeyFinding(subject),
		About:   &about,
		Subject: &subject, Reason: "the PSP says nothing", Evidence: []byte(`{}`),
	})
}

// about is a dead letter about the client's key.
func (f *fixture) about(kind deadletters.Kind, evidence string) deadletters.DeadLetter {
	f.t.Helper()
	about := deadletters.About{Tenant: "acme", Operation: payment.CreateOperation, Key: clientKey, Generation: 1}
	subject := pgtest.Value[uuid.UUID](f.t, f.pool, "SELECT subject FROM idempotency_keys")
	return deadletters.DeadLetter{
		ID: uuid.Must(uuid.NewV7()), Kind: kind, Finding: about.KeyFinding(subject), About: &about, Subject: &subject,
		Reason: "the PSP says nothing", Evidence: []byte(evidence),
	}
}

// alone is a dead letter about no key.
func alone(kind deadletters.Kind, evidence string) deadletters.DeadLetter {
	id := uuid.Must(uuid.NewV7())
	return deadletters.DeadLetter{ID: id, Kind: kind, Finding: "finding " + id.String(), Reason: "nobody asked for it",
		Evidence: []byte(evidence)}
}

func (f *fixture) put(l deadletters.DeadLetter) deadletters.DeadLetter {
	f.t.Helper()
	if err := f.db.Pipeline(f.t.Context(), deadletters.Open(l)); err != nil {
		f.t.Fatal(err)
	}
	return l
}

const record = `{"id": "ch_7", "object": "charge", "account": "acme", "idempotencyKey": "somebody-elses-key", "reference": "",
	"amountCents": 700, "currency": "USD", "status": "succeeded", "createdAt": "2026-11-20T09:30:00Z"}`

// hooks keeps what the service hands on.
type hooks struct{ calls []string }

func (h *hooks) use(c *Config) {
	c.Requeue = func(_ context.Context, _ pgx.Tx, id int64) error {
		h.calls = append(h.calls, fmt.Sprintf("job %d", id))
		return nil
	}
	c.Reprocess = func(_ context.Context, _ pgx.Tx, id string) error {
		h.calls = append(h.calls, "event "+id)
		return nil
	}
	c.Forget = func(_ context.Context, _ pgx.Tx, id string) error {
		h.calls = append(h.calls, "forgotten "+id)
		return nil
	}
	c.Reconsider = func(_ context.Context, _ pgx.Tx, raw []byte) error {
		r, err := gateway.ParseRecord(raw)
		h.calls = append(h.calls, "record "+r.ID)
		return err
	}
}

// keyAsIs puts a key of the first generation into the table, behind the guard's back.
func (f *fixture) keyAsIs(ref idempotency.Ref, status idempotency.Status, subject uuid.UUID) {
	f.t.Helper()
	f.exec("ALTER TABLE idempotency_keys DISABLE TRIGGER USER")
	f.exec(`INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id,
			subject, created_at, reserved_at, expires_at)
		VALUES ($1, $2, $3, $4, sha256(''), 1, 1, gen_random_uuid(), $5, now(), now(), now() + interval '1 day')`,
		ref.Tenant, string(ref.Operation), ref.Key.String(), string(status), subject)
	f.exec("ALTER TABLE idempotency_keys ENABLE TRIGGER USER")
}

// movements puts a payment and a refund of it into the tables, both with this id.
func (f *fixture) movements(tenant string, id uuid.UUID) {
	f.t.Helper()
	f.exec(`INSERT INTO payments (tenant_id, id, idempotency_key, generation, customer_id, amount_minor, currency,
			payment_method, status, psp_charge_id)
		VALUES ($1, $2, $3, 1, 'cus-1', 12000, 'USD', 'pm_ok', 'succeeded', 'ch_' || $2::uuid)`, tenant, id, clientKey)
	f.exec(`INSERT INTO refunds (tenant_id, id, payment_id, idempotency_key, generation, amount_minor, currency, status,
			psp_refund_id)
		VALUES ($1, $2, $2, $3, 1, 100, 'USD', 'succeeded', 're_' || $2::uuid)`, tenant, id, clientKey)
}

// aboutOthers are dead letters that differ from one about this key and payment in one part each.
func aboutOthers(ref idempotency.Ref, subject uuid.UUID) map[string]deadletters.DeadLetter {
	others := map[string]deadletters.DeadLetter{}
	for name, change := range map[string]func(*deadletters.About, *uuid.UUID){
		"tenant":     func(a *deadletters.About, _ *uuid.UUID) { a.Tenant = "a-neighbour" },
		"operation":  func(a *deadletters.About, _ *uuid.UUID) { a.Operation = payment.RefundOperation },
		"key":        func(a *deadletters.About, _ *uuid.UUID) { a.Key = "an-order-0000000042" },
		"generation": func(a *deadletters.About, _ *uuid.UUID) { a.Generation++ },
		"subject":    func(_ *deadletters.About, s *uuid.UUID) { *s = uuid.Must(uuid.NewV7()) },
	} {
		its := subject
		l := aboutKey(ref, &its)
		change(l.About, &its)
		others[name] = l
	}
	return others
}

// aboutKey is a dead letter about the first generation of a key. Without a subject, it is about whatever payment the
// key stands for.
func aboutKey(ref idempotency.Ref, subject *uuid.UUID) deadletters.DeadLetter {
	l := alone(deadletters.LookupsExhausted, `{}`)
	l.About = &deadletters.About{Tenant: ref.Tenant, Operation: string(ref.Operation), Key: ref.Key.String(),
		Generation: 1}
	l.Subject = subject
	return l
}

// neighboursOf are the names that differ from a key's name in one part.
func neighboursOf(ref idempotency.Ref) map[string]idempotency.Ref {
	operation, key := string(ref.Operation), ref.Key.String()
	return map[string]idempotency.Ref{
		"tenant":    idempotency.StoredRef("a-neighbour", operation, key),
		"operation": idempotency.StoredRef(ref.Tenant, payment.RefundOperation, key),
		"key":       idempotency.StoredRef(ref.Tenant, operation, "an-order-0000000042"),
	}
}

// rowsOfKeys puts a key of each status into the table, each reserved a second later than the one before, and all of
// them some hours later.
func (f *fixture) rowsOfKeys(tenant string, hours int, statuses ...string) {
	f.t.Helper()
	f.exec(`INSERT INTO tenants (id, psp_account) VALUES ($1, $1) ON CONFLICT DO NOTHING`, tenant)
	f.exec(`ALTER TABLE idempotency_keys DISABLE TRIGGER USER`)
	for i, status := range statuses {
		f.exec(`INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation,
			lease_id, subject, created_at, reserved_at, expires_at, locked_until, reconcile_after, unknown_since,
			finished_at, delete_after, response_status)
			SELECT $1, 'POST /payments', $1 || '-' || $2::int || '-' || $3, $3, '', 1, 1, gen_random_uuid(),
			       gen_random_uuid(), a.at, a.at, a.at, CASE WHEN $3 = 'in_progress' THEN a.at END,
			       CASE WHEN $3 = 'unknown' THEN a.at END, CASE WHEN $3 = 'unknown' THEN a.at END,
			       CASE WHEN $3 NOT IN ('in_progress', 'unknown') THEN a.at END,
			       CASE WHEN $3 = 'expired' THEN a.at END, CASE WHEN $3 = 'completed' THEN 201 END
			FROM (SELECT now() + make_interval(hours => $4, secs => $2) AS at) AS a`, tenant, i, status, hours)
	}
	f.exec(`ALTER TABLE idempotency_keys ENABLE TRIGGER USER`)
}

func wantNames(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}
