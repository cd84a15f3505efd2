package psp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/lab/bench/psp"
)

// A server that has refused a body in the middle lingers for half a second, so that the client reads why.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

func aCharge(key string) gateway.Charge {
	return gateway.Charge{Account: "acme", Key: key, Reference: "pay_1", AmountMinor: 12000, Currency: "KRW",
		PaymentMethod: "pm_ok"}
}

// serve returns the stub's URL.
func serve(t *testing.T, delay time.Duration, limit int) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- psp.Serve(ctx, l, delay, limit) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return "http://" + l.Addr().String()
}

// newClient is the gateway's own.
func newClient(t *testing.T, url string) *native.Client {
	t.Helper()
	c, err := native.New(url, "any secret", gateway.DefaultLimits(), nil, time.Now, func(string, time.Duration) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func succeeded(t *testing.T, o gateway.Outcome) string {
	t.Helper()
	got, ok := o.(gateway.Succeeded)
	if !ok || !strings.HasPrefix(got.ID, "ch_") {
		t.Fatalf("outcome %T %+v, want Succeeded", o, o)
	}
	return got.ID
}

// send makes a request by hand, and returns its status and body.
func send(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

func TestGatewayTakesTheCharge(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, 0, 0))
	id := succeeded(t, c.Charge(t.Context(), aCharge("key-1")))
	if again := succeeded(t, c.Charge(t.Context(), aCharge("key-1"))); again != id {
		t.Fatalf("the second send made %s, the first %s", again, id)
	}
	if other := succeeded(t, c.Charge(t.Context(), aCharge("key-2"))); other == id {
		t.Fatal("another key has the same charge")
	}
	globex := aCharge("key-1")
	globex.Account = "globex"
	if other := succeeded(t, c.Charge(t.Context(), globex)); other == id {
		t.Fatal("another account has the same charge")
	}
}

func TestGatewayTakesTheRefusal(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, 0, 0))
	ch := aCharge("key-1")
	ch.PaymentMethod = "pm_declined"
	if o, ok := c.Charge(t.Context(), ch).(gateway.Declined); !ok || o.Code != "insufficient_funds" {
		t.Fatalf("outcome %T %+v", o, o)
	}
}

func TestKeyWithAnotherBodyIsAContradiction(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, 0, 0))
	succeeded(t, c.Charge(t.Context(), aCharge("key-1")))
	ch := aCharge("key-1")
	ch.AmountMinor++
	if o, ok := c.Charge(t.Context(), ch).(gateway.Indeterminate); !ok || !o.Contradiction ||
		o.Reason != "PSP answered 422" {
		t.Fatalf("outcome %T %+v", o, o)
	}
}

func TestManySendsAtOnceAreOneCharge(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, time.Millisecond, 0))
	var all sync.WaitGroup
	made := make(chan gateway.Outcome, 16)
	for range cap(made) {
		all.Go(func() { made <- c.Charge(t.Context(), aCharge("key-1")) })
	}
	all.Wait()
	first := succeeded(t, <-made)
	for range cap(made) - 1 {
		if id := succeeded(t, <-made); id != first {
			t.Fatalf("two charges: %s and %s", first, id)
		}
	}
}

func lookup(t *testing.T, c *native.Client, r gateway.Request) gateway.Lookup {
	t.Helper()
	return c.Lookup(t.Context(), r, gateway.EndNothing)
}

func TestGatewayFindsTheChargeByItsKey(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, 0, 0))
	id := succeeded(t, c.Charge(t.Context(), aCharge("key-1")))
	found, ok := lookup(t, c, gateway.Charge{Account: "acme", Key: "key-1"}).(gateway.Found)
	if !ok {
		t.Fatalf("lookup %T %+v", found, found)
	}
	want := []gateway.Record{{
		Object: gateway.ChargeObject, ID: id, Account: "acme", Key: "key-1", Reference: "pay_1", AmountMinor: 12000,
		Currency: "KRW",
		Status:   "succeeded",
	}}
	if diff := cmp.Diff(want, found.Records, cmpopts.IgnoreFields(gateway.Record{}, "Created")); diff != "" {
		t.Fatalf("records differ (-want +got):\n%s", diff)
	}
	for account, key := range map[string]string{"acme": "key-2", "globex": "key-1"} {
		if l := lookup(t, c, gateway.Charge{Account: account, Key: key}); l != (gateway.NotFound{}) {
			t.Errorf("%s of %s: %T %+v, want NotFound", key, account, l, l)
		}
	}
}

func TestScanFindsNothingAndARefundIsNotJudged(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, 0, 0))
	succeeded(t, c.Charge(t.Context(), aCharge("key-1")))
	for _, o := range []gateway.Object{gateway.ChargeObject, gateway.RefundObject} {
		if page, err := c.List(t.Context(), o, "acme", time.Time{}, ""); err != nil || len(page.Records) != 0 ||
			page.Next != "" {
			t.Errorf("list of %ss: %+v, %v", o, page, err)
		}
	}
	if l, ok := lookup(t, c, gateway.Refund{Account: "acme", Key: "key-1"}).(gateway.LookupFailed); !ok {
		t.Fatalf("lookup of a refund %T %+v", l, l)
	}
}

func TestPreloadedChargesAreFound(t *testing.T) {
	t.Parallel()
	url := serve(t, 0, 0)
	var lines strings.Builder
	for i := range 500 {
		fmt.Fprintf(&lines, `{"account":"acme","idempotencyKey":"key-%d","reference":"pay_1",`+
			`"amountCents":12000,"currency":"KRW","paymentMethod":"pm_ok"}`+"\n", i)
	}
	if status, body := send(t, http.MethodPost, url+"/_preload", lines.String()); status != http.StatusOK ||
		body != `{"loaded":500}` {
		t.Fatalf("%d %s", status, body)
	}
	c := newClient(t, url)
	found, ok := lookup(t, c, gateway.Charge{Account: "acme", Key: "key-499"}).(gateway.Found)
	if !ok {
		t.Fatalf("lookup %T %+v", found, found)
	}
	if id := succeeded(t, aCharge("key-499").Judge(found.Records[0])); id != succeeded(t,
		c.Charge(t.Context(), aCharge("key-499"))) {
		t.Fatal("the preloaded charge was made once more")
	}
	if status, body := send(t, http.MethodDelete, url+"/_charges", ""); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, body)
	}
	if l := lookup(t, c, gateway.Charge{Account: "acme", Key: "key-499"}); l != (gateway.NotFound{}) {
		t.Fatalf("in the emptied ledger: %T %+v", l, l)
	}
}

func TestPreloadNamesTheLineThatIsNoCharge(t *testing.T) {
	t.Parallel()
	url := serve(t, 0, 0)
	for _, line := range []string{`{"account":"acme"}`, `{"account":`, `7`} {
		status, body := send(t, http.MethodPost, url+"/_preload",
			`{"account":"acme","idempotencyKey":"key-1","currency":"KRW"}`+"\n"+line)
		if status != http.StatusBadRequest || !strings.Contains(body, "charge 2") {
			t.Errorf("%s: %d %s", line, status, body)
		}
	}
}

func TestLedgerIsBounded(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, 0, 2))
	succeeded(t, c.Charge(t.Context(), aCharge("key-1")))
	succeeded(t, c.Charge(t.Context(), aCharge("key-2")))
	if o, ok := c.Charge(t.Context(), aCharge("key-3")).(gateway.Indeterminate); !ok || o.Reason != "PSP answered 507" {
		t.Fatalf("outcome %T %+v", o, o)
	}
	succeeded(t, c.Charge(t.Context(), aCharge("key-2")))
}

func TestChargeTakesItsTime(t *testing.T) {
	t.Parallel()
	const delay = 50 * time.Millisecond
	c := newClient(t, serve(t, delay, 0))
	began := time.Now()
	succeeded(t, c.Charge(t.Context(), aCharge("key-1")))
	if took := time.Since(began); took < delay {
		t.Fatalf("took %s, less than %s", took, delay)
	}
}

func TestWhatIsNoChargeIsRefused(t *testing.T) {
	t.Parallel()
	url := serve(t, 0, 0)
	for _, body := range []string{`{}`, `{"amountCents":"1"}`, strings.Repeat(" ", 20<<10)} {
		if status, _ := send(t, http.MethodPost, url+"/v1/charges", body); status != http.StatusBadRequest {
			t.Errorf("%.20s: %d", body, status)
		}
	}
	if status, _ := send(t, http.MethodGet, url+"/v1/charges?idempotencyKey=x", ""); status != http.StatusBadRequest {
		t.Errorf("a lookup of no account: %d", status)
	}
}

func TestCommandSaysWhereItListens(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	said, say := io.Pipe()
	over := make(chan error, 1)
	go func() { over <- psp.Command(ctx, strings.NewReader(`{"address":"127.0.0.1:0","limit":1}`), say) }()
	line, err := bufio.NewReader(said).ReadString('\n')
	address, ok := strings.CutPrefix(line, `{"address":"`)
	if err != nil || !ok {
		t.Fatalf("said %q, %v", line, err)
	}
	succeeded(t, newClient(t, "http://"+strings.TrimSuffix(address, "\"}\n")).Charge(t.Context(), aCharge("key-1")))
	stop()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if err := psp.Command(t.Context(), strings.NewReader(`{"adress":""}`), io.Discard); err == nil {
		t.Fatal("a member that there is not is taken")
	}
}

func TestListenerThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := psp.Serve(t.Context(), l, 0, 0); err == nil {
		t.Fatal("no error")
	}
}
