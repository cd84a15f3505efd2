package stripe

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"payonce/internal/gateway"
)

// Every client and server of these tests ends with its test: a connection that the client forgot fails the run.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret        = "sk_test_canary_secret"
	webhookSecret = "whsec_canary_webhook_secret"
	// patience bounds every wait. Reaching it is a failure, not a measurement.
	patience = time.Minute
	// soon is the deadline of a request that is meant to reach it.
	soon = 150 * time.Millisecond
	key  = "canary-key-0123456789"
)

// today is the time of every test.
func today() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

func aCharge() gateway.Charge {
	return gateway.Charge{
		Account: "acct_canary", Key: key, Attempt: 1, ObjectID: "pi_1", Reference: "pay_canary", AmountMinor: 12000,
		Currency: "USD", PaymentMethod: "pm_canary",
	}
}

func aRefund() gateway.Refund {
	return gateway.Refund{
		Account: "acct_canary", Key: key, Attempt: 1, Reference: "re_canary", ChargeID: "pi_1", AmountMinor: 500,
		Currency: "USD", Reason: "canary reason",
	}
}

// here reads as this installation does.
var here = reader{account: "acct_canary", origin: "payonce:here"}

const ourMarks = `"metadata":{"origin":"payonce:here","reference":"pay_canary",` +
	`"idempotency_key":"canary-key-0123456789"}`

// intentIs is the intent of aCharge with a status.
func intentIs(status string) string {
	received, failed := 0, "null"
	switch status {
	case "succeeded":
		received = 12000
	case "declined":
		status, failed = "requires_payment_method",
			`{"type":"card_error","code":"card_declined","decline_code":"insufficient_funds"}`
	}
	return fmt.Sprintf(`{"id":"pi_1","object":"payment_intent","amount":12000,"amount_received":%d,"currency":"usd",`+
		`"client_secret":"pi_1_secret_canary","created":1795176000,"last_payment_error":%s,%s,"status":%q}`,
		received, failed, ourMarks, status)
}

// refundIs is the refund of aRefund with a status.
func refundIs(status string) string {
	return fmt.Sprintf(`{"id":"re_1","object":"refund","amount":500,"currency":"usd","payment_intent":"pi_1",`+
		`"charge":"ch_1","created":1795176000,"metadata":{"origin":"payonce:here","reference":"re_canary",`+
		`"idempotency_key":"canary-key-0123456789"},"status":%q}`, status)
}

// unmarked is an object as another program makes it.
func unmarked(object string) string {
	begin := strings.Index(object, `"metadata":{`)
	end := begin + strings.Index(object[begin:], "}")
	return object[:begin] + `"metadata":{` + object[end:]
}

// disputeIs is a dispute of the charge of aCharge, with the members that Stripe documents.
func disputeIs(status string) string {
	return fmt.Sprintf(`{"id":"du_1","object":"dispute","amount":12000,"balance_transactions":[],"charge":"ch_1",`+
		`"created":1795176000,"currency":"usd","evidence_details":{"due_by":1796000000},"is_charge_refundable":false,`+
		`"livemode":false,"metadata":{},"payment_intent":"pi_1","reason":"fraudulent","status":%q}`,
		status)
}

// problemOf is an error of Stripe. intent is "" if it has none.
func problemOf(kind, code, intent string) string {
	if intent != "" {
		intent = `,"payment_intent":` + intent
	}
	return fmt.Sprintf(`{"error":{"type":%q,"code":%q,"message":"canary"%s}}`, kind, code, intent)
}

func listOf(more bool, objects ...string) string {
	return fmt.Sprintf(`{"object":"list","url":"/v1/x","has_more":%t,"data":[%s]}`, more, strings.Join(objects, ","))
}

// answer is what a scripted server does.
type answer struct {
	status   int
	body     string
	replayed bool
	lost     bool // the connection is cut without an answer
	cut      bool // the connection is cut behind the body, and the answer is said to be longer
}

// call is a request that the server has seen.
type call struct {
	line   string // method and path
	form   url.Values
	header http.Header
}

// script answers requests, each line in the order of its answers. The last answer of a line is repeated.
type script struct {
	*httptest.Server

	t       *testing.T
	mu      sync.Mutex
	answers map[string][]answer
	calls   []call
}

const (
	createLine  = "POST /v1/payment_intents"
	confirmLine = "POST /v1/payment_intents/pi_1/confirm"
	cancelLine  = "POST /v1/payment_intents/pi_1/cancel"
	readLine    = "GET /v1/payment_intents/pi_1"
	searchLine  = "GET /v1/payment_intents/search"
	refundLine  = "POST /v1/refunds"
	refundsLine = "GET /v1/refunds"
	chargesLine = "GET /v1/charges"
	bookLine    = "GET /v1/balance_transactions"
)

// searchOf is a page of the search, which finds these intents.
func searchOf(intents ...string) answer {
	return ok(`{"object":"search_result","has_more":false,"data":[` + strings.Join(intents, ",") + `]}`)
}

func scripted(t *testing.T, answers map[string][]answer) *script {
	t.Helper()
	s := &script{t: t, answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *script) serve(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return
	}
	form, err := url.ParseQuery(string(raw) + "&" + r.URL.RawQuery)
	if err != nil {
		s.t.Errorf("not a form: %v", err)
	}
	line := r.Method + " " + r.URL.Path
	s.mu.Lock()
	queue := s.answers[line]
	if line == searchLine && len(queue) == 0 {
		s.mu.Unlock()
		_, _ = io.WriteString(w, searchOf().body)
		return
	}
	s.calls = append(s.calls, call{line, form, r.Header.Clone()})
	if len(queue) > 1 {
		s.answers[line] = queue[1:]
	}
	s.mu.Unlock()
	if len(queue) == 0 {
		s.t.Errorf("unexpected request: %s", line)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	a := queue[0]
	if a.lost {
		panic(http.ErrAbortHandler)
	}
	if a.replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if a.cut {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)+1))
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

// seen are the requests so far.
func (s *script) seen() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]call(nil), s.calls...)
}

// lines are the lines of the requests so far.
func (s *script) lines() (lines []string) {
	for _, c := range s.seen() {
		lines = append(lines, c.line)
	}
	return lines
}

func testLimits() gateway.Limits {
	l := gateway.DefaultLimits()
	l.Dial, l.Total, l.Stall = patience, patience, patience
	l.BreakerFailures = 1000
	return l
}

func newClient(t *testing.T, address string, edits ...func(*Config)) *Client {
	t.Helper()
	config := Config{URL: address, Secret: secret, WebhookSecrets: []string{webhookSecret}, Limits: testLimits(),
		Now: today, Installation: func() string { return "here" }}
	for _, edit := range edits {
		edit(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func replace(s, from, to string) string {
	if !strings.Contains(s, from) {
		panic("nothing to replace: " + from)
	}
	return strings.Replace(s, from, to, 1)
}

func ok(body string) answer { return answer{status: 200, body: body} }

func notExecuted(t *testing.T, o gateway.Outcome, reason string) {
	t.Helper()
	if o != (gateway.NotExecuted{Reason: reason}) {
		t.Fatalf("outcome %T %+v, want NotExecuted: %s", o, o, reason)
	}
}

func indeterminate(t *testing.T, o gateway.Outcome, reason string) {
	t.Helper()
	if got, ok := o.(gateway.Indeterminate); !ok || got.Reason != reason || got.Contradiction {
		t.Fatalf("outcome %T %+v, want Indeterminate without contradiction: %s", o, o, reason)
	}
}

func contradicts(t *testing.T, o gateway.Outcome, reason string) string {
	t.Helper()
	got, ok := o.(gateway.Indeterminate)
	if !ok || got.Reason != reason || !got.Contradiction || len(got.Evidence) == 0 {
		t.Fatalf("outcome %T %+v, want a contradiction with evidence: %s", o, o, reason)
	}
	if strings.Contains(string(got.Evidence), "pi_1_secret_canary") {
		t.Errorf("the evidence has the client secret: %s", got.Evidence)
	}
	return string(got.Evidence)
}
