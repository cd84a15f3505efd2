package payments

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency"
)

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
