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
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/telemetry"
)

// twoSteps is a fixture whose tenant is at Stripe.
type twoSteps struct {
	*fixture
	deadLetter deadletters.DeadLetter
	forget     func() // has Stripe forget all keys

	mu      sync.Mutex
	cancels int                             // how often Stripe was asked to cancel
	before  func(r *http.Request) (as wire) // what becomes of a request; nil: it is answered
}

// wire is what becomes of a request.
type wire int

const (
	answered  wire = iota
	lost           // it does not arrive
	lostReply      // it arrives, and the answer does not
)

// setupWaiting is a payment that waits for the customer.
func setupWaiting(t *testing.T) *twoSteps {
	t.Helper()
	o := setupAtStripe(t)
	o.payAtStripe("pm_requires_action_abandoned")
	return o
}

// creationAlone lets the creation of an intent through, and nothing else.
func creationAlone(r *http.Request) wire {
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/payment_intents") {
		return answered
	}
	return lost
}

// confirmationUnheard executes the charge, and lets nobody hear of it.
func confirmationUnheard(r *http.Request) wire {
	if strings.HasSuffix(r.URL.Path, "/confirm") {
		return lostReply
	}
	return creationAlone(r)
}

func setupAtStripe(t *testing.T) *twoSteps {
	t.Helper()
	o := &twoSteps{fixture: setup(t)}
	psp, err := stripe.New(stripe.Config{URL: o.serveStripe(), Secret: mockstripe.DemoSecret,
		Limits: gateway.DefaultLimits(), Now: time.Now, Installation: func() string { return "here" }})
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
	return o
}

func (o *twoSteps) keyed() payments.Keyed {
	o.t.Helper()
	key, err := idempotency.ParseKey(clientKey)
	if err != nil {
		o.t.Fatal(err)
	}
	return payments.Keyed{Key: key,
		Merchant: payment.Merchant{Tenant: "initech", PSP: stripe.Name, PSPAccount: "acct_initech"}}
}

// payAtStripe asks for a payment whose outcome is lost, and opens a dead letter about it.
func (o *twoSteps) payAtStripe(method string) {
	o.t.Helper()
	answer, err := o.service.Create(o.t.Context(), o.keyed(), payment.CreateRequest{CustomerID: "cus-1",
		AmountCents: 12000, Currency: "USD", PaymentMethod: method})
	if _, pending := answer.(payments.Pending); err != nil || !pending {
		o.t.Fatalf("answer %T %+v, %v", answer, answer, err)
	}
	o.deadLetter = o.open(deadletters.LookupsExhausted)
}

// open opens a dead letter about the key.
func (o *twoSteps) open(kind deadletters.Kind) deadletters.DeadLetter {
	l := o.about(kind, `{}`)
	l.About.Tenant = "initech"
	l.Finding = l.About.KeyFinding(*l.Subject)
	return o.put(l)
}

// meets has each request meet this from now on.
func (o *twoSteps) meets(before func(*http.Request) wire) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.before = before
}

// serveStripe is the mock PSP in the dialect of Stripe.
func (o *twoSteps) serveStripe() (url string) {
	mock, err := mockpsp.New(mockpsp.DefaultConfig())
	if err != nil {
		o.t.Fatal(err)
	}
	o.forget = func() {
		forgotten := httptest.NewRecorder()
		mock.ServeHTTP(forgotten, httptest.NewRequest(http.MethodDelete, "/_keys", http.NoBody))
		if forgotten.Code != http.StatusOK {
			o.t.Fatalf("not forgotten: %d %s", forgotten.Code, forgotten.Body)
		}
	}
	config := mockstripe.DefaultConfig()
	config.SearchLag = 0
	dialect, err := mockstripe.New(mock, config)
	if err != nil {
		o.t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		before := o.before
		if strings.HasSuffix(r.URL.Path, "/cancel") {
			o.cancels++
		}
		o.mu.Unlock()
		meets := answered
		if before != nil {
			meets = before(r)
		}
		switch meets {
		case answered:
			dialect.ServeHTTP(w, r)
			return
		case lostReply:
			dialect.ServeHTTP(httptest.NewRecorder(), r)
		case lost:
		}
		panic(http.ErrAbortHandler)
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

// An operator who says "not executed" does not wait for the customer, and not for the grace period either.
func TestNotExecutedEndsAPaymentThatWaitsForTheCustomer(t *testing.T) {
	t.Parallel()
	o := setupWaiting(t)
	o.refused(decision(o.deadLetter, deadletters.Executed), judge.ContradictsPSP)
	if n := o.cancelled(); n != 0 {
		t.Fatalf("executed has cancelled %d times", n)
	}
	o.done(decision(o.deadLetter, deadletters.NotExecuted))
	status := scan[string](o.fixture, "SELECT status FROM idempotency_keys")
	if n := o.cancelled(); n != 1 || status != "failed_retryable" {
		t.Fatalf("%d cancels, the key is %s", n, status)
	}
}

// The PSP was asked while another dead letter held the key, so nothing was cancelled. Meanwhile, a second operator has
// closed that one. The confirmation may still be on its way: nothing is released without a cancel.
func TestNothingIsReleasedThatStripeWasNotAskedToCancel(t *testing.T) {
	t.Parallel()
	o := setupAtStripe(t)
	o.meets(creationAlone)
	o.payAtStripe("pm_ok")
	other := o.open(deadletters.PSPMemoryOver)
	var second sync.Once
	o.meets(func(r *http.Request) wire {
		if r.Method == http.MethodGet {
			second.Do(func() { o.done(decision(other, deadletters.Dismiss)) })
		}
		return answered
	})
	o.windowOver()
	o.refusedOn(decision(o.deadLetter, deadletters.NotExecuted), judge.Conflict)
	status := scan[string](o.fixture, "SELECT status FROM idempotency_keys")
	if n := o.cancelled(); n != 0 || status != "unknown" {
		t.Fatalf("%d cancels, the key is %s", n, status)
	}
	o.done(decision(o.deadLetter, deadletters.NotExecuted))
	if n := o.cancelled(); n != 1 {
		t.Fatalf("%d cancels", n)
	}
}

// The charge's id is not the id that we ask for refunds by. Stripe has made the intent for this payment, so its id is
// the only one that can be meant, and the payment can be refunded.
func TestExecutedAtStripeIsTheIntentOfThePayment(t *testing.T) {
	t.Parallel()
	o := setupAtStripe(t)
	o.meets(confirmationUnheard)
	o.payAtStripe("pm_ok")
	intent := scan[string](o.fixture, "SELECT psp_object_id FROM payments")
	for _, id := range []string{"ch_of_the_intent", "pi_of_somebody"} {
		d := decision(o.deadLetter, deadletters.Executed)
		d.PSPID = id
		if detail := o.refused(d, judge.ContradictsPSP); !strings.Contains(detail, intent) {
			t.Errorf("detail is %q", detail)
		}
	}
	o.done(decision(o.deadLetter, deadletters.Executed))
	if id := o.pspID(); id != intent {
		t.Fatalf("the payment is %s, the intent %s", id, intent)
	}
	o.meets(nil)
	charge := payment.ID(scan[uuid.UUID](o.fixture, "SELECT id FROM payments"))
	answer, err := o.service.Refund(t.Context(), o.keyed(), charge, payment.RefundRequest{})
	if f, final := answer.(payments.Final); err != nil || !final || f.Response.Status != http.StatusCreated {
		t.Fatalf("refund: %T %+v, %v", answer, answer, err)
	}
}

// After a restore, our books have lost the payment that Stripe has executed under the key, and Stripe has forgotten the
// key. The new intent was not executed, and that says nothing about the first one.
func TestNotExecutedIsRefusedForAnIntentThatARestoreHasLost(t *testing.T) {
	t.Parallel()
	o := setupAtStripe(t)
	o.meets(confirmationUnheard)
	o.payAtStripe("pm_ok")
	lost := scan[string](o.fixture, "SELECT psp_object_id FROM payments")
	o.exec(`SET session_replication_role = replica; DELETE FROM dead_letters; DELETE FROM idempotency_keys;
		DELETE FROM idempotency_key_events; DELETE FROM payments; RESET session_replication_role`)
	o.forget()
	o.meets(creationAlone)
	o.payAtStripe("pm_ok")
	o.meets(nil)
	o.windowOver()
	detail := o.refused(decision(o.deadLetter, deadletters.NotExecuted), judge.ContradictsPSP)
	if n := o.cancelled(); n != 0 || !strings.Contains(detail, "lists "+lost+" under this key") {
		t.Fatalf("%d cancels, detail %q", n, detail)
	}
	o.done(decision(o.deadLetter, deadletters.Executed))
}
