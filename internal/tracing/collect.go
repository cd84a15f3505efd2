package tracing

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config is what a Tracer needs.
type Config struct {
	Endpoint string  // base URL of the collector's OTLP/HTTP receiver; if it is empty, tracing is off
	Ratio    float64 // the share of payments that are recorded: more than 0, at most 1
	Service  string  // the name of this process in traces
	Log      *slog.Logger
}

// The limits of the way to the collector. Spans are sent every few seconds. If the collector does not take them in
// time, they are lost.
const (
	queueLength   = 2048 // spans that wait to be sent; further ones are dropped
	sendEvery     = 5 * time.Second
	longestExport = 10 * time.Second
)

// New returns a Tracer, or nil if there is no endpoint. It connects to nothing yet.
func New(ctx context.Context, c Config) (*Tracer, error) {
	if c.Endpoint == "" {
		return nil, nil //nolint:nilnil // a nil Tracer is off
	}
	collector, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(strings.TrimRight(c.Endpoint, "/")+"/v1/traces"),
		otlptracehttp.WithTimeout(longestExport))
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	provider := sdktrace.NewTracerProvider(
		// Whether a payment is recorded is decided before any span is begun (share), so each span that is begun counts.
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithIDGenerator(ids{}),
		sdktrace.WithResource(resource.NewSchemaless(serviceName.String(c.Service))),
		sdktrace.WithBatcher(&exporter{SpanExporter: collector, log: c.Log}, sdktrace.WithMaxQueueSize(queueLength),
			sdktrace.WithBatchTimeout(sendEvery), sdktrace.WithExportTimeout(longestExport)),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer(scope), sampled: shareOf(c.Ratio)}, nil
}

// exporter sends spans to the collector, and logs when that begins to fail and when it works again. Otherwise the SDK
// would write each failure to standard error, in a form of its own.
type exporter struct {
	sdktrace.SpanExporter

	log    *slog.Logger
	failed atomic.Bool
}

// ExportSpans implements sdktrace.SpanExporter. It never fails: what is lost is logged, and nobody else needs to know.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if failed := err != nil; failed != e.failed.Swap(failed) {
		if failed {
			// Not the error: it can repeat the collector's answer.
			e.log.WarnContext(ctx, "traces are lost: the collector at OTEL_EXPORTER_OTLP_ENDPOINT does not take them",
				slog.Int("spans", len(spans)))
		} else {
			e.log.InfoContext(ctx, "the collector takes traces again")
		}
	}
	return nil
}

// ids makes the ids of spans, and of traces that do not belong to one payment.
type ids struct{}

var _ sdktrace.IDGenerator = ids{}

// NewIDs implements sdktrace.IDGenerator.
func (i ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if id, ok := ctx.Value(rootKey{}).(uuid.UUID); ok {
		root := rootOf(id)
		return root.TraceID(), root.SpanID()
	}
	var t trace.TraceID
	binary.BigEndian.PutUint64(t[:8], rand.Uint64())
	binary.BigEndian.PutUint64(t[8:], rand.Uint64()|1) // never the invalid id of zeros
	return t, i.NewSpanID(ctx, t)
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (s trace.SpanID) {
	binary.BigEndian.PutUint64(s[:], rand.Uint64()|1)
	return s
}
