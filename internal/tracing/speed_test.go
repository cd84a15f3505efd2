package tracing

import (
	"context"
	"net/http"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

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
