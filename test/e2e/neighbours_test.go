package e2e

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"payonce/demo/mockpsp"
	"payonce/internal/app"
	"payonce/internal/config"
	"payonce/internal/postgres"
	"payonce/internal/tenants"
)

const initechKey = "test-initech-key"

// trouble sends ten payments of one tenant every second, at once, and counts the answers by status.
func (w *world) trouble(apiKey, paymentMethod string) map[int]int {
	const bursts, payments = 5, 10
	answers := make(chan int, bursts*payments)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var all sync.WaitGroup
	for range bursts {
		for range payments {
			all.Go(func() { answers <- w.status(apiKey, paymentMethod) })
		}
		<-tick.C
	}
	all.Wait()
	close(answers)
	statuses := map[int]int{}
	for status := range answers {
		statuses[status]++
	}
	return statuses
}

// pays sends up to ten payments of one tenant a second until it is told to stop. One comes after the other: on a busy
// machine, a tenant whose payments pile up would ask for more than its share of the places by itself.
func (w *world) pays(apiKey string, stop <-chan struct{}) map[int]int {
	tick := time.NewTicker(time.Second / 10)
	defer tick.Stop()
	for statuses := map[int]int{}; ; {
		statuses[w.status(apiKey, "pm_ok")]++
		select {
		case <-stop:
			return statuses
		case <-tick.C:
		}
	}
}

// status is what a payment is answered with.
func (w *world) status(apiKey, paymentMethod string) int {
	r, err := w.try(call{method: "POST", path: "/payments", as: apiKey, key: freshKey(), body: order(paymentMethod)})
	if err != nil {
		w.t.Error(err)
	}
	return r.status
}

// Three tenants at ten payments a second. Whatever the PSP does to one of them, the payments of the others are taken.
func TestOneTenantsTroubleRefusesNobodyElsesPayments(t *testing.T) {
	if testing.Short() {
		t.Skip("long: four systems under load")
	}
	t.Parallel()
	for trouble, method := range map[string]string{
		"timeouts": "pm_timeout_charged", "500s": "pm_500_charged", "resets": "pm_reset_charged", "slow": "pm_slow",
	} {
		t.Run(trouble, func(t *testing.T) {
			t.Parallel()
			// The tenant in trouble wants 25 places and more, and each of its bursts could open a breaker.
			w := setup(t, func(o *options) {
				o.settings = func(c *config.API) {
					c.PSPInFlight, c.PSPTotal, c.PSPBreakerFailures = 16, 3*time.Second,
						5
				}
				o.psp = func(c *mockpsp.Config) { c.SlowDelay = 2500 * time.Millisecond }
			})
			r := tenants.NewRegistry(postgres.Wrap(w.db, patience), app.NewID)
			if err := r.EnsureTenant(t.Context(), "initech"); err != nil {
				t.Fatal(err)
			}
			if _, err := r.AddKey(t.Context(), "initech", initechKey, "",
				[]tenants.Permission{tenants.PaymentsWrite}); err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			over := make(chan struct{})
			for _, neighbour := range []string{acmeKey, globexKey} {
				all.Go(func() {
					// It has paid all the time: five seconds at least.
					if got := w.pays(neighbour, over); got[http.StatusCreated] < 3 || len(got) > 1 {
						t.Errorf("a neighbour was answered %v, want nothing but 201", got)
					}
				})
			}
			bad := w.trouble(initechKey, method)
			close(over)
			all.Wait()
			if bad[http.StatusServiceUnavailable] == 0 {
				t.Errorf("the tenant in trouble was answered %v: its trouble is too small to show anything", bad)
			}
		})
	}
}
