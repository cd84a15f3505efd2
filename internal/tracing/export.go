package tracing

import (
	"context"
	"log/slog"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

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
