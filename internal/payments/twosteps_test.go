package payments

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/demo/mockpsp"
	mockstripe "payonce/demo/mockpsp/stripe"
	"payonce/internal/gateway"
	"payonce/internal/gateway/stripe"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// twoSteps is a shop whose tenant is at a PSP that makes an object first and executes it then: the mock PSP, in the
// dialect of Stripe.
type twoSteps struct {
	*shop

	mu     sync.Mutex
	calls  []string                                       // the steps that have arrived, such as "confirm"
	before func(step string, r *http.Request) (pass bool) // sees each step before the PSP does
}

func setupTwoSteps(t *testing.T) *twoSteps {
	t.Helper()
	s := &twoSteps{shop: setup(t)}
	config := mockpsp.DefaultConfig()
	config.HangLimit = time.Millisecond
	mock, err := mockpsp.New(config)
	if err != nil {
		t.Fatal(err)
	}
	dialect, err := mockstripe.New(mock, mockstripe.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.sees(r) {
			panic(http.ErrAbortHandler) // the connection is lost
		}
		dialect.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	psp, err := stripe.New(stripe.Config{URL: server.URL, Secret: mockstripe.DemoSecret,
		Limits: gateway.DefaultLimits(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	s.service.psps = gateway.PSPs{stripe.Name: psp}
	s.exec("INSERT INTO tenants (id, psp, psp_account) VALUES ('initech', 'stripe', 'acct_initech')")
	return s
}

// stepOf names a request of the dialect.
func stepOf(r *http.Request) string {
	switch {
	case r.Method == http.MethodGet:
		return "read"
	case strings.HasSuffix(r.URL.Path, "/confirm"):
		return "confirm"
	case strings.HasSuffix(r.URL.Path, "/cancel"):
		return "cancel"
	case strings.HasSuffix(r.URL.Path, "/payment_intents"):
		return "create"
	}
	return "other"
}

func (s *twoSteps) sees(r *http.Request) (pass bool) {
	step := stepOf(r)
	s.mu.Lock()
	s.calls = append(s.calls, step)
	before := s.before
	s.mu.Unlock()
	return before == nil || before(step, r)
}

// chooses has each step be seen from now on, before the PSP sees it.
func (s *twoSteps) chooses(before func(step string, r *http.Request) (pass bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = before
}

// steps are those that have arrived so far.
func (s *twoSteps) steps() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.calls, " ")
}

func (s *twoSteps) pay(key, method string) Answer {
	s.t.Helper()
	k := keyed(s.t, key)
	k.Merchant = payment.Merchant{Tenant: "initech", PSP: stripe.Name, PSPAccount: "acct_initech"}
	answer, err := s.service.Create(s.t.Context(), k, orderBy(method))
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

// lookUp has the PSP asked about an unknown key, as a job does.
func (s *twoSteps) lookUp(key string) LookupResult {
	s.t.Helper()
	k := keyed(s.t, key)
	ref := idempotency.Ref{Tenant: "initech", Operation: payment.CreateOperation, Key: k.Key}
	row, err := s.keys.Find(s.t.Context(), ref)
	if err != nil {
		s.t.Fatal(err)
	}
	e := row.Execution()
	result, err := s.service.LookUpDue(s.t.Context(),
		idempotency.Due{Ref: e.Ref, Subject: e.Subject, Generation: e.Generation}, patient())
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

func (s *twoSteps) status(key string) string {
	s.t.Helper()
	const query = "SELECT status FROM idempotency_keys WHERE key = $1"
	return pgtest.Value[string](s.t, s.pool, query, key)
}

// makeUnknown is what the sweeper does to a key whose lease is over.
func (s *twoSteps) makeUnknown(key string) {
	s.t.Helper()
	s.exec(`UPDATE idempotency_keys SET status = 'unknown', locked_until = NULL, unknown_since = payonce_now(),
		reconcile_after = payonce_now() WHERE key = $1 AND status = 'in_progress'`, key)
}

const twoStepKey = "order-0000000042"

func TestObjectIsStoredBeforeItIsExecuted(t *testing.T) {
	t.Parallel()
	s := setupTwoSteps(t)
	stored := 0
	s.chooses(func(step string, r *http.Request) bool {
		if step == "confirm" {
			id := strings.Split(r.URL.Path, "/")[3]
			stored = s.count("SELECT count(*) FROM payments WHERE psp_object_id = $1 AND status = 'processing'", id)
		}
		return true
	})
	f := is[Final](t, s.pay(twoStepKey, "pm_ok"))
	if f.Response.Status != http.StatusCreated || stored != 1 || s.steps() != "create confirm" {
		t.Fatalf("answer %d, %d rows had the id when it was executed, steps %q", f.Response.Status, stored, s.steps())
	}
}

// The sweeper has made the key unknown while the object was made. A lookup may have cancelled the object by now, or may
// be about to.
func TestOwnerThatLostItsKeyDoesNotExecute(t *testing.T) {
	t.Parallel()
	s := setupTwoSteps(t)
	s.chooses(func(step string, _ *http.Request) bool {
		if step == "create" {
			s.makeUnknown(twoStepKey)
		}
		return true
	})
	is[Pending](t, s.pay(twoStepKey, "pm_ok"))
	if s.steps() != "create" || s.count("SELECT count(*) FROM payments WHERE psp_object_id IS NOT NULL") != 0 {
		t.Fatalf("steps %q", s.steps())
	}
	s.chooses(nil)
	if got := s.lookUp(twoStepKey); got != Resolved || s.status(twoStepKey) != "failed_retryable" {
		t.Fatalf("lookup %s, key %s", got, s.status(twoStepKey))
	}
	if s.steps() != "create read create read cancel" { // the first read is a search
		t.Fatalf("steps %q", s.steps())
	}
}

// A cancelled object is never executed, so nobody has to wait for the grace period.
func TestCancelledKeyIsFreeAtOnce(t *testing.T) {
	t.Parallel()
	s := setupTwoSteps(t)
	s.chooses(func(step string, _ *http.Request) bool { return step == "create" }) // Nothing else arrives.
	is[Pending](t, s.pay(twoStepKey, "pm_ok"))
	if s.status(twoStepKey) != "unknown" {
		t.Fatalf("key %s", s.status(twoStepKey))
	}
	s.chooses(nil)
	if got := s.lookUp(twoStepKey); got != Resolved || s.status(twoStepKey) != "failed_retryable" {
		t.Fatalf("lookup %s, key %s, steps %q", got, s.status(twoStepKey), s.steps())
	}
	// The next attempt has an object of its own: the first one is cancelled for good.
	if f := is[Final](t, s.pay(twoStepKey, "pm_ok")); f.Response.Status != http.StatusCreated {
		t.Fatalf("answer %d", f.Response.Status)
	}
}

// The lookup cancels while the owner's confirmation is on its way. Whichever comes first decides, and both are told.
func TestConfirmationThatComesAfterTheCancelExecutesNothing(t *testing.T) {
	t.Parallel()
	s := setupTwoSteps(t)
	s.chooses(func(step string, _ *http.Request) bool {
		if step == "confirm" {
			s.makeUnknown(twoStepKey)
			if got := s.lookUp(twoStepKey); got != Resolved {
				s.t.Errorf("lookup %s", got)
			}
		}
		return true
	})
	is[NotExecuted](t, s.pay(twoStepKey, "pm_ok"))
	if s.steps() != "create confirm read cancel read" {
		t.Fatalf("steps %q", s.steps())
	}
	s.chooses(nil)
	is[Final](t, s.pay(twoStepKey, "pm_ok"))
	if n := s.count("SELECT count(*) FROM payments WHERE status = 'succeeded'"); n != 1 {
		t.Fatalf("%d payments", n)
	}
}

// One PSP's webhooks say nothing about a tenant of another.
func TestRecordOfAnotherPSPMovesNothing(t *testing.T) {
	t.Parallel()
	s := setupTwoSteps(t)
	s.chooses(func(step string, _ *http.Request) bool { return step == "create" })
	is[Pending](t, s.pay(twoStepKey, "pm_ok"))
	id := pgtest.Value[string](t, s.pool, "SELECT id FROM payments")
	reference, err := uuid.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	record := gateway.Record{
		Object: gateway.ChargeObject, ID: "ch_1", Account: "acct_initech", Key: twoStepKey,
		Reference: payment.ID(reference).String(), AmountMinor: 12000, Currency: "USD", Status: "succeeded",
		Created: time.Now(),
	}
	effect, err := s.service.ApplyRecord(t.Context(), judge.Record{Source: judge.SourceWebhook, PSP: "native",
		Record: record})
	if err != nil {
		t.Fatal(err)
	}
	if d := is[DeadLettered](t, effect); d.Kind != "other_account" || s.status(twoStepKey) != "unknown" {
		t.Fatalf("%+v, key %s", d, s.status(twoStepKey))
	}
	effect, err = s.service.ApplyRecord(t.Context(),
		judge.Record{Source: judge.SourceWebhook, PSP: stripe.Name, Record: record})
	if err != nil {
		t.Fatal(err)
	}
	is[Completed](t, effect)
}

// The first attempt's object was declined and given up. Its decline arrives while the second attempt is executed.
func TestDeclineOfAnEarlierObjectSaysNothingAboutTheNextAttempt(t *testing.T) {
	t.Parallel()
	s := setupTwoSteps(t)
	late := func(id string) gateway.Record {
		var reference uuid.UUID
		if err := s.pool.QueryRow(t.Context(), "SELECT id FROM payments").Scan(&reference); err != nil {
			s.t.Error(err)
		}
		return gateway.Record{
			Object: gateway.ChargeObject, ID: id, Account: "acct_initech", Key: twoStepKey,
			Reference: payment.ID(reference).String(), AmountMinor: 12000, Currency: "USD", Status: "declined",
			DeclineCode: "insufficient_funds", Created: time.Now(),
		}
	}
	s.chooses(func(step string, _ *http.Request) bool {
		if step == "confirm" {
			effect, err := s.service.ApplyRecord(t.Context(),
				judge.Record{Source: judge.SourceWebhook, PSP: stripe.Name, Record: late("pi_of_an_earlier_attempt")})
			if _, nothing := effect.(Confirmed); err != nil || !nothing {
				s.t.Errorf("effect %T %+v, %v", effect, effect, err)
			}
		}
		return true
	})
	if f := is[Final](t, s.pay(twoStepKey, "pm_ok")); f.Response.Status != http.StatusCreated {
		t.Fatalf("answer %d", f.Response.Status)
	}
	if n := s.count("SELECT count(*) FROM dead_letters"); n != 0 {
		t.Fatalf("%d dead letters", n)
	}
}

// Making the object has taken so long that somebody else may be acting on the end of the lease.
func TestOwnerThatWasPausedAfterTheObjectDoesNotExecute(t *testing.T) {
	t.Parallel()
	s := setupTwoSteps(t)
	var paused atomic.Int64
	s.keys = idempotency.New(postgres.Wrap(s.pool, patience), terms(),
		func() time.Time { return time.Now().Add(time.Duration(paused.Load())) })
	s.service.keys = s.keys
	s.chooses(func(step string, _ *http.Request) bool {
		if step == "create" {
			paused.Store(int64(terms().MaxPause() + time.Second))
		}
		return true
	})
	is[NotExecuted](t, s.pay(twoStepKey, "pm_ok"))
	if s.steps() != "create" || s.status(twoStepKey) != "failed_retryable" {
		t.Fatalf("steps %q, key %s", s.steps(), s.status(twoStepKey))
	}
}

// A customer has time to pay until the grace period is over. Then the lookup cancels.
func TestLookupLeavesThePaymentToTheCustomerWithinTheGracePeriod(t *testing.T) {
	t.Parallel()
	s := setupTwoSteps(t)
	is[Pending](t, s.pay(twoStepKey, "pm_requires_action_abandoned"))
	if got := s.lookUp(twoStepKey); got != Scheduled || s.status(twoStepKey) != "unknown" {
		t.Fatalf("lookup %s, key %s", got, s.status(twoStepKey))
	}
	if s.steps() != "create confirm read" {
		t.Fatalf("steps %q", s.steps())
	}
	s.wantWait(twoStepKey, patient().Cap)
	s.exec("UPDATE idempotency_keys SET unknown_since = unknown_since - $1::interval", terms().GracePeriod)
	if got := s.lookUp(twoStepKey); got != Resolved || s.status(twoStepKey) != "failed_retryable" {
		t.Fatalf("lookup %s, key %s", got, s.status(twoStepKey))
	}
	if s.steps() != "create confirm read read cancel" {
		t.Fatalf("steps %q", s.steps())
	}
}
