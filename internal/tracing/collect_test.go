package tracing

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// recording is a Tracer whose spans the test reads.
func recording(ratio float64) (*Tracer, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithIDGenerator(ids{}), sdktrace.WithSyncer(spans))
	return &Tracer{provider: provider, tracer: provider.Tracer(scope), sampled: shareOf(ratio)}, spans
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

func named(t *testing.T, spans *tracetest.InMemoryExporter, name string) tracetest.SpanStub {
	t.Helper()
	for _, s := range spans.GetSpans() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no span %q", name)
	return tracetest.SpanStub{}
}

// payment is what one payment asks of this package.
func payment(ctx context.Context, t *Tracer, header http.Header, id uuid.UUID) {
	ctx, post := t.Request(ctx, header, "POST /payments", id)
	inner, reserve := Start(ctx, "reserve")
	members := [2]Span{Current(inner)}
	_, group := StartGroup(inner, len(members), func(i int) Span { return members[i] })
	group.End()
	reserve.Outcome("created")
	reserve.Executes(id, 1)
	reserve.End()
	inner, psp := StartClient(ctx, "PSP request")
	Inject(inner, header)
	psp.Status(http.StatusCreated)
	psp.Outcome("succeeded")
	psp.End()
	inner, written := Start(ctx, "outcome")
	Current(inner).Outcome("completed")
	written.End()
	post.Status(http.StatusCreated)
	post.Replayed(false)
	post.Resource("/payments/pay_1")
	post.End()
	_, later := t.Later(ctx, "webhook", id)
	later.End()
}

func TestPaymentThatIsNotRecordedCostsNoAllocation(t *testing.T) {
	few, spans := recording(0.01)
	unlucky := newID()
	for few.sampled.has(unlucky) {
		unlucky = newID()
	}
	for name, tracer := range map[string]*Tracer{"off": nil, "not recorded": few} {
		header := http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
		if n := testing.AllocsPerRun(100, func() { payment(t.Context(), tracer, header, unlucky) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if n, shown := len(spans.GetSpans()), few.TraceID(unlucky); n != 0 || shown != "" {
		t.Errorf("%d spans are recorded, and people are shown the trace %q", n, shown)
	}
}

// The bits above the lowest 56 are the same in each UUID, or count the time.
func TestRatioIsThatOfThePayments(t *testing.T) {
	t.Parallel()
	const payments = 200_000
	for ratio, tolerance := range map[float64]float64{1: 0, 0.5: 0.01, 0.01: 0.002} {
		ours, another := shareOf(ratio), shareOf(ratio)
		recorded := 0
		for range payments {
			id := newID()
			if ours.has(id) != another.has(id) {
				t.Fatal("two processes disagree")
			}
			if ours.has(id) {
				recorded++
			}
		}
		if got := float64(recorded) / payments; got < ratio-tolerance || got > ratio+tolerance {
			t.Errorf("%v of the payments are recorded, want %v", got, ratio)
		}
	}
	// The reason for a choice of our own.
	theirs := sdktrace.TraceIDRatioBased(0.5)
	if theirs.ShouldSample(sdktrace.SamplingParameters{TraceID: trace.TraceID(newID())}).Decision != sdktrace.Drop {
		t.Error("TraceIDRatioBased takes a UUID at a ratio of one half: it could replace share")
	}
}

func TestTraceHasTheIDOfThePayment(t *testing.T) {
	t.Parallel()
	tracer, spans := recording(1)
	id := newID()
	header := http.Header{}
	payment(t.Context(), tracer, header, id)
	post := named(t, spans, "POST /payments")
	if shown := tracer.TraceID(id); shown != post.SpanContext.TraceID().String() {
		t.Errorf("people are shown the trace %q", shown)
	}
	if !post.SpanContext.Equal(rootOf(id)) || post.Parent.IsValid() {
		t.Fatalf("the root is %v, want %v", post.SpanContext, rootOf(id))
	}
	for _, name := range []string{"reserve", "PSP request", "outcome"} {
		if s := named(t, spans, name); !s.Parent.Equal(post.SpanContext) {
			t.Errorf("%s: parent %v", name, s.Parent)
		}
	}
	psp := named(t, spans, "PSP request").SpanContext
	if got, want := header.Get("Traceparent"), fmt.Sprintf("00-%s-%s-01", psp.TraceID(), psp.SpanID()); got != want {
		t.Errorf("the PSP gets %q, want %q", got, want)
	}
	later := named(t, spans, "webhook")
	if later.SpanContext.TraceID() == post.SpanContext.TraceID() || len(later.Links) != 1 ||
		!later.Links[0].SpanContext.Equal(post.SpanContext) {
		t.Errorf("the webhook's trace is %v, its links are %v", later.SpanContext.TraceID(), later.Links)
	}
	if has := later.Attributes; !slices.Contains(has, paymentTrace.String(post.SpanContext.TraceID().String())) {
		t.Errorf("who has the payment's trace cannot find the webhook's: %v", has)
	}
}

func TestCallersTraceGoesOnWithoutItsOpinions(t *testing.T) {
	t.Parallel()
	const caller = "0af7651916cd43dd8448eb211c80319c"
	for _, flags := range []string{"00", "01"} {
		tracer, spans := recording(1)
		id := newID()
		header := http.Header{"Traceparent": {"00-" + caller + "-b7ad6b7169203331-" + flags},
			"Tracestate": {"canary=1"}, "Baggage": {"canary=1"}}
		ctx, post := tracer.Request(t.Context(), header, "POST /payments", id)
		_, reserve := Start(ctx, "reserve")
		reserve.Executes(id, 1)
		reserve.End()
		post.End()
		reserved, own := named(t, spans, "reserve"), named(t, spans, "payment")
		if got := named(t, spans, "POST /payments"); got.SpanContext.TraceID().String() != caller ||
			got.SpanContext.TraceState().Len() != 0 || !reserved.Parent.Equal(got.SpanContext) {
			t.Errorf("flags %s: the request is %v", flags, got.SpanContext)
		}
		if !own.SpanContext.Equal(rootOf(id)) || !own.Links[0].SpanContext.Equal(reserved.SpanContext) ||
			!reserved.Links[0].SpanContext.Equal(own.SpanContext) {
			t.Errorf("flags %s: the payment's own root is %v, links %v", flags, own.SpanContext, own.Links)
		}
	}
}

func TestHeaderThatIsNoTraceparentIsIgnored(t *testing.T) {
	t.Parallel()
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, values := range [][]string{nil, {""}, {"canary"}, {good, good}, {good + "-canary"},
		{"00-00000000000000000000000000000000-b7ad6b7169203331-01"}} {
		tracer, spans := recording(1)
		id := newID()
		_, post := tracer.Request(t.Context(), http.Header{"Traceparent": values}, "POST /payments", id)
		post.End()
		if got := named(t, spans, "POST /payments").SpanContext; !got.Equal(rootOf(id)) {
			t.Errorf("%q: the request is %v", values, got)
		}
	}
}

func TestLaterAttemptLinksBackToTheFirst(t *testing.T) {
	t.Parallel()
	tracer, spans := recording(1)
	first, second := newID(), newID()
	ctx, post := tracer.Request(t.Context(), nil, "POST /payments", second)
	_, reserve := Start(ctx, "reserve")
	reserve.Executes(first, 2)
	reserve.End()
	post.End()
	if links := named(t, spans, "reserve").Links; len(links) != 1 || !links[0].SpanContext.Equal(rootOf(first)) {
		t.Errorf("links are %v", links)
	}
	if n := len(spans.GetSpans()); n != 2 {
		t.Errorf("%d spans: the first attempt has a root already", n)
	}
}

func TestGroupAndItsMembersAreLinkedBothWays(t *testing.T) {
	t.Parallel()
	tracer, spans := recording(1)
	var members []Span
	for range 3 {
		ctx, _ := tracer.Request(t.Context(), nil, "POST /payments", newID())
		_, member := Start(ctx, "reserve")
		members = append(members, member)
	}
	members[1] = Span{} // not recorded
	_, alone := StartGroup(t.Context(), 1, func(int) Span { return members[0] })
	_, group := StartGroup(t.Context(), 3, func(i int) Span { return members[i] })
	group.End()
	members[0].End()
	members[2].End()
	got := named(t, spans, "group commit")
	if alone.Recorded() || len(got.Links) != 2 || got.Parent.IsValid() {
		t.Fatalf("alone %v, parent %v, links %v", alone, got.Parent, got.Links)
	}
	linked := map[trace.SpanID]bool{got.Links[0].SpanContext.SpanID(): true, got.Links[1].SpanContext.SpanID(): true}
	for _, s := range spans.GetSpans() {
		if s.Name == "reserve" && (!linked[s.SpanContext.SpanID()] || len(s.Links) != 1 ||
			!s.Links[0].SpanContext.Equal(got.SpanContext)) {
			t.Errorf("member %v has links %v", s.SpanContext, s.Links)
		}
	}
}

func TestWithoutAnEndpointTracingIsOff(t *testing.T) {
	t.Parallel()
	tracer, err := New(t.Context(), Config{Ratio: 1})
	if tracer != nil || err != nil {
		t.Fatalf("%v, %v", tracer, err)
	}
	if shown := tracer.TraceID(newID()); shown != "" {
		t.Errorf("people are shown the trace %q", shown)
	}
	tracer.Close()
}

// lockedBuffer is a log that two goroutines use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A payment must not wait for a collector that is away, or that never answers, nor may the end of the process.
func TestNobodyWaitsForTheCollector(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hanging.Close()
	defer close(release)
	for name, endpoint := range map[string]string{"away": "http://127.0.0.1:1", "hanging": hanging.URL} {
		log := &lockedBuffer{}
		tracer, err := New(t.Context(), Config{Endpoint: endpoint, Ratio: 1, Service: "test",
			Log: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 4 * queueLength { // more spans than fit into the queue
			payment(t.Context(), tracer, http.Header{}, newID())
		}
		// The SDK sends 512 spans at once. If the payments waited for each of these requests, they would take minutes.
		if took := time.Since(began); took > 6*longestExport {
			t.Errorf("%s: the payments took %s", name, took)
		}
		began = time.Now()
		tracer.Close()
		// To send the whole queue takes four of these requests.
		if took := time.Since(began); took > 3*longestExport {
			t.Errorf("%s: the end took %s", name, took)
		}
		if n := strings.Count(log.String(), "\n"); n > 1 || strings.Contains(log.String(), endpoint) {
			t.Errorf("%s: the log is\n%s", name, log)
		}
	}
}

// failing fails as long as it is told to.
type failing struct {
	sdktrace.SpanExporter

	err error
}

func (f *failing) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return f.err }

func TestLossOfTracesIsLoggedOnceAndSoIsItsEnd(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	collector := &failing{}
	e := &exporter{SpanExporter: collector, log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, err := range []error{nil, fmt.Errorf("canary"), fmt.Errorf("canary"), nil, nil} {
		collector.err = err
		if err := e.ExportSpans(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	lines := slices.Collect(strings.Lines(log.String()))
	if len(lines) != 2 || !strings.Contains(lines[0], "traces are lost") || !strings.Contains(lines[1], "again") ||
		strings.Contains(log.String(), "canary") {
		t.Errorf("the log is\n%s", log.String())
	}
}

// nowhere takes spans as fast as a collector can.
type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                             { return nil }

// BenchmarkPayment is all that tracing adds to one payment, without the encoding for the collector and the sending.
func BenchmarkPayment(b *testing.B) {
	for name, ratio := range map[string]float64{"off": 0, "1 percent": 0.01, "all": 1} {
		b.Run(name, func(b *testing.B) {
			provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()),
				sdktrace.WithIDGenerator(ids{}), sdktrace.WithBatcher(nowhere{}))
			defer func() { _ = provider.Shutdown(context.Background()) }()
			tracer := &Tracer{provider: provider, tracer: provider.Tracer(scope), sampled: shareOf(ratio)}
			if ratio == 0 {
				tracer = nil
			}
			header, id := http.Header{}, newID()
			b.ReportAllocs()
			for n := uint32(0); b.Loop(); n++ {
				// Another random part for each payment, without the cost of a new id.
				id[9], id[10], id[11] = byte(n*2654435761>>24), byte(n*2654435761>>16), byte(n*2654435761>>8)
				payment(b.Context(), tracer, header, id)
			}
		})
	}
}
