package reconcile

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

const (
	patience = time.Minute
	overlap  = time.Minute // what scans read again
)

// books is a crew, and the ledgers of a PSP that the test plays itself: it lists what lists says, and a charge waits
// until the test has it answered.
type books struct {
	*crew
	*Reconciler

	asked chan charge
}

// charge is one that the PSP is asked for: its record, without an id and a status, and where to say whether the PSP
// executes it. Otherwise the answer is lost.
type charge struct {
	record   gateway.Record
	executes chan bool
}

// setupOn is the books of two tenants at a PSP.
func setupOn(t *testing.T, lists http.Handler) *books {
	t.Helper()
	b := &books{crew: setup(t), asked: make(chan charge)}
	b.exec("INSERT INTO tenants (id, psp_account) VALUES ('acme', 'acme'), ('globex', 'globex')")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			b.charges(w, r)
			return
		}
		lists.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	limits := gateway.DefaultLimits()
	limits.Total = patience // A busy machine may take longer than eight seconds for a page of megabytes.
	psp, err := native.New(server.URL, "test-psp-secret", limits, nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	b.Reconciler = b.r
	b.PSPs, b.ScanOverlap = gateway.PSPs{native.Name: psp}, overlap
	b.atWork()
	return b
}

// charges is what the PSP does about a charge.
func (s *books) charges(w http.ResponseWriter, r *http.Request) {
	var body struct {
		AmountCents int64  `json:"amountCents"`
		Currency    string `json:"currency"`
		Reference   string `json:"reference"`
	}
	_ = json.UnmarshalRead(r.Body, &body)
	asked := charge{executes: make(chan bool), record: gateway.Record{
		Object: gateway.ChargeObject, Account: r.Header.Get("PSP-Account"), Key: r.Header.Get("Idempotency-Key"),
		Reference: body.Reference, AmountMinor: body.AmountCents, Currency: body.Currency,
		ID: "psp_" + body.Reference, Status: gateway.StatusSucceeded,
		Created: time.Date(2026, 11, 20, 9, 5, 0, 0, time.UTC),
	}}
	select {
	case s.asked <- asked:
	case <-s.t.Context().Done():
		return
	}
	select {
	case executes := <-asked.executes:
		if !executes {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(asked.record.Evidence())
	case <-s.t.Context().Done():
	}
}

// order is a payment of 120 dollars.
type order struct {
	*books

	ref    idempotency.Ref
	record gateway.Record // what the PSP's ledger has of it once it is executed
	charge charge
	ended  chan error // the request
}

// charging is an order that the PSP has been asked for and has not answered.
func (s *books) charging(key string) *order {
	s.t.Helper()
	k, err := idempotency.ParseKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	o := &order{books: s, ended: make(chan error, 1),
		ref: idempotency.StoredRef("acme", string(payment.CreateOperation), key)}
	go func() {
		_, err := s.Payments.Create(s.t.Context(), payments.Keyed{Key: k,
			Merchant: payment.Merchant{Tenant: "acme", PSP: native.Name, PSPAccount: "acme"}},
			payment.CreateRequest{CustomerID: "cus-1", AmountCents: 12000, Currency: "USD", PaymentMethod: "pm_ok"})
		o.ended <- err
		close(o.ended)
	}()
	s.t.Cleanup(func() { _ = wait.For(s.t, "the end of the request", o.ended) })
	o.charge = wait.For(s.t, "the charge", s.asked)
	o.record = o.charge.record
	return o
}

func (s *order) answered(executes bool) *order {
	s.t.Helper()
	s.charge.executes <- executes
	if err := wait.For(s.t, "the answer", s.ended); err != nil {
		s.t.Fatal(err)
	}
	return s
}

func (s *order) succeeded() *order { s.t.Helper(); return s.answered(true) }
func (s *order) lost() *order      { s.t.Helper(); return s.answered(false) }

// windowPasses moves the moment at which the key became unknown beyond the grace period.
func (s *order) windowPasses() *order {
	s.t.Helper()
	s.timePasses("UPDATE idempotency_keys SET unknown_since = unknown_since - interval '90 seconds' WHERE key = $1",
		s.ref.Key.String())
	return s
}

func (s *order) wantStatus(want idempotency.Status) {
	s.t.Helper()
	if row, err := s.Keys.Find(s.t.Context(), s.ref); err != nil || row.Status != want {
		s.t.Fatalf("the key is %s, %v; want %s", row.Status, err, want)
	}
}

// wantSteps compares who has moved the key, and how.
func (s *order) wantSteps(want ...string) {
	s.t.Helper()
	events, err := s.Keys.Events(s.t.Context(), s.ref)
	if err != nil {
		s.t.Fatal(err)
	}
	var steps []string
	for _, e := range events {
		steps = append(steps, fmt.Sprintf("%s %s>%s", e.Actor, e.From, e.To))
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		s.t.Fatalf("steps differ (-want +got):\n%s", diff)
	}
}

func (s *books) timePasses(sql string, args ...any) {
	s.t.Helper()
	pgtest.TimePasses(s.t, s.pool, sql, args...)
}

// proxied has the books reach their database through a proxy.
func (s *books) proxied() *pgproxy.Proxy {
	s.t.Helper()
	proxy := pgproxy.Start(s.t, s.pool.Config().ConnString())
	s.atWorkOn(pgtest.Open(s.t, proxy.URL(), pgtest.Limits()))
	return proxy
}

func (s *books) count(sql string, args ...any) int {
	s.t.Helper()
	return pgtest.Value[int](s.t, s.pool, sql, args...)
}

// texts reads one column.
func (s *books) texts(sql string, args ...any) []string {
	s.t.Helper()
	return pgtest.Values[string](s.t, s.pool, sql, args...)
}

// wantDeadLetters compares all dead letters there are, each as its kind and its record, oldest first.
func (s *books) wantDeadLetters(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), s.texts(`SELECT kind || ' ' || substring(finding FROM 'record .*')
		FROM dead_letters ORDER BY opened_at, id`)); diff != "" {
		s.t.Fatalf("dead letters differ (-want +got):\n%s", diff)
	}
}

// everything is all that may move.
func (s *books) everything() []string {
	s.t.Helper()
	return s.texts(`SELECT t::text FROM idempotency_keys AS t UNION ALL SELECT t::text FROM idempotency_key_events AS t
		UNION ALL SELECT t::text FROM payments AS t UNION ALL SELECT t::text FROM dead_letters AS t ORDER BY 1`)
}

func noID() (uuid.UUID, error) { return uuid.UUID{}, errors.New("no random numbers") }
