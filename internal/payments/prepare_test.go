package payments

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
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
