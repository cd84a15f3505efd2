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

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"payonce/internal/config"
)

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
func (w *world) traceOf(key string) (id string) {
	w.t.Helper()
	err := w.db.QueryRow(w.t.Context(), "SELECT replace(id::text, '-', '') FROM payments WHERE idempotency_key = $1",
		key).Scan(&id)
	if err != nil {
		w.t.Fatalf("read payment: %v", err)
	}
	return id
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
