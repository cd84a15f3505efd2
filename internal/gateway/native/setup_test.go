package native_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
)

// Every client and server of these tests ends with its test: a connection that the client forgot fails the run.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = "canary-psp-secret"
	// patience is a limit that no test reaches.
	patience = time.Minute
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

type client struct {
	*native.Client
	t   *testing.T
	url string
}

func newClient(t *testing.T, url string, edits ...func(*gateway.Limits)) *client {
	t.Helper()
	l := testLimits()
	for _, edit := range edits {
		edit(&l)
	}
	c := &client{t: t, url: url}
	var err error
	if c.Client, err = native.New(url, secret, l, nil, time.Now); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
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
	case gateway.Pending:
		c.t.Errorf("this PSP has no pending charges: %+v", v)
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

// answering serves the same answer to every request.
func answering(t *testing.T, status int, body string) *httptest.Server {
	t.Helper()
	return serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// raw writes a text to each connection behind its request, and closes it: HTTP, or something else.
func raw(t *testing.T, text string) *httptest.Server {
	t.Helper()
	return serving(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, text)
	})
}

// endless writes until the other side has had enough, which must be soon.
func endless(w io.Writer, s string) {
	block := strings.Repeat(s, 64<<10/len(s))
	for written := 0; written < 32<<20; written += len(block) {
		if _, err := io.WriteString(w, block); err != nil {
			return
		}
	}
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
