package e2e

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"payonce/internal/config"
	"payonce/test/pgtest"
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
	pgtest.NeedsOneServer(t, "on several, nobody shares a transaction")
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

// collector takes spans by OTLP/HTTP, as an OpenTelemetry collector does.
type collector struct {
	t      testing.TB
	server *httptest.Server

	mu    sync.Mutex
	raw   bytes.Buffer // everything that was received: headers and bodies
	spans []*otlp.Span
	by    map[string]int // spans by the name of the process
}

func newCollector(t testing.TB) *collector {
	t.Helper()
	c := &collector{t: t, by: map[string]int{}}
	c.server = httptest.NewServer(c)
	t.Cleanup(c.server.Close)
	return c
}

// ServeHTTP takes one batch.
func (c *collector) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var batch collectortrace.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &batch) != nil {
		c.t.Errorf("a batch that cannot be read: %s, %v", r.URL.Path, err)
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = r.Header.Write(&c.raw)
	c.raw.Write(body)
	for _, resource := range batch.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
			c.by[resource.GetResource().GetAttributes()[0].GetValue().GetStringValue()] += len(scope.GetSpans())
		}
	}
	rw.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *collector) received() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw.String()
}

// traced sends every trace of API and reconciler to the collector.
func traced(c *collector) func(*options) {
	return shared(func(s *config.Shared) { s.TraceEndpoint, s.TraceRatio = c.server.URL, 1 })
}

// all gives the spans of a name that pass.
func (c *collector) all(name string, pass func(*otlp.Span) bool) (found []*otlp.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.GetName() == name && pass(s) {
			found = append(found, s)
		}
	}
	return found
}

// await waits for a span. Spans are sent every few seconds.
func (c *collector) await(name string, pass func(*otlp.Span) bool) (found *otlp.Span) {
	c.t.Helper()
	eventually(c.t, "the span "+name, func() bool {
		if all := c.all(name, pass); len(all) > 0 {
			found = all[0]
		}
		return found != nil
	})
	return found
}

// in are the spans of a trace.
func in(trace string) func(*otlp.Span) bool {
	return func(s *otlp.Span) bool { return hex.EncodeToString(s.GetTraceId()) == trace }
}

// linkedTo are the spans with a link to the root of a payment's trace.
func linkedTo(trace string) func(*otlp.Span) bool {
	return func(s *otlp.Span) bool {
		return slices.ContainsFunc(s.GetLinks(), func(l *otlp.Span_Link) bool {
			return hex.EncodeToString(l.GetTraceId()) == trace && hex.EncodeToString(l.GetSpanId()) == trace[16:]
		})
	}
}

func childOf(parent *otlp.Span) func(*otlp.Span) bool {
	return func(s *otlp.Span) bool { return bytes.Equal(s.GetParentSpanId(), parent.GetSpanId()) }
}

// attribute is the value of an attribute, as text.
func attribute(s *otlp.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return strings.Trim(strings.SplitAfterN(a.GetValue().String(), ":", 2)[1], `"`)
		}
	}
	return ""
}

// traceOf is the id of the trace of the payment that a key stands for.
func (w *world) traceOf(key string) string {
	w.t.Helper()
	return pgtest.Value[string](w.t, w.db, "SELECT replace(id::text, '-', '') FROM payments WHERE idempotency_key = $1", key)
}

// drawn is a trace as text: a line for each span, with its time since the trace began.
func (c *collector) drawn(trace string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var spans []*otlp.Span
	for _, s := range c.spans {
		if in(trace)(s) {
			spans = append(spans, s)
		}
	}
	slices.SortFunc(spans, func(a, b *otlp.Span) int {
		return cmp.Compare(a.GetStartTimeUnixNano(), b.GetStartTimeUnixNano())
	})
	var text strings.Builder
	for _, s := range spans {
		ms := func(at uint64) float64 { return float64(at-spans[0].GetStartTimeUnixNano()) / 1e6 }
		from, to := ms(s.GetStartTimeUnixNano()), ms(s.GetEndTimeUnixNano())
		scale := 40 / max(ms(spans[0].GetEndTimeUnixNano()), 0.001)
		bar := strings.Repeat(" ", int(from*scale)) + strings.Repeat("=", max(1, int((to-from)*scale)))
		fmt.Fprintf(&text, "%-14s |%-42s| %6.2f to %6.2f ms, %d links\n", s.GetName(), bar, from, to, len(s.GetLinks()))
	}
	return text.String()
}
