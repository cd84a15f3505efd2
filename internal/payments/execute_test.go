package payments

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/postgres"
)

// Nothing is written and nothing is sent for a request that has no lease, or that nobody waits for.
func TestRequestThatCannotBeExecutedIsNotBegun(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	ended, end := context.WithCancel(t.Context())
	end()
	answer, err := s.service.Create(ended, keyed(t, "order-0000000001"), order())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a client that has hung up is answered %T, %v", answer, err)
	}
	makeID := s.service.newID
	s.service.newID = withoutID(2, makeID)
	if answer, err := s.service.Create(t.Context(), keyed(t, "order-0000000002"), order()); err == nil {
		t.Errorf("a payment without a lease is answered %T", answer)
	}
	s.service.newID = makeID
	s.failing(1<<30, diskFull, "payments", "INSERT", "true")
	answer, err = s.service.Create(t.Context(), keyed(t, "order-0000000003"), order())
	if !postgres.Unavailable(err) {
		t.Errorf("while the disk is full, a payment is answered %T, %v", answer, err)
	}
	if posts, _ := psp.seen(); posts != 0 || s.count("SELECT count(*) FROM idempotency_keys") != 0 {
		t.Errorf("%d charges were sent", posts)
	}
}

func TestDeletedKeyIsChargedUnderItsNextGeneration(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const key = "order-0000000001"
	g := &stage{shop: s, t: t, key: keyed(t, key)}
	for i := range 3 {
		asked := order()
		asked.AmountCents += payment.AmountMinor(i)
		if f := is[Final](t, s.create(key, asked)); f.Response.Status != http.StatusCreated || f.Replayed {
			t.Fatalf("life %d: answer is %+v", i+1, f)
		}
		g.deleted()
	}
	var keys []string
	page, err := s.service.psps.Of(native.Name).List(t.Context(), gateway.ChargeObject, "acme", time.Time{}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Records {
		keys = append(keys, r.Key)
	}
	if diff := cmp.Diff([]string{key, key + ".g2", key + ".g3"}, keys); diff != "" {
		t.Fatalf("the PSP's ledger differs (-want +got):\n%s", diff)
	}
	if n := s.count("SELECT count(DISTINCT generation) FROM payments WHERE idempotency_key = $1", key); n != 3 {
		t.Fatalf("%d generations for 3 payments", n)
	}
}

// Leases, grace periods and proofs are matters of the database's clock. A process whose own one is ten minutes off,
// which is more than either, does what any other does.
func TestClockOfTheProcessDecidesNothing(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"ahead": 10 * time.Minute, "behind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			psp := &actor{}
			server := httptest.NewServer(psp)
			t.Cleanup(server.Close)
			s := setupAt(t, server.URL, func() time.Time { return time.Now().Add(off) })

			psp.onPost(executes("psp_live"))
			if f := is[Final](t, s.create("order-0000000001", order())); f.Response.Status != http.StatusCreated {
				t.Fatalf("answered %+v", f)
			}
			psp.onPost(breaks)
			is[Pending](t, s.create("order-0000000002", order()))

			// Nothing is swept whose lease lasts by the database's clock, and what is over is.
			g := s.charging("order-0000000003")
			err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
				due, err := s.keys.SweepTx(t.Context(), tx, 10, time.Minute)
				if len(due) != 0 {
					t.Errorf("swept %d living leases", len(due))
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			is[InFlight](t, s.create("order-0000000003", order()))
			g.swept()

			psp.onLookup(finds())
			g.resolves(Scheduled)
			s.exec("UPDATE idempotency_keys SET unknown_since = unknown_since - $1::interval WHERE key = 'order-0000000003'",
				terms().GracePeriod-20*time.Second)
			g.resolves(Scheduled)
			g.wantStatus(idempotency.UnknownStatus, 1)
			s.exec("UPDATE idempotency_keys SET unknown_since = unknown_since - interval '20 seconds' WHERE key = 'order-0000000003'")
			g.resolves(Resolved)
			g.wantStatus(idempotency.FailedRetryableStatus, 1)

			psp.onPost(executes("psp_again"))
			if f := is[Final](t, s.create("order-0000000003", order())); f.Replayed ||
				f.Response.Status != http.StatusCreated {
				t.Fatalf("the retry was answered %+v", f)
			}
			g.wantStatus(idempotency.CompletedStatus, 2)
		})
	}
}
