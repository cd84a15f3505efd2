package tenants

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// An administrator who is told of a key or a limit that is not stored gives a customer a secret that nobody accepts.
func TestStatementThatFailsIsNoSuccessAndNoEmptyList(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	k := o.addKey("secret")
	pool, outage := pgtest.WithOutage(t, o.pool)
	r := NewRegistry(postgres.Wrap(pool, 0), uuid.NewV7)
	for statement, c := range map[string]struct {
		says string
		ask  func() error
	}{
		"CreateTenant": {"make tenant", func() error { return r.Create(t.Context(), atStripe()) }},
		"SetRate":      {"set rate limit", func() error { return r.SetRate(t.Context(), "acme", 7, 9) }},
		"ExpireKey": {"expire API key", func() error {
			_, err := r.ExpireKey(t.Context(), k.ID, time.Hour)
			return err
		}},
		"InsertKey": {"store API key", func() error {
			_, err := r.AddKey(t.Context(), "acme", "another", "", []Permission{PaymentsRead})
			return err
		}},
		"ListKeys":    {"list API keys", func() error { _, err := r.Keys(t.Context()); return err }},
		"ListTenants": {"list tenants", func() error { _, err := r.Tenants(t.Context()); return err }},
	} {
		outage.On("name: "+statement, 1)
		if err := c.ask(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", statement, err)
		}
	}
	for sql, want := range map[string]int{
		"SELECT count(*) FROM tenants": 1, "SELECT count(*) FROM tenants WHERE requests_per_second = 50": 1,
		"SELECT count(*) FROM api_keys": 1, "SELECT count(*) FROM api_keys WHERE expires_at IS NULL": 1,
	} {
		if n := o.count(sql); n != want {
			t.Errorf("%s: %d, want %d", sql, n, want)
		}
	}
}
