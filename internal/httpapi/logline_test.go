package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"payonce/internal/idempotency"
	"payonce/internal/payments"
	"payonce/internal/tenants"
)

// The log line of a request names its payment or refund. So an operator finds the request of a payment, and the payment
// of a request.
func TestLineOfARequestNamesWhatItsAnswerIsAbout(t *testing.T) {
	t.Parallel()
	var payment payments.Payment
	var refund payments.Refund
	for name, row := range map[string]struct {
		answer payments.Answer
		wish   preference
		want   string
	}{
		"final": {answer: payments.Final{Response: idempotency.Response{Status: 402,
			Location: payment.Location()}}, want: payment.Location()},
		"pending":   {answer: payments.Pending{Resource: refund}, want: refund.Location()},
		"in flight": {answer: payments.InFlight{Resource: payment}, want: payment.Location()},
		"in flight, no wait": {answer: payments.InFlight{Resource: payment}, wish: preference{async: true},
			want: payment.Location()},
		"not executed": {answer: payments.NotExecuted{Resource: refund}, want: refund.Location()},
		"not reserved": {answer: payments.NotExecuted{}},
		"mismatch":     {answer: payments.Mismatch{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, logs := newTestAPI()
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
