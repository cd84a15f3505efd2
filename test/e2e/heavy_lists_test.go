package e2e

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"payonce/internal/config"
	"payonce/test/pgtest"
)

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
	if pgtest.OnCitus() {
		w.t.Skip("a policy holds one row with a lock of one server, and on Citus the row is on another")
	}
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
		if _, err := gate.Exec(w.t.Context(), sql); err != nil {
			w.t.Fatal(err)
		}
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
