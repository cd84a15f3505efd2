package e2e

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"payonce/demo/mockpsp"
	"payonce/internal/app"
	"payonce/internal/config"
	"payonce/internal/postgres"
	"payonce/internal/tenants"
	"payonce/test/pgtest"
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

// A list by status reads through all payments of its tenant if few of them have the status. That takes long, and a
// tenant may ask for many such lists at once. They must not hold the connections that the payments of others need.
func TestLongListsOfOneTenantStopNobodyElse(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *options) {
		o.settings = func(c *config.API) { c.DBMaxConns, c.DBAcquire = 16, time.Second }
	})
	open := w.slow("acme")
	const asked = 24
	answers := make(chan int, asked)
	var all sync.WaitGroup
	for range asked {
		all.Go(func() {
			r, err := w.try(call{method: "GET", path: "/payments?status=succeeded"})
			if err != nil {
				t.Error(err)
			}
			answers <- r.status
		})
	}
	eventually(t, "the end of all lists that are not read", func() bool { return len(answers)+w.reading() == asked })
	for range 3 {
		w.do(call{method: "POST", path: "/payments", as: globexKey, key: freshKey(),
			body: order("pm_ok")}).expect(t, http.StatusCreated, "")
	}
	open()
	all.Wait()
	close(answers)
	statuses := map[int]int{}
	for status := range answers {
		statuses[status]++
	}
	if statuses[http.StatusOK] != 4 || statuses[http.StatusTooManyRequests] != asked-4 {
		t.Errorf("the lists were answered %v", statuses)
	}
	w.do(call{method: "GET", path: "/payments?status=succeeded"}).expect(t, http.StatusOK, "")
}

// slow makes a payment of the tenant, which nobody reads to its end before open is called.
func (w *world) slow(tenant string) (open func()) {
	w.t.Helper()
	pgtest.NeedsOneServer(w.t, "a policy holds one row with a lock there")
	w.pay(freshKey(), "pm_ok").expect(w.t, http.StatusCreated, "")
	gate, err := w.db.Acquire(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(gate.Release)
	w.exec(`CREATE FUNCTION read_slowly() RETURNS boolean LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN true; END $$`)
	w.exec("CREATE POLICY slow ON payments USING (tenant_id <> '" + tenant + "' OR read_slowly()) WITH CHECK (true)")
	w.exec("ALTER TABLE payments ENABLE ROW LEVEL SECURITY")
	do := func(sql string) {
		w.t.Helper()
		pgtest.Exec(w.t, gate, sql)
	}
	do("SELECT pg_advisory_lock(1)")
	return func() { do("SELECT pg_advisory_unlock(1)") }
}

// reading counts those who read the slow payment.
func (w *world) reading() int {
	return w.count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'")
}

// An operator who may read only cannot stop payments by reading: lists of all payments take as few connections.
func TestLongListsOfOperatorsStopNobody(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *options) {
		o.settings = func(c *config.API) { c.DBMaxConns, c.DBAcquire = 16, time.Second }
	})
	var arrived atomic.Int32
	b := w.browse(func(s *http.Server) {
		s.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateActive {
				arrived.Add(1)
			}
		}
	})
	open := w.slow("acme")
	const asked = 24
	var all sync.WaitGroup
	for i := range asked {
		all.Go(func() {
			path := []string{"/operator/payments", "/console/payments"}[i%2] + "?tenant=acme"
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.base+path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+operatorKey)
			res, err := b.http.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
		})
	}
	eventually(t, "the reading of lists", func() bool { return arrived.Load() == asked && w.reading() >= 4 })
	for range 3 {
		w.do(call{method: "POST", path: "/payments", as: globexKey, key: freshKey(),
			body: order("pm_ok")}).expect(t, http.StatusCreated, "")
	}
	if n := w.reading(); n > 4 {
		t.Errorf("%d lists are read at once", n)
	}
	open()
	all.Wait()
}
