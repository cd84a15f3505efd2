package main

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/demo/mockpsp"
	mockstripe "payonce/demo/mockpsp/stripe"
	"payonce/internal/gateway"
	"payonce/internal/gateway/stripe"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// chargedBy is a mock of Stripe with a charge that an installation has made on the account of a tenant.
func chargedBy(t *testing.T, installation string) (url string) {
	t.Helper()
	psp, err := mockpsp.New(mockpsp.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := psp.Close(); err != nil {
			t.Error(err)
		}
	})
	dialect, err := mockstripe.New(psp, mockstripe.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(dialect)
	t.Cleanup(server.Close)
	client, err := stripe.New(stripe.Config{URL: server.URL, Secret: mockstripe.DemoSecret,
		Limits: gateway.DefaultLimits(), Now: time.Now, Installation: func() string { return installation }})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ch := gateway.Charge{Account: "acct_acme", Key: "order-0000000001", Attempt: 1, AmountMinor: 12000, Currency: "USD",
		Reference: "pay_01k9z3w5m8fk2v7q4d6h0r1txe", PaymentMethod: "pm_ok"}
	object, refused := client.Prepare(t.Context(), ch)
	if refused != nil {
		t.Fatalf("%T %+v", refused, refused)
	}
	ch.ObjectID = object
	if o, paid := client.Charge(t.Context(), ch).(gateway.Succeeded); !paid {
		t.Fatalf("%T %+v", o, o)
	}
	return server.URL
}

// The original goes on charging after the backup. A database that replaces the original has lost these charges, and an
// operator must see them. A copy that runs beside the original knows that they are the original's.
func TestCopyThatIsRenewedLeavesTheOriginalsChargesAlone(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		renewed bool
		want    string
	}{
		"replacement": {false, "acme charges: read to the end; 0 resolved, 1 dead letter\n"},
		"copy":        {true, "acme charges: read to the end; 0 resolved, 0 dead letters\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.NewURL(t)
			db := pgtest.Open(t, url, pgtest.Limits())
			pgtest.Exec(t, db.Pool(), "INSERT INTO tenants (id, psp, psp_account) VALUES ('acme', 'stripe', 'acct_acme')")
			original, err := db.Installation(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if row.renewed {
				if err := db.SetInstallation(t.Context(), uuid.New()); err != nil {
					t.Fatal(err)
				}
			}
			out, logged, err := command(t, []string{"DATABASE_URL=" + pgtest.As(t, url, postgres.Reconciler),
				"STRIPE_URL=" + chargedBy(t, original), "STRIPE_SECRET=" + mockstripe.DemoSecret, "PSP=stripe"}, "scan")
			if err != nil || !strings.Contains(out, row.want) {
				t.Errorf("%v\n%s\n%s", err, out, logged)
			}
		})
	}
}
