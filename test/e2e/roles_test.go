package e2e

import (
	"net/http"
	"slices"
	"testing"
)

// The processes of these tests have the rights that they have in earnest; the tests themselves look at everything.
func TestProcessesLogInAsTheirRoles(t *testing.T) {
	t.Parallel()
	w := setupOpen(t)
	w.reconcile()
	w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "")
	var users []string
	err := w.db.QueryRow(t.Context(), `SELECT array_agg(DISTINCT usename::text ORDER BY usename::text) FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND application_name = 'payonce'`).Scan(&users)
	if err != nil || !slices.Equal(users, []string{"payonce_api", "payonce_reconciler"}) {
		t.Fatalf("logged in as %q: %v", users, err)
	}
}
