package e2e

import (
	"bytes"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"payonce/internal/config"
)

// Traces as a collector gets them from the processes. That no secret is in them is a part of canary_test.go.

// spied keeps the traceparents that the PSP gets, by the key of the charge.
func spied(seen *sync.Map) func(*options) {
	return func(o *options) {
		o.between = func(psp http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					seen.Store(r.Header.Get("Idempotency-Key"), r.Header.Get("Traceparent"))
				}
				psp.ServeHTTP(rw, r)
			})
		}
	}
}

func TestPaymentIsOneTraceAndWhatComesLaterLinksToIt(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	var traceparents sync.Map
	w := setupOpen(t, shared(soon), traced(c), spied(&traceparents))
	d := w.openOps()
	key := freshKey()
	r := w.pay(key, "pm_ok")
	r.expect(t, http.StatusCreated, "")
	w.reconcile() // only now: the PSP's webhook must not complete the payment before its own request does
	silent := freshKey()
	w.pay(silent, "pm_silent_charged").expect(t, http.StatusAccepted, "")
	w.becomes(silent, "completed")
	stuck, l := w.stuck(d)
	d.resolve(l, "executed").expect(t, http.StatusOK, "")

	trace := w.traceOf(key)
	post := c.await("POST /payments", in(trace))
	if hex.EncodeToString(post.GetSpanId()) != trace[16:] || post.GetParentSpanId() != nil ||
		post.GetKind() != otlp.Span_SPAN_KIND_SERVER || attribute(post, "http.response.status_code") != "201" ||
		attribute(post, "payonce.resource") != r.header.Get("Location") ||
		attribute(post, "payonce.replayed") != "false" {
		t.Errorf("the request's span is %v", post)
	}
	for name, outcome := range map[string]string{"reserve": "created", "PSP request": "succeeded",
		"outcome": "completed"} {
		if part := c.await(name, in(trace)); !childOf(post)(part) || attribute(part, "payonce.outcome") != outcome {
			t.Errorf("%s is %v", name, part)
		}
	}
	b := w.browse()
	b.signIn(operatorKey).expect(t, http.StatusSeeOther, "")
	if page := b.get("/console" + r.header.Get("Location")); !strings.Contains(string(page.body), trace[:32]) {
		t.Errorf("the page of the payment does not show its trace %s:\n%s", trace[:32], page.body)
	}
	psp := c.await("PSP request", in(trace))
	if got, _ := traceparents.Load(key); got != "00-"+trace+"-"+hex.EncodeToString(psp.GetSpanId())+"-01" ||
		psp.GetKind() != otlp.Span_SPAN_KIND_CLIENT || attribute(psp, "http.response.status_code") != "201" {
		t.Errorf("the PSP got %v of %v", got, psp)
	}
	for name, of := range map[string]string{"webhook": key, "lookup": silent, "operator": stuck} {
		later := c.await(name, linkedTo(w.traceOf(of)))
		if in(w.traceOf(of))(later) || later.GetParentSpanId() != nil {
			t.Errorf("%s has no trace of its own: %v", name, later)
		}
	}
	t.Log("the trace " + trace + "\n" + c.drawn(trace))
	asked := c.await("lookup", linkedTo(w.traceOf(silent)))
	for _, name := range []string{"PSP lookup", "outcome"} {
		c.await(name, childOf(asked))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.by) != 2 || c.by["payonce-api"] == 0 || c.by["payonce-reconciler"] == 0 {
		t.Errorf("spans by process: %v", c.by)
	}
}

func TestCallersTraceContinuesThroughThePSPCall(t *testing.T) {
	t.Parallel()
	const caller = "0af7651916cd43dd8448eb211c80319c"
	c := newCollector(t)
	var traceparents sync.Map
	w := setupOpen(t, traced(c), spied(&traceparents))
	w.reconcile()
	key := freshKey()
	w.do(call{method: "POST", path: "/payments", key: key, body: order("pm_ok"), header: http.Header{
		"Traceparent": {"00-" + caller + "-b7ad6b7169203331-00"}}}).expect(t, http.StatusCreated, "")
	for _, name := range []string{"POST /payments", "reserve", "PSP request", "outcome"} {
		c.await(name, in(caller))
	}
	if got, _ := traceparents.Load(key); !strings.HasPrefix(got.(string), "00-"+caller) {
		t.Errorf("the PSP got %v", got)
	}
	trace := w.traceOf(key)
	own := c.await("payment", in(trace))
	if hex.EncodeToString(own.GetSpanId()) != trace[16:] ||
		hex.EncodeToString(own.GetLinks()[0].GetTraceId()) != caller {
		t.Errorf("the payment's own root is %v", own)
	}
	c.await("webhook", linkedTo(trace))
}

func TestGroupCommitAndItsMembersHaveLinks(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	w := setupOpen(t, traced(c), shared(func(s *config.Shared) { s.DBCommitSlots = 1 }))
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() { w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "") })
	}
	all.Wait()
	group := c.await("group commit", func(*otlp.Span) bool { return true })
	if n := len(group.GetLinks()); n < 2 || n > 32 || group.GetParentSpanId() != nil {
		t.Fatalf("the group has %d links and the parent %x", n, group.GetParentSpanId())
	}
	for _, link := range group.GetLinks() {
		is := func(s *otlp.Span) bool { return bytes.Equal(s.GetSpanId(), link.GetSpanId()) }
		var member *otlp.Span
		eventually(t, "the member", func() bool {
			for _, name := range []string{"reserve", "outcome"} {
				if found := c.all(name, is); len(found) == 1 {
					member = found[0]
				}
			}
			return member != nil
		})
		back := false
		for _, l := range member.GetLinks() {
			back = back || bytes.Equal(l.GetSpanId(), group.GetSpanId())
		}
		if !back {
			t.Errorf("the member %v does not link to its group", member)
		}
	}
}

// A collector that never answers costs traces, and no payment. The end of the process does not wait for it either.
func TestPaymentsGoOnWithoutACollector(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hanging.Close()
	defer close(release)
	for name, endpoint := range map[string]string{"away": "http://127.0.0.1:1", "hanging": hanging.URL} {
		w := setupOpen(t, shared(func(s *config.Shared) { s.TraceEndpoint, s.TraceRatio = endpoint, 1 }))
		for range 20 {
			w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "")
		}
		began := time.Now()
		w.app.Close()
		if took := time.Since(began); took > patience/4 {
			t.Errorf("%s: the end took %s", name, took)
		}
	}
}

func TestWithoutACollectorNothingIsTracedAndThePSPIsNotTold(t *testing.T) {
	t.Parallel()
	var traceparents sync.Map
	w := setup(t, spied(&traceparents))
	key := freshKey()
	w.do(call{method: "POST", path: "/payments", key: key, body: order("pm_ok"), header: http.Header{
		"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}).expect(t, http.StatusCreated, "")
	if got, asked := traceparents.Load(key); got != "" || !asked {
		t.Errorf("the PSP got %q", got)
	}
}
