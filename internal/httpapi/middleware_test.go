package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/tenants"
)

func TestAnswerThatNobodyCanHaveRead(t *testing.T) {
	t.Parallel()
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	for name, c := range map[string]struct {
		request context.Context
		took    time.Duration
		want    bool
	}{
		"answered":                   {t.Context(), WriteTimeout, false},
		"the client has hung up":     {gone, time.Second, true},
		"the process was paused":     {t.Context(), WriteTimeout + time.Nanosecond, true},
		"paused, and the client too": {gone, WriteTimeout + time.Second, true},
	} {
		if got := unread(c.request, c.took); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// After the wait, the request may still be executed: config allows the PSP 15 seconds at most.
func TestLongestWaitLeavesTimeForAnExecution(t *testing.T) {
	t.Parallel()
	const longestPSPCall = 15 * time.Second
	if maxWait+longestPSPCall >= WriteTimeout {
		t.Fatalf("a wait of %s and a call of %s are not over before %s", maxWait, longestPSPCall, WriteTimeout)
	}
}

// The log line of a request names its payment or refund. So an operator finds the request of a payment, and the payment
// of a request.
func TestLineOfARequestNamesWhatItsAnswerIsAbout(t *testing.T) {
	t.Parallel()
	var charge payment.Payment
	var refund payment.Refund
	for name, row := range map[string]struct {
		answer payments.Answer
		wish   preference
		want   string
	}{
		"final": {answer: payments.Final{Response: idempotency.Response{Status: 402,
			Location: "/base" + charge.Location()}}, want: charge.Location()},
		"pending":   {answer: payments.Pending{Resource: refund}, want: refund.Location()},
		"in flight": {answer: payments.InFlight{Resource: charge}, want: charge.Location()},
		"in flight, no wait": {answer: payments.InFlight{Resource: charge}, wish: preference{async: true},
			want: charge.Location()},
		"not executed": {answer: payments.NotExecuted{Resource: refund}, want: refund.Location()},
		"not reserved": {answer: payments.NotExecuted{}},
		"mismatch":     {answer: payments.Mismatch{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, logs := newTestAPI()
			a.base = "/base"
			h := a.identify(a.observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				knownOf(r).principal = tenants.Principal{Tenant: "acme"}
				a.spell(w, r, row.answer, row.wish)
			})))
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/payments", nil))
			if line := `"request_id":"req_1","tenant":"acme","resource":"` + row.want +
				`"}`; !strings.Contains(logs.String(), line) {
				t.Errorf("not in the log: %s\n%s", line, logs)
			}
		})
	}
}
