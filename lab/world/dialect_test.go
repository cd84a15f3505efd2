package world_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"testing"

	"payonce/internal/tenants"
	"payonce/lab/invariants"
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// calls notes the names of the calls to the PSP, in order.
type calls struct {
	mu    sync.Mutex
	names []string
}

func (c *calls) note(call httpproxy.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = append(c.names, call.Name)
}

// after returns those that came since the first n, lists left out: scans make them whenever they like.
func (c *calls) after(n int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.names[n:]), func(name string) bool { return name == world.List })
}

func (c *calls) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.names)
}

// stripeWorld is a world at Stripe that is started.
func stripeWorld(ctx context.Context, t *testing.T, site *world.Site, c *calls) (*world.World, *world.Process) {
	t.Helper()
	w, err := site.New(ctx, world.Plan{PSP: tenants.Stripe, Arrived: c.note})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	api, err := w.StartAPI(ctx, "api-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.StartReconciler(ctx, "reconciler-1"); err != nil {
		t.Fatal(err)
	}
	return w, api
}

// A payment, a refund, a lookup that cancels, and the end of it all: a ledger that has what the clients were told.
func TestWorldSpeaksStripe(t *testing.T) {
	t.Parallel()
	long(t)
	ctx, site := open(t)
	var seen calls
	w, api := stripeWorld(ctx, t, site, &seen)
	client := world.NewClient()
	t.Cleanup(client.Close)
	do := func(r world.Request) world.Answer {
		t.Helper()
		a, err := client.Do(ctx, api.Address, r)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}

	paid := do(w.Keys.Payment("key-of-the-payment", "pm_ok"))
	var payment struct{ PaymentID string }
	if err := json.Unmarshal(paid.Body, &payment); err != nil || paid.Status != http.StatusCreated {
		t.Fatalf("paid: %d %s", paid.Status, paid.Body)
	}
	if got := seen.after(0); !slices.Equal(got, []string{world.Create, world.Charge}) {
		t.Fatalf("a payment calls %v", got)
	}
	path := "/payments/" + payment.PaymentID + "/refunds"
	refunded := do(world.Request{Path: path, As: w.Keys.Acme, Key: "key-of-the-refund", Body: `{"amountCents":500}`})
	if refunded.Status != http.StatusCreated || api.PSP.Seen(world.Refund) != 1 {
		t.Fatalf("refunded: %d %s", refunded.Status, refunded.Body)
	}

	// A new tenant is there too, once the API has read who there is.
	key, err := w.AddTenant(ctx, "initech", 100)
	if err != nil {
		t.Fatal(err)
	}
	other := w.Keys.Payment("key-of-the-new-tenant", "pm_ok")
	other.As = key
	awaitStatus(ctx, t, func() (world.Answer, error) { return client.Do(ctx, api.Address, other) }, http.StatusCreated)

	// Nothing was executed, and nobody knows: the lookup reads and cancels, and the retry charges another intent.
	before := seen.count()
	held := api.PSP.On(world.Charge, httpproxy.HoldBefore)
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		_, _ = client.Do(ctx, api.Address, w.Keys.Payment("key-of-the-lost-one", "pm_ok"))
	}()
	if err := held.Reached(ctx); err != nil {
		t.Fatal(err)
	}
	<-lost
	awaitStatus(ctx, t, func() (world.Answer, error) {
		return client.Do(ctx, api.Address, w.Keys.Payment("key-of-the-lost-one", "pm_ok"))
	}, http.StatusCreated)
	held.Release() // it lands on an intent that was cancelled
	if err := held.Landed(ctx); err != nil {
		t.Fatal(err)
	}
	if got := seen.after(before); !slices.Contains(got, world.Lookup) || !slices.Contains(got, world.Cancel) {
		t.Fatalf("after a lost confirmation: %v", got)
	}

	wantBooked(ctx, t, w, payment.PaymentID)
	world.AwaitTold(ctx, w.PSP.Address)
	if w.Front.Seen(world.Webhook) == 0 {
		t.Fatal("no webhook has passed the front")
	}
}

// wantBooked checks that the ledger has what the clients were told: three charges, the first of them of this payment,
// and one refund.
func wantBooked(ctx context.Context, t *testing.T, w *world.World, payment string) {
	t.Helper()
	ledger, err := invariants.ReadLedger(ctx, http.DefaultClient, "http://"+w.PSP.Address)
	if err != nil {
		t.Fatal(err)
	}
	if len(ledger.Charges) != 3 || len(ledger.Refunds) != 1 || ledger.Charges[0].Account != "acct_acme" ||
		ledger.Charges[0].Reference != payment {
		t.Fatalf("the ledger has %+v", ledger)
	}
}

func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: it builds the programs, and waits for lookups")
	}
}
