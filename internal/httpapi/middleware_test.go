package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/problem"
	"payonce/internal/tenants"
	"payonce/test/wait"
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

// A hang-up has its own time, which is not that of the answer that nobody reads.
func TestHangUpIsRememberedAtItsTime(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_800_000_000, 0)
	var passed atomic.Int64
	var kept []Request
	a, _ := newTestAPI()
	a.config.Now = func() time.Time { return began.Add(time.Duration(passed.Load())) }
	a.config.Remember = func(r Request) { kept = append(kept, r) }
	for _, hangsUp := range []bool{true, false} {
		passed.Store(0)
		ctx, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		keyed := a.keyed("POST /payments",
			func(_ http.ResponseWriter, r *http.Request, _ payments.Keyed) (ask, error) {
				passed.Store(int64(time.Second))
				if hangsUp {
					hangUp()
					wait.Until(t, "the hang-up is seen", func() bool { return knownOf(r).gone.Load() != 0 })
				}
				passed.Store(int64(3 * time.Second))
				return func(*http.Request) (payments.Answer, error) { return payments.Mismatch{}, nil }, nil
			})
		h := a.identify(a.observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			knownOf(r).principal = tenants.Principal{Tenant: "acme"}
			keyed(w, r)
		})))
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/payments", nil)
		req.Header.Set(keyHeader, "order-0000000042")
		h.ServeHTTP(httptest.NewRecorder(), req)
	}
	if len(kept) != 2 {
		t.Fatalf("remembered are %+v", kept)
	}
	if gone := kept[0]; !gone.Gone.Equal(began.Add(time.Second)) || !gone.At.Equal(began.Add(3*time.Second)) ||
		gone.Status != problem.ClientGone {
		t.Errorf("the one that hangs up is %+v", gone)
	}
	if !kept[1].Gone.IsZero() || kept[1].Status != http.StatusUnprocessableEntity {
		t.Errorf("the one that waits is %+v", kept[1])
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
