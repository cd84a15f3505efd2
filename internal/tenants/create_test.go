package tenants

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func atStripe() NewTenant {
	return NewTenant{ID: "initech", PSP: Stripe, PSPAccount: "acct_1", RequestsPerSecond: 7, Burst: 11}
}

func TestTenantIsCreatedAsItWasAskedFor(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	for range 2 { // the second time after a failure that was none
		if err := o.registry.Create(t.Context(), atStripe()); err != nil {
			t.Fatal(err)
		}
	}
	all, err := o.registry.Tenants(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Tenant{
		{ID: "acme", PSP: Native, PSPAccount: "acme", RequestsPerSecond: DefaultRate, Burst: DefaultBurst},
		{ID: "initech", PSP: Stripe, PSPAccount: "acct_1", RequestsPerSecond: 7, Burst: 11},
	}
	if diff := cmp.Diff(want, all, cmpopts.IgnoreFields(Tenant{}, "Created")); diff != "" {
		t.Fatalf("tenants differ (-want +got):\n%s", diff)
	}
}

func TestNewTenantsThatCannotBe(t *testing.T) {
	t.Parallel()
	o := setup(t)
	if err := o.registry.Create(t.Context(), atStripe()); err != nil {
		t.Fatal(err)
	}
	const exists = `tenant "initech" exists, at provider stripe with account acct_1, 7 requests per second and burst 11`
	for name, c := range map[string]struct {
		edit func(*NewTenant)
		want error
		says string
	}{
		"another provider": {func(n *NewTenant) { n.PSP = Native }, ErrTenantExists, exists},
		"another account":  {func(n *NewTenant) { n.PSPAccount = "acct_2" }, ErrTenantExists, exists},
		"another rate":     {func(n *NewTenant) { n.RequestsPerSecond = 8 }, ErrTenantExists, exists},
		"another burst":    {func(n *NewTenant) { n.Burst = 8 }, ErrTenantExists, exists},
		"account in use": {func(n *NewTenant) { n.ID = "globex" }, ErrAccountInUse,
			`account "acct_1" is in use by another tenant`},
		"account in use at another provider": {func(n *NewTenant) { n.ID, n.PSP = "globex", Native }, ErrAccountInUse,
			`account "acct_1" is in use by another tenant`},
		"no provider": {func(n *NewTenant) { n.PSP = "" }, ErrMalformed, "it must be native or stripe"},
		"unknown provider": {func(n *NewTenant) { n.PSP = "adyen" }, ErrMalformed,
			`provider "adyen" is malformed: it must be native or stripe`},
		"account of two words": {func(n *NewTenant) { n.ID, n.PSPAccount = "globex", "acct_1 2" }, ErrMalformed,
			"an account has 1 to 64 letters"},
		"id":         {func(n *NewTenant) { n.ID, n.PSPAccount = "Globex", "acct_2" }, ErrMalformed, "an id is"},
		"no rate":    {func(n *NewTenant) { n.RequestsPerSecond = 0 }, ErrMalformed, "it must be from 1 to 100000"},
		"high burst": {func(n *NewTenant) { n.Burst = MaxRate + 1 }, ErrMalformed, "it must be from 1 to 100000"},
	} {
		n := atStripe()
		c.edit(&n)
		err := o.registry.Create(t.Context(), n)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) ||
			c.says == exists && err.Error() != exists {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := o.count("SELECT count(*) FROM tenants"); n != 1 {
		t.Errorf("%d tenants", n)
	}
}
