package crowd

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"payonce/lab/chaos/plan"
	"payonce/lab/chaos/tally"
	"payonce/lab/history"
)

// api answers as it is told, and remembers what it was asked.
type api struct {
	answer func(n int, r *http.Request) (status int, body string)

	mu    sync.Mutex
	asked []string // method, path and bare key
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked = append(a.asked, r.Method+" "+r.URL.Path+" "+strings.Trim(r.Header.Get("Idempotency-Key"), `"`))
	n := len(a.asked)
	a.mu.Unlock()
	status, body := a.answer(n, r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

type bench struct {
	*Crowd
	api        *api
	recorder   *history.Recorder
	complaints []string
}

func setup(t *testing.T, answer func(n int, r *http.Request) (int, string)) *bench {
	t.Helper()
	b := &bench{api: &api{answer: answer}, recorder: history.New(nil)}
	server := httptest.NewServer(b.api)
	t.Cleanup(server.Close)
	b.Crowd = New(Options{
		Plan: plan.Plan{Seed: 7, Clients: 1}, APIs: []string{strings.TrimPrefix(server.URL, "http://")},
		PerSecond: 1000, Recorder: b.recorder,
		Tally: tally.New(), Keys: map[string]string{"acme": "a", "globex": "g"},
		Complain: func(where, detail string) { b.complaints = append(b.complaints, where+": "+detail) },
	})
	t.Cleanup(b.Close)
	return b
}

// errand is the first of a kind.
func (b *bench) errand(kind plan.Kind) plan.Errand {
	for n := 0; ; n++ {
		if e := b.o.Plan.Errand(0, n); e.Kind == kind {
			return e
		}
	}
}

const paidBody = `{"paymentId":"pay_1","status":"succeeded","amountCents":100,"pspChargeId":"ch_1"}`

func TestClientSendsTheSameAgainUntilTheAnswerIsFinal(t *testing.T) {
	t.Parallel()
	answers := []int{http.StatusAccepted, http.StatusServiceUnavailable, http.StatusCreated}
	b := setup(t, func(n int, _ *http.Request) (int, string) { return answers[n-1], paidBody })
	e := b.errand(plan.Pay)
	b.carryOut(t.Context(), e)
	want := slices.Repeat([]string{"POST /payments " + e.Key}, len(answers))
	if !slices.Equal(b.api.asked, want) {
		t.Errorf("asked %v", b.api.asked)
	}
	for _, o := range b.recorder.Operations() {
		if o.Intent != e.Order.Intent() || o.Key != e.Key || !o.Answered() {
			t.Errorf("recorded %+v", o)
		}
	}
	if of, any := b.known[0].pick(0); !any || of.ID != "pay_1" {
		t.Errorf("has learned of %v", of)
	}
}

func TestClientThatIsRefusedDoesNotInsist(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusPaymentRequired, http.StatusUnprocessableEntity, http.StatusBadRequest} {
		b := setup(t, func(int, *http.Request) (int, string) { return status, `{}` })
		b.carryOut(t.Context(), b.errand(plan.Pay))
		if len(b.api.asked) != 1 {
			t.Errorf("%d: asked %d times", status, len(b.api.asked))
		}
	}
}

func TestClientThatHangsUpIsRecordedWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, func(n int, r *http.Request) (int, string) {
		if n == 1 {
			_, _ = io.Copy(io.Discard, r.Body) // before its end, nobody notices that a client has gone
			<-r.Context().Done()
		}
		return http.StatusCreated, paidBody
	})
	e := b.errand(plan.HangUp)
	e.HangUps = []time.Duration{time.Second} // the request has arrived by then
	b.carryOut(t.Context(), e)
	operations := b.recorder.Operations()
	if len(operations) != 2 || operations[0].Answered() || operations[0].Failure == "" || !operations[1].Answered() {
		t.Errorf("recorded %+v", operations)
	}
}

func TestRacersAskAtTheSameTime(t *testing.T) {
	t.Parallel()
	var here sync.WaitGroup
	b := setup(t, func(n int, _ *http.Request) (int, string) {
		if n <= 3 {
			here.Done()
			here.Wait() // nobody is answered before all have asked
		}
		return http.StatusCreated, paidBody
	})
	e := b.errand(plan.Race)
	e.Racers = 3
	here.Add(e.Racers)
	b.carryOut(t.Context(), e)
	if len(b.api.asked) != e.Racers+1 {
		t.Errorf("asked %v", b.api.asked)
	}
}

func TestServerErrorIsComplainedOf(t *testing.T) {
	t.Parallel()
	b := setup(t, func(n int, _ *http.Request) (int, string) {
		return map[bool]int{true: http.StatusInternalServerError, false: http.StatusCreated}[n == 1], paidBody
	})
	b.carryOut(t.Context(), b.errand(plan.Pay))
	if len(b.complaints) != 1 {
		t.Errorf("complains %v", b.complaints)
	}
}

func TestPaymentThatAnotherTenantCanReadIsComplainedOf(t *testing.T) {
	t.Parallel()
	for status, complaints := range map[int]int{http.StatusOK: 1, http.StatusNotFound: 0,
		http.StatusServiceUnavailable: 0} {
		b := setup(t, func(int, *http.Request) (int, string) { return status, paidBody })
		b.known[0].paid = []paid{{tenant: "acme", ID: "pay_1", Amount: 100, ChargeID: "ch_1"}}
		b.read(t.Context(), plan.Errand{N: 1})
		if len(b.complaints) != complaints {
			t.Errorf("%d: complains %v", status, b.complaints)
		}
	}
}

func TestPaymentThatIsNoLongerPaidIsComplainedOf(t *testing.T) {
	t.Parallel()
	for body, complaints := range map[string]int{
		paidBody: 0, strings.Replace(paidBody, "succeeded", "processing", 1): 1,
		strings.Replace(paidBody, "ch_1", "ch_2", 1): 1,
	} {
		b := setup(t, func(int, *http.Request) (int, string) { return http.StatusOK, body })
		b.known[0].paid = []paid{{tenant: "acme", ID: "pay_1", Amount: 100, ChargeID: "ch_1"}}
		b.read(t.Context(), plan.Errand{N: 0})
		if len(b.complaints) != complaints {
			t.Errorf("%s: complains %v", body, b.complaints)
		}
	}
}

// At the end each key without a final answer is asked for once more, and what still has none is told.
func TestKeyWithoutAnAnswerIsAskedForAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ int, r *http.Request) (int, string) {
		if strings.Contains(r.Header.Get("Idempotency-Key"), "stuck") {
			return http.StatusAccepted, `{"status":"processing"}`
		}
		return http.StatusCreated, paidBody
	})
	operation := func(key string, status int, body string) history.Operation {
		return history.Operation{Tenant: "acme", Route: history.PaymentsRoute, Key: key, Intent: "i", Status: status,
			Return: time.Duration(status), Body: []byte(body)}
	}
	open := b.AskAgain(t.Context(), []history.Operation{
		operation("answered", http.StatusCreated, "{}"), operation("open", http.StatusAccepted, "{}"),
		operation("stuck", 0, "{}"),
		operation("hopeless", 0, `{"paymentMethod":"pm_never"}`),
	}, false)
	if len(open) != 1 || open["acme POST /payments stuck"] == "" {
		t.Errorf("open are %v", open)
	}
	for _, asked := range b.api.asked {
		if strings.HasSuffix(asked, "answered") || strings.HasSuffix(asked, "hopeless") {
			t.Errorf("asked %s", asked)
		}
	}
}

func TestOperatorSaysWhatThePSPsConsoleSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deadLetter, ledger string
		want               string
	}{
		"charged":      {`"keyStatus":"unknown"`, `{"charges":[{"id":"ch_1","status":"succeeded"}]}`, "executed ch_1"},
		"declined":     {`"keyStatus":"unknown"`, `{"charges":[{"id":"ch_1","status":"declined"}]}`, "retry"},
		"nothing":      {`"keyStatus":"unknown"`, `{"charges":[]}`, "not_executed"},
		"over already": {`"keyStatus":"completed"`, `{"charges":[{"id":"ch_1","status":"succeeded"}]}`, "dismiss"},
		"failed job":   {`"keyStatus":"completed","kind":"job_discarded"`, `{}`, "retry"},
	} {
		var decided string
		b := setup(t, func(_ int, r *http.Request) (int, string) {
			switch {
			case r.URL.Path == "/_ledger":
				return http.StatusOK, c.ledger
			case strings.HasSuffix(r.URL.Path, "/resolve"):
				body := make([]byte, r.ContentLength)
				_, _ = r.Body.Read(body)
				decided = string(body)
				return http.StatusOK, `{}`
			}
			return http.StatusOK, fmt.Sprintf(`{"id":"1","version":1,%s}`, c.deadLetter)
		})
		b.o.Operators, b.o.PSP = b.o.APIs, b.o.APIs[0]
		// An operator may first order another lookup. steady is a luck that never does.
		b.decide(context.WithoutCancel(t.Context()), b.o.Plan.Carry(1, steady(b.o.Plan)), deadLetter{ID: "1"})
		for word := range strings.FieldsSeq(c.want) {
			if !strings.Contains(decided, `"`+word+`"`) {
				t.Errorf("%s: decides %s, not %s", name, decided, c.want)
			}
		}
	}
}

// steady is a luck by which nothing is tried again first, and a decline is looked up. One draw chooses the process
// before that.
func steady(p plan.Plan) int {
	for n := 0; ; n++ {
		luck := p.Carry(1, n)
		if processes := 1; luck.IntN(processes) == 0 && luck.IntN(4) != 0 && luck.IntN(2) == 0 {
			return n
		}
	}
}
