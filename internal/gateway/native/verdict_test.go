package native_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
)

func TestChargeIsSentAsTheContractSays(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	s := capturing(t, got, charged)
	c := newClient(t, s.URL)
	if o := c.charge(); o != (gateway.Succeeded{ID: "ch_1"}) {
		t.Fatalf("outcome %T %+v", o, o)
	}
	want := `POST /v1/charges
Accept: application/json
Accept-Encoding: 
Authorization: Bearer ` + secret + `
Content-Type: application/json
Idempotency-Key: canary-key-0123456789
Psp-Account: canary-account
{"amountCents":12000,"currency":"USD","paymentMethod":"pm_canary","reference":"pay_canary"}`
	if diff := cmp.Diff(want, await(t, "the request", got)); diff != "" {
		t.Fatalf("request differs (-want +got):\n%s", diff)
	}
}

func TestRefundIsSentAsTheContractSays(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	s := capturing(t, got, refunded)
	c := newClient(t, s.URL)
	if o := c.Refund(t.Context(), aRefund()); o != (gateway.Succeeded{ID: "rf_1"}) {
		t.Fatalf("outcome %T %+v", o, o)
	}
	want := `POST /v1/charges/ch_1/refunds
Accept: application/json
Accept-Encoding: 
Authorization: Bearer ` + secret + `
Content-Type: application/json
Idempotency-Key: canary-key-0123456789
Psp-Account: canary-account
{"amountCents":500,"currency":"USD","reference":"re_canary","reason":"canary reason"}`
	if diff := cmp.Diff(want, await(t, "the request", got)); diff != "" {
		t.Fatalf("request differs (-want +got):\n%s", diff)
	}
}

// A charge id is the PSP's word: it must not be able to name another path.
func TestChargeIDCannotLeaveItsPlaceInThePath(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	s := serving(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.RequestURI })
	r := aRefund()
	r.ChargeID = "../x?y#z/%"
	newClient(t, s.URL).Refund(t.Context(), r)
	if path := await(t, "the request", got); path != "/v1/charges/..%2Fx%3Fy%23z%2F%25/refunds" {
		t.Fatalf("asked for %s", path)
	}
}

func TestVerdictNeedsStatusAndBodyToAgree(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		status int
		body   string
		want   gateway.Outcome
	}{
		"succeeded with 201": {201, charged, gateway.Succeeded{ID: "ch_1"}},
		"succeeded with 200": {200, charged, gateway.Succeeded{ID: "ch_1"}},
		"declined with 402":  {402, refused, gateway.Declined{ID: "ch_2", Code: "insufficient_funds"}},
		"declined with 201":  {201, refused, gateway.Indeterminate{Reason: "answer without a verdict"}},
		"declined with 200":  {200, refused, gateway.Indeterminate{Reason: "answer without a verdict"}},
		"succeeded with 402": {402, charged, gateway.Indeterminate{Reason: "answer without a verdict"}},
		"pending with 201": {201, replace(charged, `"succeeded"`, `"pending"`),
			gateway.Indeterminate{Reason: "answer without a verdict"}},
		"pending with 402": {402, replace(refused, `"declined"`, `"pending"`),
			gateway.Indeterminate{Reason: "answer without a verdict"}},
		"declined without code": {402, replace(refused, `"insufficient_funds"`, `""`),
			gateway.Indeterminate{Reason: "answer without a verdict"}},
		"code that is no code": {402, replace(refused, `insufficient_funds`, `<script>`),
			gateway.Indeterminate{Reason: "answer without a verdict"}},
		"unknown members": {201, replace(charged, `"object":"charge"`, `"object":{"a":[1.5e3,null]}`),
			gateway.Succeeded{ID: "ch_1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := answering(t, row.status, row.body)
			if diff := cmp.Diff(row.want, newClient(t, s.URL).charge()); diff != "" {
				t.Fatalf("outcome differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeclinedRefundIsDeclined(t *testing.T) {
	t.Parallel()
	s := answering(t, 402, replace(refunded, `"status":"succeeded"`,
		`"status":"declined","declineCode":"refund_exceeds_charge"`))
	c := newClient(t, s.URL)
	if o := c.checked(c.Refund(t.Context(), aRefund())); o != (gateway.Declined{ID: "rf_1",
		Code: gateway.AlreadyMoved}) {
		t.Fatalf("outcome %T %+v", o, o)
	}
}

func TestClientNamesItsSetting(t *testing.T) {
	t.Parallel()
	l := testLimits()
	if _, err := native.New("ftp://canary", secret, l, nil, time.Now, nil); err == nil ||
		!strings.HasPrefix(err.Error(), "PSP_URL ") || strings.Contains(err.Error(), "canary") {
		t.Errorf("error %v", err)
	}
	l.InFlight = 0
	if _, err := native.New("http://psp", secret, l, nil, time.Now, nil); err == nil {
		t.Error("a limit of no requests is taken")
	}
}

// capturing answers body, and tells the request line, the headers that matter and the body of each request.
func capturing(t *testing.T, got chan<- string, body string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		text := r.Method + " " + r.URL.Path + "\n"
		for _, name := range []string{"Accept", "Accept-Encoding", "Authorization", "Content-Type", "Idempotency-Key",
			"Psp-Account"} {
			text += name + ": " + r.Header.Get(name) + "\n"
		}
		got <- text + string(sent)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}
