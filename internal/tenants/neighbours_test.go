package tenants

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A key that speaks for another tenant pays with its money. The other tenants come first in every order.
func TestChangeOfOneTenantOrKeyChangesNoOther(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.exec("INSERT INTO tenants (id, psp_account) VALUES ('a-neighbour', 'acct_a'), ('another', 'acct_b')")
	o.tenant()
	for tenant, secret := range map[string]string{"a-neighbour": "a", "another": "b"} {
		if _, err := o.registry.AddKey(t.Context(), tenant, secret, "", []Permission{PaymentsRead}); err != nil {
			t.Fatal(err)
		}
	}
	k := o.addKey("mine")
	if err := o.registry.SetRate(t.Context(), "acme", 7, 9); err != nil {
		t.Fatal(err)
	}
	if err := o.registry.SetRate(t.Context(), "initech", 7, 9); !errors.Is(err, ErrNoTenant) ||
		err.Error() != ErrNoTenant.Error() {
		t.Errorf("the rate of nobody: %v", err)
	}
	for secret, want := range map[string]Principal{
		"a":    {Tenant: "a-neighbour", PSPAccount: "acct_a", RequestsPerSecond: DefaultRate, Burst: DefaultBurst},
		"mine": {Tenant: "acme", PSPAccount: "acme", RequestsPerSecond: 7, Burst: 9},
		"b":    {Tenant: "another", PSPAccount: "acct_b", RequestsPerSecond: DefaultRate, Burst: DefaultBurst},
	} {
		got, err := o.directory.Authenticate(t.Context(), secret)
		if err != nil {
			t.Fatal(err)
		}
		got = Principal{Tenant: got.Tenant, PSPAccount: got.PSPAccount, RequestsPerSecond: got.RequestsPerSecond,
			Burst: got.Burst}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Principal{})); diff != "" {
			t.Errorf("%q speaks for another (-want +got):\n%s", secret, diff)
		}
	}
	if _, err := o.registry.ExpireKey(t.Context(), k.ID, time.Hour); err != nil {
		t.Fatal(err)
	}
	if n := o.count("SELECT count(*) FROM api_keys WHERE expires_at IS NOT NULL"); n != 1 {
		t.Errorf("%d keys have an end", n)
	}
}

// Two processes make the same tenant. The one that has waited for the other finds the tenant, and does not fail.
func TestTenantThatAnotherProcessHasJustMadeIsFound(t *testing.T) {
	t.Parallel()
	o := setup(t)
	tx, err := o.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "INSERT INTO tenants (id, psp_account) VALUES ('initech', 'initech')"); err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 1)
	go func() { made <- o.registry.EnsureTenant(t.Context(), "initech") }()
	waits := "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
	for o.count(waits) == 0 && t.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if err := errors.Join(tx.Commit(t.Context()), <-made); err != nil {
		t.Error(err)
	}
}
