package native_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
	"payonce/test/heldport"
)

// What may happen to a request is tried in package wire. Here is what a charge, a refund, a lookup and a list make of
// it.

const failures = 3

func breaker(open time.Duration) func(*gateway.Limits) {
	return func(l *gateway.Limits) { l.BreakerFailures, l.BreakerOpen = failures, open }
}

// refund sends aRefund. Whatever comes of it, the reason holds nothing that a log must not.
func (c *client) refund() gateway.Outcome {
	c.t.Helper()
	return c.checked(c.Refund(c.t.Context(), aRefund()))
}

// nobodyListens is the URL of a port on which nobody listens during the test. A port that was only closed could be
// given to somebody else.
func nobodyListens(t *testing.T) string {
	t.Helper()
	port, err := heldport.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Close)
	return "http://" + port.Address
}

// gated is a PSP that holds each request until it is let go.
type gated struct {
	url     string
	arrived chan struct{}
	release chan int // the status to answer with
}

func newGated(t *testing.T) *gated {
	t.Helper()
	g := &gated{arrived: make(chan struct{}, 100), release: make(chan int)}
	over := make(chan struct{})
	g.url = serving(t, func(w http.ResponseWriter, _ *http.Request) {
		g.arrived <- struct{}{}
		select {
		case status := <-g.release:
			w.WriteHeader(status)
			_, _ = io.WriteString(w, charged)
		case <-over:
		}
	}).URL
	t.Cleanup(func() { close(over) })
	return g
}

func TestRequestThatFindsNobodyWasNotExecuted(t *testing.T) {
	t.Parallel()
	c := newClient(t, nobodyListens(t))
	notExecuted(t, c.charge(), "no connection to the PSP")
	notExecuted(t, c.refund(), "no connection to the PSP")
	// A read that finds nobody proves nothing.
	lookupFailed(t, c.lookup(), "no connection to the PSP")
	listFailed(t, c, "no connection to the PSP")
}

func TestRequestThatEndedBeforeItWasSentWasNotExecuted(t *testing.T) {
	t.Parallel()
	s := serving(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.RequestURI) })
	c := newClient(t, s.URL)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	notExecuted(t, c.checked(c.Charge(ended, aCharge())), "ended before it was sent")
	notExecuted(t, c.checked(c.Refund(ended, aRefund())), "ended before it was sent")
}

// The PSP would read a request without its body, or with half of it.
func TestRequestThatCannotBeWrittenAsJSONWasNotExecuted(t *testing.T) {
	t.Parallel()
	s := serving(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.RequestURI) })
	c := newClient(t, s.URL)
	ch, r := aCharge(), aRefund()
	ch.Reference, r.Reason = "no UTF-8: \xff", "no UTF-8: \xff"
	notExecuted(t, c.checked(c.Charge(t.Context(), ch)), "request could not be built")
	notExecuted(t, c.checked(c.Refund(t.Context(), r)), "request could not be built")
}

// What came before the end was complete JSON, and said what it was to say.
func TestLostAnswerDecidesNothing(t *testing.T) {
	t.Parallel()
	head := func(body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body)+1, body)
	}
	for name, text := range map[string]string{
		"closed after the request": "", "closed in the body": head(charged), "closed in the list": head(nothingHeld),
		"before the last chunk": fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
			len(nothingHeld), nothingHeld),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, raw(t, text).URL)
			indeterminate(t, c.charge(), "connection lost")
			indeterminate(t, c.refund(), "connection lost")
			lookupFailed(t, c.lookup(), "connection lost")
			listFailed(t, c, "connection lost")
		})
	}
}

func TestLateAnswerDecidesNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing is answered": "", "half an answer": strings.TrimSuffix(charged, "}"), "no end of an answer": charged,
		"half a list": strings.TrimSuffix(nothingHeld, "}"), "no end of a list": nothingHeld,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, hanging(t, text).URL, total(soon))
			indeterminate(t, c.charge(), "no answer in time")
			indeterminate(t, c.refund(), "no answer in time")
			lookupFailed(t, c.lookup(), "no answer in time")
			listFailed(t, c, "no answer in time")
		})
	}
}

func TestAnswerThatIsTooLongDecidesNothing(t *testing.T) {
	t.Parallel()
	s := answering(t, 201, charged+strings.Repeat(" ", 64<<10+1-len(charged)))
	indeterminate(t, newClient(t, s.URL).charge(), "answer longer than 65536 bytes")
	s = answering(t, 201, charged+strings.Repeat(" ", 64<<10-len(charged)))
	if o := newClient(t, s.URL).charge(); o != (gateway.Succeeded{ID: "ch_1"}) {
		t.Fatalf("outcome %T %+v", o, o)
	}
}

// A redirect would send the charge a second time, to another address.
func TestRedirectDecidesNothing(t *testing.T) {
	t.Parallel()
	other := serving(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.RequestURI) })
	for _, status := range []int{300, 301, 302, 303, 304, 305, 307, 308, 399} {
		s := serving(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", other.URL+"/v1/charges")
			w.WriteHeader(status)
		})
		indeterminate(t, newClient(t, s.URL).charge(), fmt.Sprintf("PSP answered %d", status))
	}
}

func TestRequestThatFindsNoPlaceWasNotExecuted(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	c := newClient(t, g.url, func(l *gateway.Limits) { l.InFlight, l.Queue = 1, soon })
	first := make(chan gateway.Outcome, 1)
	go func() { first <- c.charge() }()
	await(t, "the first request", g.arrived)
	const full = "too many requests to the PSP in flight"
	notExecuted(t, c.charge(), full)
	notExecuted(t, c.refund(), full)
	if n := c.InFlight(); n != 1 {
		t.Fatalf("%d requests in flight, want 1", n)
	}
	g.release <- http.StatusCreated
	if o := await(t, "the first answer", first); o != (gateway.Succeeded{ID: "ch_1"}) {
		t.Fatalf("outcome %T %+v", o, o)
	}
}

// The transport would send a POST again by itself: its key makes it replayable, if its body can be had again.
func TestChargeIsSentOnce(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	s := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, charged)
			return
		}
		panic(http.ErrAbortHandler) // on the connection that was idle
	})
	c := newClient(t, s.URL)
	if o := c.charge(); o != (gateway.Succeeded{ID: "ch_1"}) {
		t.Fatalf("outcome %T %+v", o, o)
	}
	indeterminate(t, c.charge(), "connection lost")
	indeterminate(t, c.refund(), "connection lost")
	if n := requests.Load(); n != 3 {
		t.Fatalf("%d requests, want 3", n)
	}
}

// A PSP that says no, or says nonsense, is there.
func TestAnswersDoNotCountAgainstHealth(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		status int
		body   string
	}{
		"declined": {402, refused}, "contradiction": {201, replace(charged, "12000", "1")}, "malformed": {201, "{"},
		"bad request": {400, "{}"}, "too many": {429, "{}"}, "in use": {409, "{}"}, "mismatch": {422, "{}"},
		"redirect": {307, ""}, "refused before": {400, refusedBefore},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := answering(t, row.status, row.body)
			c := newClient(t, s.URL, breaker(time.Hour))
			for range failures + 1 {
				if o, refused := c.charge().(gateway.NotExecuted); refused {
					t.Fatalf("not executed: %s", o.Reason)
				}
			}
			if !c.Ready("canary-account") {
				t.Fatal("the breaker is open")
			}
		})
	}
}

func TestObserverHearsOfEachOutcomeOnce(t *testing.T) {
	t.Parallel()
	steps := []struct {
		status int
		body   string
	}{{201, charged}, {402, refused}, {500, ""}, {201, replace(charged, "USD", "KRW")}, {404, ""}, {503, ""}, {503, ""},
		{503, ""}}
	var next atomic.Int32
	s := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		step := steps[next.Add(1)-1]
		w.WriteHeader(step.status)
		_, _ = io.WriteString(w, step.body)
	})
	c := newClient(t, s.URL, breaker(time.Hour))
	for range len(steps) + 1 {
		c.charge()
	}
	c.refund()
	want := []string{
		"succeeded", "declined", "indeterminate", "indeterminate", "indeterminate", "indeterminate", "indeterminate",
		"indeterminate",
		"not_executed", "not_executed",
	}
	if diff := cmp.Diff(want, c.observed()); diff != "" {
		t.Fatalf("observed outcomes differ (-want +got):\n%s", diff)
	}
}
