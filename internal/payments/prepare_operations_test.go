package payments

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payonce/demo/mockpsp"
	mockstripe "payonce/demo/mockpsp/stripe"
	"payonce/internal/gateway"
	"payonce/internal/gateway/stripe"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/test/pgproxy"
)

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
		Limits: gateway.DefaultLimits(), Now: time.Now, Installation: func() string { return "here" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	s.service.psps = gateway.PSPs{stripe.Name: psp}
	s.exec("INSERT INTO tenants (id, psp, psp_account) VALUES ('initech', 'stripe', 'acct_initech')")
	return s
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

// The PSP's object is executed only if its id is stored for certain.
func TestObjectIsExecutedOnlyIfItIsStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cut    int
		action pgproxy.Action
		fails  int
		with   string
		sent   int
		stored bool
	}{
		"cut":                {cut: 1, action: pgproxy.CutBefore, sent: 2, stored: true},
		"lost":               {cut: 1, action: pgproxy.DropAcknowledgement, sent: 2, stored: true},
		"cut each time":      {cut: 3, action: pgproxy.CutBefore, sent: 3},
		"full once":          {fails: 1, with: diskFull, sent: 2, stored: true},
		"full each time":     {fails: 3, with: diskFull, sent: 3},
		"refused at the end": {fails: 1, with: oddError, sent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setupTwoSteps(t)
			proxy := s.proxied()
			if c.cut > 0 {
				proxy.OnNext(c.cut, "RememberObject", c.action)
			}
			if c.fails > 0 {
				s.failing(c.fails, c.with, "payments", "UPDATE", "OLD.psp_object_id IS DISTINCT FROM NEW.psp_object_id")
			}
			registry := prometheus.NewRegistry()
			s.service.metrics = telemetry.NewMetrics(registry)
			answer, steps := s.pay(twoStepKey, "pm_ok"), "create"
			if failed := strings.Contains(counted(t, registry), "store_errors"); failed == c.stored {
				t.Errorf("stored: %v, counted as an error of the database: %v", c.stored, failed)
			}
			if c.stored {
				is[Final](t, answer)
				steps = "create confirm"
			} else {
				is[NotExecuted](t, answer)
			}
			if n := proxy.Sent("RememberObject"); s.steps() != steps || n != c.sent {
				t.Errorf("steps %q, sent %d times", s.steps(), n)
			}
		})
	}
}
