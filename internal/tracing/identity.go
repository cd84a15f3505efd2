package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"github.com/google/uuid"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
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
