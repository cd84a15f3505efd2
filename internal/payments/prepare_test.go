package payments

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/demo/mockpsp"
	mockstripe "payonce/demo/mockpsp/stripe"
	"payonce/internal/gateway"
	"payonce/internal/gateway/stripe"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/test/pgproxy"
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
		Limits: gateway.DefaultLimits(), Now: time.Now, Installation: func() string { return "here" }})
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
	result, err := s.lookUpDue(s.t.Context(),
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

// remember asks to store an object's id, and says how many rows were written.
func (s *shop) remember(p dbsqlc.RememberObjectParams) (rows int64) {
	s.t.Helper()
	s.mustSend(func(ctx context.Context, q postgres.Statement) (err error) {
		rows, err = dbsqlc.New(q).RememberObject(ctx, p)
		return err
	})
	return rows
}

func (s *shop) remembered(id uuid.UUID) string {
	s.t.Helper()
	object := pgtest.Value[*string](s.t, s.pool, "SELECT psp_object_id FROM payments WHERE id = $1", id)
	return postgres.Text(object)
}

// rememberedBy are the parameters of the owner of a lease.
func rememberedBy(l idempotency.Lease, object string) dbsqlc.RememberObjectParams {
	return dbsqlc.RememberObjectParams{
		ObjectID: object, TenantID: l.Ref.Tenant, ID: l.Subject, Operation: string(l.Ref.Operation),
		Key: l.Ref.Key.String(), LeaseID: l.LeaseID,
	}
}

func TestObjectIsRememberedByTheOwnerOfTheLeaseOnly(t *testing.T) {
	t.Parallel()
	s := setup(t)
	k := keyed(t, "order-0000000042")
	m := s.movements(k)["payments"]
	c := s.reservation(payment.CreateOperation, k)
	first := s.reserveOnce(c, m)
	right := rememberedBy(first, "pi_1")
	refused := func(why string, p dbsqlc.RememberObjectParams) {
		t.Helper()
		before := s.remembered(right.ID)
		if rows := s.remember(p); rows != 0 || s.remembered(right.ID) != before {
			t.Errorf("%s: %d rows, and the object is %q", why, rows, s.remembered(right.ID))
		}
	}
	for what, change := range map[string]func(*dbsqlc.RememberObjectParams){
		"tenant":    func(p *dbsqlc.RememberObjectParams) { p.TenantID = "globex" },
		"payment":   func(p *dbsqlc.RememberObjectParams) { p.ID = uuid.New() },
		"operation": func(p *dbsqlc.RememberObjectParams) { p.Operation = "POST /elsewhere" },
		"key":       func(p *dbsqlc.RememberObjectParams) { p.Key = "order-0000000043" },
		"lease":     func(p *dbsqlc.RememberObjectParams) { p.LeaseID = uuid.New() },
	} {
		other := right
		change(&other)
		refused("another "+what, other)
	}
	otherKey := s.keyAlone(s.reservation(payment.CreateOperation, keyed(t, "order-0000000044")))
	foreign := rememberedBy(otherKey, "pi_1")
	foreign.ID = right.ID
	refused("the owner of another key", foreign)

	for range 2 { // sent again after a lost acknowledgement
		if rows := s.remember(right); rows != 1 || s.remembered(right.ID) != "pi_1" {
			t.Fatalf("%d rows, and the object is %q", rows, s.remembered(right.ID))
		}
	}
	refused("another object", rememberedBy(first, "pi_2"))

	// The key has moved, and the row has not: the owner may not execute any more.
	s.release(first)
	refused("not in progress", right)
	s.record(m, rowUpdate{first.Execution(), payment.Verdict{Status: payment.Failed},
		idempotency.FailedRetryableStatus, false})
	c = s.reservation(payment.CreateOperation, k)
	second := s.keyAlone(c)
	refused("not resumed", rememberedBy(second, "pi_1"))
	refused("an earlier attempt", right)
	s.resume(m, c, second.Subject)
	if object := s.remembered(right.ID); object != "" {
		t.Fatalf("the next attempt begins with the object %q", object)
	}
	refused("an earlier attempt", right)
	if rows := s.remember(rememberedBy(second, "pi_2")); rows != 1 || s.remembered(right.ID) != "pi_2" {
		t.Fatalf("%d rows, and the object is %q", rows, s.remembered(right.ID))
	}
}
