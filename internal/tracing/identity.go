package tracing

import (
	"context"
	"encoding/binary"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
)

// share is how many of the lowest 56 bits' values are recorded.
type share uint64

// randomBits are the bits of a UUIDv7 that are random for certain: the last seven bytes. W3C Trace Context (level 2)
// calls a trace id random if these are. The eighth byte from the end holds the variant of the UUID. A sampler that
// compares the last eight bytes, as OpenTelemetry's TraceIDRatioBased does, would take no UUID below a ratio of one
// half.
const randomBits = 56

func shareOf(ratio float64) share { return share(ratio * (1 << randomBits)) }

// has reports whether a payment or refund is recorded. Every process with the same ratio gives the same answer.
func (s share) has(id uuid.UUID) bool {
	return binary.BigEndian.Uint64(id[8:])&(1<<randomBits-1) < uint64(s)
}

// rootOf is the root span of the trace of a payment or refund. Its span id is the second half of the id.
func rootOf(id uuid.UUID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(id), SpanID: trace.SpanID(id[8:]), TraceFlags: trace.FlagsSampled,
	})
}

type rootKey struct{}

// withRoot makes the next root span that is begun with the context the root of the id's trace.
func withRoot(ctx context.Context, id uuid.UUID) context.Context {
	return context.WithValue(ctx, rootKey{}, id)
}
