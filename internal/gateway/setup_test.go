package gateway_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"payonce/internal/gateway"
)

// Every client and server of these tests ends with its test: a connection that the client forgot fails the run.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = "canary-psp-secret"
	// patience bounds every wait for an event. Reaching it is a failure, not a measurement.
	patience = time.Minute
	// soon is the deadline of a request that is meant to reach it.
	soon = 150 * time.Millisecond
)

func aCharge() gateway.Charge {
	return gateway.Charge{
		Account: "canary-account", Key: "canary-key-0123456789", Reference: "pay_canary",
		AmountMinor: 12000, Currency: "USD", PaymentMethod: "pm_canary",
	}
}

func aRefund() gateway.Refund {
	return gateway.Refund{
		Account: "canary-account", Key: "canary-key-0123456789", Reference: "re_canary", ChargeID: "ch_1",
		AmountMinor: 500, Currency: "USD", Reason: "canary reason",
	}
}

// The PSP's own answers to aCharge.
const (
	charged = `{"id":"ch_1","object":"charge","account":"canary-account","idempotencyKey":"canary-key-0123456789",` +
		`"reference":"pay_canary","amountCents":12000,"currency":"USD","paymentMethod":"pm_canary","status":"succeeded"}`
	refused = `{"id":"ch_2","object":"charge","account":"canary-account","idempotencyKey":"canary-key-0123456789",` +
		`"reference":"pay_canary","amountCents":12000,"currency":"USD","status":"declined","declineCode":"insufficient_funds"}`
	refunded = `{"id":"rf_1","object":"refund","account":"canary-account","idempotencyKey":"canary-key-0123456789",` +
		`"reference":"re_canary","chargeId":"ch_1","amountCents":500,"currency":"USD","reason":"canary reason","status":"succeeded"}`
)

// testLimits are the defaults, with times that no test meets by accident, however busy its machine is.
func testLimits() gateway.Limits {
	l := gateway.DefaultLimits()
	l.Dial, l.Total, l.Stall = patience, patience, patience
	l.BreakerFailures = 1000
	return l
}

// client is a Client that writes down what it observes.
type client struct {
	*gateway.Client
	t    *testing.T
	url  string
	mu   sync.Mutex
	seen []string
}

func newClient(t *testing.T, url string, edits ...func(*gateway.Limits)) *client {
	t.Helper()
	l := testLimits()
	for _, edit := range edits {
		edit(&l)
	}
	c := &client{t: t, url: url}
	var err error
	c.Client, err = gateway.New(url, secret, l, time.Now, func(outcome string, took time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if took < 0 {
			t.Errorf("a request took %s", took)
		}
		c.seen = append(c.seen, outcome)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func total(d time.Duration) func(*gateway.Limits) {
	return func(l *gateway.Limits) { l.Total = d }
}

// charge sends aCharge. Whatever comes of it, the reason holds nothing that a log must not.
func (c *client) charge() gateway.Outcome {
	c.t.Helper()
	return c.checked(c.Charge(c.t.Context(), aCharge()))
}

func (c *client) checked(o gateway.Outcome) gateway.Outcome {
	c.t.Helper()
	var reason string
	switch v := o.(type) {
	case gateway.NotExecuted:
		reason = v.Reason
	case gateway.Indeterminate:
		reason = v.Reason
	case gateway.Succeeded, gateway.Declined:
		return o
	}
	host := strings.TrimPrefix(c.url, "http://")
	for _, private := range []string{"canary", secret, host, "127.0.0.1", "http:", "/v1"} {
		if strings.Contains(reason, private) {
			c.t.Errorf("the reason %q holds %q", reason, private)
		}
	}
	if reason == "" {
		c.t.Error("no reason is given")
	}
	return o
}

// observed is all that was observed so far.
func (c *client) observed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.seen...)
}

func notExecuted(t *testing.T, o gateway.Outcome, reason string) {
	t.Helper()
	if got, ok := o.(gateway.NotExecuted); !ok || got.Reason != reason {
		t.Fatalf("outcome %T %+v, want NotExecuted: %s", o, o, reason)
	}
}

// indeterminate checks that nothing is known, and that nobody is called for it.
func indeterminate(t *testing.T, o gateway.Outcome, reason string) {
	t.Helper()
	got, ok := o.(gateway.Indeterminate)
	if !ok || got.Reason != reason || got.Contradiction {
		t.Fatalf("outcome %T %+v, want Indeterminate without contradiction: %s", o, o, reason)
	}
}

func contradiction(t *testing.T, o gateway.Outcome, reason string) []byte {
	t.Helper()
	got, ok := o.(gateway.Indeterminate)
	if !ok || got.Reason != reason || !got.Contradiction || len(got.Evidence) == 0 {
		t.Fatalf("outcome %T %+v, want a contradiction with evidence: %s", o, o, reason)
	}
	return got.Evidence
}

// listener is a server that speaks no HTTP unless its script does.
type listener struct {
	url      string
	arrivals atomic.Int32 // connections
}

// listen gives each connection to serve, and closes it afterwards.
func listen(t *testing.T, serve func(c *net.TCPConn)) *listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &listener{url: "http://" + l.Addr().String()}
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		open = map[net.Conn]bool{}
		over bool
	)
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			ended := over
			mu.Unlock()
			if ended {
				_ = c.Close()
				return
			}
			s.arrivals.Add(1)
			all.Go(func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		over = true
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return s
}

// readRequest takes one whole request off a connection.
func readRequest(c net.Conn) bool {
	_, err := requestOf(bufio.NewReader(c))
	return err == nil
}

func requestOf(r *bufio.Reader) (*http.Request, error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, req.Body)
	return req, err
}

// hold blocks until the other side closes the connection.
func hold(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// reset makes the close that follows a reset.
func reset(c *net.TCPConn) { _ = c.SetLinger(0) }

func response(status int, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d Whatever\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status,
		len(body), body)
}

// answering serves the same answer to every request.
func answering(t *testing.T, status int, body string) *httptest.Server {
	t.Helper()
	return serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func serving(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return
		}
		h(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// await waits for an event.
func await[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
	}
	panic("unreachable")
}

func eventually(t *testing.T, what string, ask func() bool) {
	t.Helper()
	over := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ask() {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("%s did not happen", what)
		}
	}
}
