package httpapi

import (
	"bufio"
	"context"
	"io"
	"net"
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

// A hang-up has its own time, which is not that of the answer that nobody reads. A client that waits for each answer,
// and sends the next request on its connection, has not hung up.
func TestHangUpIsRememberedAtItsTime(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_800_000_000, 0)
	var passed atomic.Int64
	now := func() time.Time { return began.Add(time.Duration(passed.Load())) }
	kept := make(chan Request, 3)
	a, _ := newTestAPI()
	a.config.Now, a.config.Remember = now, func(r Request) { kept <- r }
	var client net.Conn
	hangsUp := false
	keyed := a.keyed("POST /payments", func(_ http.ResponseWriter, r *http.Request, _ payments.Keyed) (ask, error) {
		if hangsUp {
			passed.Store(int64(time.Second))
			_ = client.Close()
			<-r.Context().Done()
			passed.Store(int64(3 * time.Second))
		}
		return func(*http.Request) (payments.Answer, error) { return payments.Mismatch{}, nil }, nil
	})
	s := httptest.NewUnstartedServer(a.identify(a.echoKey(a.observe(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			knownOf(r).principal = tenants.Principal{Tenant: "acme"}
			keyed(w, r)
		})))))
	s.Listener = LimitConnections(s.Listener, s.Config, MaxOperatorConnections, a.config.Log, now)
	s.Start()
	defer s.Close()
	client, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(client)
	for _, hangsUp = range []bool{false, false, true} {
		if _, err := client.Write([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n" +
			keyHeader + ": order-0000000042\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if hangsUp {
			break
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if r := <-kept; !r.Gone.IsZero() || r.Status != http.StatusUnprocessableEntity {
			t.Errorf("one that waits is %+v", r)
		}
	}
	if r := <-kept; !r.Gone.Equal(began.Add(time.Second)) || !r.At.Equal(began.Add(3*time.Second)) ||
		r.Status != problem.ClientGone {
		t.Errorf("the one that hangs up is %+v", r)
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
