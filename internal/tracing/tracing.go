// Package tracing records where the time of a payment goes, as OpenTelemetry spans, and sends them to a collector by
// OTLP. It owns the identity of traces, the choice of those that are recorded, and the attributes. It knows no other
// package of ours.
//
// The trace of a payment or refund has the id of the payment or refund. So every process can link to that trace later,
// and decides alike whether the trace is recorded, and no column stores a trace (docs/adr/0048).
//
// Tracing is off without a collector (collect.go): a nil *Tracer is off. A payment that is not recorded costs no
// allocation. A payment never waits for the collector: if the queue is full, spans are dropped.
//
// An attribute is a number, a fixed word of ours, or the path of a payment or refund. Span has no method for another
// one, so no key, token or body can become an attribute.
package tracing

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the instrumentation in each span.
const scope = "payonce"

// Tracer begins traces. A nil Tracer is off. It is safe for concurrent use.
type Tracer struct {
	provider interface{ Shutdown(context.Context) error }
	tracer   trace.Tracer
	sampled  share
}

// longestFlush bounds the time of Close.
const longestFlush = 3 * time.Second

// Close sends what waits to be sent, for a few seconds at most.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), longestFlush)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // The exporter has logged what could not be sent.
}

// Request begins the span of a request that may create a payment or refund with this id. If the request has a valid
// traceparent header, the span belongs to the caller's trace. Otherwise it is the root of the payment's trace.
//
// The caller's sampled flag and its tracestate are ignored: a caller must not decide what we record, and tracestate can
// hold anything.
func (t *Tracer) Request(
	ctx context.Context, header http.Header, operation string, id uuid.UUID,
) (context.Context, Span) {
	if t == nil || !t.sampled.has(id) {
		return ctx, Span{}
	}
	parent := ctx
	if values := header["Traceparent"]; len(values) == 1 {
		parent = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": values[0]})
	}
	// The id is not in the context that is returned: only this root has it.
	_, span := t.tracer.Start(withRoot(parent, id), operation, trace.WithSpanKind(trace.SpanKindServer))
	return trace.ContextWithSpan(ctx, span), Span{span}
}

// TraceID is the id of the trace of a payment or refund, or "" if it is not recorded.
func (t *Tracer) TraceID(id uuid.UUID) string {
	if t == nil || !t.sampled.has(id) {
		return ""
	}
	return trace.TraceID(id).String()
}

// Later begins a trace of its own for what happens after the request, perhaps in another process: a webhook, a lookup,
// an operator's decision. It links to the trace of the payment or refund.
func (t *Tracer) Later(ctx context.Context, name string, id uuid.UUID) (context.Context, Span) {
	if t == nil || id == uuid.Nil || !t.sampled.has(id) {
		return ctx, Span{}
	}
	root := rootOf(id)
	ctx, span := t.tracer.Start(ctx, name, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithLinks(trace.Link{SpanContext: root}), // Most viewers follow links in this direction only.
		trace.WithAttributes(paymentTrace.String(root.TraceID().String())))
	return ctx, Span{span}
}

// The attributes.
const (
	serviceName = attribute.Key("service.name")
	httpStatus  = attribute.Key("http.response.status_code")
	outcome     = attribute.Key("payonce.outcome")
	attempt     = attribute.Key("payonce.attempt")
	resourceKey = attribute.Key("payonce.resource")
	replayed    = attribute.Key("payonce.replayed")
	members     = attribute.Key("payonce.members")
	// paymentTrace is the trace of the payment that a lookup or a webhook belongs to: who has a payment finds them.
	paymentTrace = attribute.Key("payonce.payment_trace")
)

// Span is a part of a trace. The zero Span is not recorded, and its methods do nothing.
type Span struct{ span trace.Span }

// Start begins a part of the span in the context. If that span is not recorded, neither is the new one.
func Start(ctx context.Context, name string) (context.Context, Span) {
	return start(ctx, name, trace.SpanKindInternal)
}

// StartClient is Start for a request to another server.
func StartClient(ctx context.Context, name string) (context.Context, Span) {
	return start(ctx, name, trace.SpanKindClient)
}

func start(ctx context.Context, name string, kind trace.SpanKind) (context.Context, Span) {
	parent := Current(ctx)
	if !parent.Recorded() {
		return ctx, Span{}
	}
	ctx, span := parent.tracer().Start(ctx, name, trace.WithSpanKind(kind))
	return ctx, Span{span}
}

// Current is the span in the context.
func Current(ctx context.Context) Span {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		return Span{span}
	}
	return Span{}
}

// Inject adds the span in the context to the headers of a request, if it is recorded.
func Inject(ctx context.Context, header http.Header) {
	if Current(ctx).Recorded() {
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(header))
	}
}

// StartGroup begins the span of a transaction that n members share. The span has a link to each member that is
// recorded, and each of these has a link to the span. If there is only one member, or none is recorded, there is no
// such span. A group has few members, so the number of links is bounded.
func StartGroup(ctx context.Context, n int, member func(int) Span) (context.Context, Span) {
	if n < 2 {
		return ctx, Span{}
	}
	var links []trace.Link
	var recorded Span
	for i := range n {
		if m := member(i); m.Recorded() {
			recorded = m
			links = append(links, trace.Link{SpanContext: m.span.SpanContext()})
		}
	}
	if links == nil {
		return ctx, Span{}
	}
	ctx, span := recorded.tracer().Start(ctx, "group commit", trace.WithNewRoot(), trace.WithLinks(links...),
		trace.WithAttributes(members.Int(n)))
	for i := range n {
		if m := member(i); m.Recorded() {
			m.span.AddLink(trace.Link{SpanContext: span.SpanContext()})
		}
	}
	return ctx, Span{span}
}

func (s Span) tracer() trace.Tracer { return s.span.TracerProvider().Tracer(scope) }

// Recorded reports whether the span is recorded.
func (s Span) Recorded() bool { return s.span != nil }

// Executes says which payment or refund the request executes, and in which attempt. Its trace and the span's are
// linked, if they differ:
//   - The first attempt has created it. If the span is in the caller's trace, the payment's own trace would be empty,
//     and what comes later would link to nothing. So the payment's trace gets a root, which links to the span.
//   - A later attempt is a request of its own, with a trace of its own. It links back.
func (s Span) Executes(id uuid.UUID, number int32) {
	if !s.Recorded() {
		return
	}
	s.span.SetAttributes(attempt.Int(int(number)))
	root := rootOf(id)
	if s.span.SpanContext().TraceID() == root.TraceID() {
		return
	}
	s.span.AddLink(trace.Link{SpanContext: root})
	if number == 1 {
		_, own := s.tracer().Start(withRoot(context.Background(), id), "payment",
			trace.WithLinks(trace.Link{SpanContext: s.span.SpanContext()}))
		own.End()
	}
}

// Outcome says what came of the work, in a fixed word of ours.
func (s Span) Outcome(word string) {
	if s.Recorded() {
		s.span.SetAttributes(outcome.String(word))
	}
}

// Resource is the path of the payment or refund that the span is about.
func (s Span) Resource(path string) {
	if s.Recorded() && path != "" {
		s.span.SetAttributes(resourceKey.String(path))
	}
}

// Status is the status of an HTTP response. One of 500 or above marks the span as failed.
func (s Span) Status(status int) {
	if !s.Recorded() || status == 0 {
		return
	}
	s.span.SetAttributes(httpStatus.Int(status))
	if status >= http.StatusInternalServerError {
		s.span.SetStatus(codes.Error, "")
	}
}

// Replayed says that the response was stored before.
func (s Span) Replayed(yes bool) {
	if s.Recorded() {
		s.span.SetAttributes(replayed.Bool(yes))
	}
}

// End ends the span.
func (s Span) End() {
	if s.Recorded() {
		s.span.End()
	}
}
