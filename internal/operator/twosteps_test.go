package operator

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/demo/mockpsp"
	mockstripe "payonce/demo/mockpsp/stripe"
	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/gateway/stripe"
	"payonce/internal/idempotency"
	"payonce/internal/payments"
	"payonce/internal/telemetry"
)

// twoSteps is a fixture whose tenant is at Stripe, and whose payment waits for the customer.
type twoSteps struct {
	*fixture
	deadLetter deadletters.DeadLetter

	mu      sync.Mutex
	cancels int // how often Stripe was asked to cancel
}

func setupWaiting(t *testing.T) *twoSteps {
	t.Helper()
	o := &twoSteps{fixture: setup(t)}
	psp, err := stripe.New(stripe.Config{URL: o.serveStripe(), Secret: mockstripe.DemoSecret,
		Limits: gateway.DefaultLimits(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	psps := gateway.PSPs{stripe.Name: psp}
	o.service = payments.New(payments.Config{
		DB: o.db, Keys: o.config.Keys, PSPs: psps, NewID: uuid.NewV7, Log: o.config.Log,
		Metrics:   telemetry.NewMetrics(prometheus.NewRegistry()),
		PublicURL: "https://pay.example", Deadline: 30 * time.Second,
	})
	o.with(func(c *Config) { c.PSPs, c.Payments = psps, o.service })
	o.exec("INSERT INTO tenants (id, psp, psp_account) VALUES ('initech', 'stripe', 'acct_initech')")
	key, err := idempotency.ParseKey(clientKey)
	if err != nil {
		t.Fatal(err)
	}
	k := payments.Keyed{Key: key,
		Merchant: payments.Merchant{Tenant: "initech", PSP: stripe.Name, PSPAccount: "acct_initech"}}
	answer, err := o.service.Create(t.Context(), k, payments.CreateRequest{CustomerID: "cus-1", AmountCents: 12000,
		Currency: "USD", PaymentMethod: "pm_requires_action_abandoned"})
	if _, pending := answer.(payments.Pending); err != nil || !pending {
		t.Fatalf("answer %T %+v, %v", answer, answer, err)
	}
	l := o.about(deadletters.LookupsExhausted, `{}`)
	l.About.Tenant = "initech"
	l.Finding = l.About.KeyFinding(*l.Subject)
	o.deadLetter = o.put(l)
	return o
}

// serveStripe is the mock PSP in the dialect of Stripe.
func (o *twoSteps) serveStripe() (url string) {
	mock, err := mockpsp.New(mockpsp.DefaultConfig())
	if err != nil {
		o.t.Fatal(err)
	}
	dialect, err := mockstripe.New(mock, mockstripe.DefaultConfig())
	if err != nil {
		o.t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/cancel") {
			o.mu.Lock()
			o.cancels++
			o.mu.Unlock()
		}
		dialect.ServeHTTP(w, r)
	}))
	o.t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			o.t.Error(err)
		}
		server.Close()
	})
	return server.URL
}

func (o *twoSteps) cancelled() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cancels
}

// A look may end nothing: the customer could still pay.
func TestPreviewCancelsNothing(t *testing.T) {
	t.Parallel()
	o := setupWaiting(t)
	previews, err := o.ops.Preview(t.Context(), o.deadLetter.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range previews {
		does, refused := p.Does, p.Refused != nil && p.Refused.Ground == payments.ContradictsPSP
		if p.Action == deadletters.Executed && !refused ||
			p.Action == deadletters.NotExecuted && !strings.HasPrefix(does, "Have the PSP cancel it") {
			t.Errorf("%s would do %q, refused %+v", p.Action, does, p.Refused)
		}
	}
	if n := o.cancelled(); n != 0 {
		t.Fatalf("%d cancels", n)
	}
}

// An operator who says "not executed" does not wait for the customer, and not for the grace period either.
func TestNotExecutedEndsAPaymentThatWaitsForTheCustomer(t *testing.T) {
	t.Parallel()
	o := setupWaiting(t)
	o.refused(decision(o.deadLetter, deadletters.Executed), payments.ContradictsPSP)
	if n := o.cancelled(); n != 0 {
		t.Fatalf("executed has cancelled %d times", n)
	}
	o.done(decision(o.deadLetter, deadletters.NotExecuted))
	status := scan[string](o.fixture, "SELECT status FROM idempotency_keys")
	if n := o.cancelled(); n != 1 || status != "failed_retryable" {
		t.Fatalf("%d cancels, the key is %s", n, status)
	}
}
