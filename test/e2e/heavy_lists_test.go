package e2e

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"payonce/internal/config"
)

// A list by status reads through all payments of its tenant if few of them have the status. That takes long, and a
// tenant may ask for many such lists at once. They must not hold the connections that the payments of others need.
func TestLongListsOfOneTenantStopNobodyElse(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *options) {
		o.settings = func(c *config.API) { c.DBMaxConns, c.DBAcquire = 16, time.Second }
	})
	w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "")
	// A payment of acme's is read as long as the test wants.
	gate, err := w.db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Release()
	w.exec(`CREATE FUNCTION read_slowly() RETURNS boolean LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_advisory_xact_lock_shared(70001); RETURN true; END $$`)
	w.exec("CREATE POLICY slow ON payments USING (tenant_id <> 'acme' OR read_slowly()) WITH CHECK (true)")
	w.exec("ALTER TABLE payments ENABLE ROW LEVEL SECURITY")
	if _, err := gate.Exec(t.Context(), "SELECT pg_advisory_lock(70001)"); err != nil {
		t.Fatal(err)
	}

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
	eventually(t, "the end of all lists that are not read", func() bool {
		return len(answers)+w.count(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event = 'advisory'`) == asked
	})
	for range 3 {
		w.do(call{method: "POST", path: "/payments", as: globexKey, key: freshKey(),
			body: order("pm_ok")}).expect(t, http.StatusCreated, "")
	}
	if _, err := gate.Exec(t.Context(), "SELECT pg_advisory_unlock(70001)"); err != nil {
		t.Fatal(err)
	}
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
