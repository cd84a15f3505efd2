package events

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience is a limit that no test reaches.
const patience = 30 * time.Second

// post is a Deliverer on a database of the test's own.
type post struct {
	t        *testing.T
	pool     *pgxpool.Pool // straight to the tables
	d        *Deliverer
	registry *prometheus.Registry
	writes   int // events
}

func setup(t *testing.T) *post {
	t.Helper()
	p := &post{t: t, pool: pgtest.New(t), registry: prometheus.NewRegistry()}
	db := pgtest.Open(t, p.pool.Config().ConnString(), pgtest.Limits())
	p.d = New(Config{
		DB: db, Books: &payments.New(payments.Config{DB: db}).Books,
		Addresses: Addresses{AllowHTTP: true, Allow: loopback}, Timeout: patience, GiveUp: 72 * time.Hour,
		Now: time.Now, Jitter: func() float64 { return 0 }, Metrics: telemetry.NewMetrics(p.registry),
	})
	p.exec("INSERT INTO tenants (id, psp_account) VALUES ('acme', 'acme'), ('globex', 'globex')")
	return p
}

// write writes an event of a payment of its own, in the transaction.
func (p *post) write(on postgres.DBTX, tenant, kind string) payments.EventName {
	p.t.Helper()
	p.writes++
	id := uuid.Must(uuid.NewV7())
	version := time.Now().UnixMicro() + int64(p.writes)
	pgtest.Exec(p.t, on, `WITH p AS (
		INSERT INTO payments (tenant_id, id, idempotency_key, generation, customer_id, amount_minor, currency,
			payment_method, status)
		VALUES ($1, $2::uuid, $2::uuid::text, 1, 'customer', 12000, 'USD', 'pm_ok', 'processing') RETURNING *)
		INSERT INTO events (tenant_id, payment_id, version, type, status, psp_charge_id, refunded_minor, changed_at)
		SELECT tenant_id, id, $3, $4, 'succeeded', 'charge-1', 0, payonce_now() FROM p`, tenant, id, version, kind)
	return payments.EventName{PaymentID: payment.ID(id), Version: version}
}

// event is an event that is committed.
func (p *post) event(tenant, kind string) payments.EventName {
	p.t.Helper()
	return p.write(p.pool, tenant, kind)
}

// events are so many events of acme's, with their deliveries.
func (p *post) events(n int) {
	p.t.Helper()
	for range n {
		p.event("acme", "payment.succeeded")
	}
	p.dispatch()
}

// endpoint is a new endpoint, which gets these types of events, or all.
func (p *post) endpoint(tenant, url string, types ...string) uuid.UUID {
	p.t.Helper()
	id := uuid.Must(uuid.NewV7())
	p.exec(`INSERT INTO webhook_endpoints (tenant_id, id, url, event_types, secret)
		VALUES ($1, $2, $3, coalesce($4::text[], '{}'), $5)`, tenant, id, url, types, secret)
	return id
}

var secret, earlierSecret = bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)

func (p *post) dispatch() {
	p.t.Helper()
	if err := p.d.Dispatch(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

// deliver delivers what is due at an endpoint of acme's.
func (p *post) deliver(endpoint uuid.UUID) {
	p.t.Helper()
	if err := p.d.Deliver(p.t.Context(), "acme", endpoint); err != nil {
		p.t.Fatal(err)
	}
}

func (p *post) exec(sql string, args ...any) {
	p.t.Helper()
	pgtest.Exec(p.t, p.pool, sql, args...)
}

func (p *post) count(sql string, args ...any) int {
	p.t.Helper()
	return pgtest.Value[int](p.t, p.pool, sql, args...)
}

// want compares the answer of a query with the one that is wanted.
func (p *post) want(want, sql string, args ...any) {
	p.t.Helper()
	if got := pgtest.Value[string](p.t, p.pool, sql, args...); got != want {
		p.t.Errorf("%s: %s, want %s", sql, got, want)
	}
}

// counted is the value of a counter, of all its labels or of one.
func (p *post) counted(name, label string) (sum float64) {
	p.t.Helper()
	families, err := p.registry.Gather()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// sent is a request that a receiver has got.
type sent struct {
	header http.Header
	path   string
	body   []byte
}

// receiver is a merchant's server, which remembers what it got.
type receiver struct {
	*httptest.Server

	mu  sync.Mutex
	got []sent
}

// receive is a receiver that answers so. nil: with 204.
func receive(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.got = append(r.got, sent{request.Header, request.URL.Path, body})
		r.mu.Unlock()
		if answer == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		answer(w, request)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) requests() []sent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]sent{}, r.got...)
}

func (r *receiver) wantRequests(t *testing.T, want int) {
	t.Helper()
	if n := len(r.requests()); n != want {
		t.Fatalf("%d requests, want %d", n, want)
	}
}

// answering always answers with one status.
func answering(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// failOn has the database refuse changes of a table, until the test ends the trouble.
func (p *post) failOn(change, table string) (over func()) {
	p.t.Helper()
	p.exec("CREATE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'trouble'; END $$")
	p.exec(fmt.Sprintf("CREATE TRIGGER trouble BEFORE %s ON %s FOR EACH ROW EXECUTE FUNCTION trouble()", change, table))
	return func() { p.exec("DROP FUNCTION trouble CASCADE") }
}

func (p *post) begin() pgx.Tx { p.t.Helper(); return pgtest.Begin(p.t, p.pool) }
