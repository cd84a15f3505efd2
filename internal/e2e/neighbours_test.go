package e2e

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"payonce/internal/app"
	"payonce/internal/config"
	"payonce/internal/gateway/mockpsp"
	"payonce/internal/postgres"
	"payonce/internal/tenants"
)

const initechKey = "test-initech-key"

// load sends ten payments a second of one tenant for as long as a run takes, in bursts, and counts the answers by status.
func (w *world) load(apiKey, paymentMethod string, burst int) map[int]int {
	const run, perSecond = 5 * time.Second, 10
	var (
		all      sync.WaitGroup
		mu       sync.Mutex
		statuses = map[int]int{}
	)
	ctx, cancel := context.WithTimeout(w.t.Context(), run)
	defer cancel()
	tick := time.NewTicker(time.Duration(burst) * time.Second / perSecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		for range burst {
			all.Go(func() {
				r, err := w.try(call{method: "POST", path: "/payments", as: apiKey, key: freshKey(), body: order(paymentMethod)})
				if err != nil {
					w.t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				statuses[r.status]++
			})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	all.Wait()
	return statuses
}

// Three tenants at ten payments a second. Whatever the PSP does to one of them, the payments of the others are taken.
func TestOneTenantsTroubleRefusesNobodyElsesPayments(t *testing.T) {
	t.Parallel()
	for trouble, method := range map[string]string{
		"timeouts": "pm_timeout_charged", "500s": "pm_500_charged", "resets": "pm_reset_charged", "slow": "pm_slow",
	} {
		t.Run(trouble, func(t *testing.T) {
			t.Parallel()
			// The tenant in trouble wants 25 places and more, and each of its bursts could open a breaker.
			w := setup(t, func(o *options) {
				o.settings = func(c *config.API) { c.PSPInFlight, c.PSPTotal, c.PSPBreakerFailures = 16, 3*time.Second, 5 }
				o.psp = func(c *mockpsp.Config) { c.SlowDelay = 2500 * time.Millisecond }
			})
			r := tenants.NewRegistry(postgres.Wrap(w.db, patience), app.NewID)
			if err := r.EnsureTenant(t.Context(), "initech"); err != nil {
				t.Fatal(err)
			}
			if _, err := r.AddKey(t.Context(), "initech", initechKey, "", []tenants.Permission{tenants.PaymentsWrite}); err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for _, neighbour := range []string{acmeKey, globexKey} {
				all.Go(func() {
					if got := w.load(neighbour, "pm_ok", 1); got[http.StatusCreated] < 10 || len(got) > 1 {
						t.Errorf("a neighbour was answered %v, want nothing but 201", got)
					}
				})
			}
			bad := w.load(initechKey, method, 10)
			all.Wait()
			if bad[http.StatusServiceUnavailable] == 0 {
				t.Errorf("the tenant in trouble was answered %v: its trouble is too small to show anything", bad)
			}
		})
	}
}
