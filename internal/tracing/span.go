package tracing

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The attributes.
const (
	serviceName = attribute.Key("service.name")
	httpStatus  = attribute.Key("http.response.status_code")
	outcome     = attribute.Key("payonce.outcome")
	attempt     = attribute.Key("payonce.attempt")
	resourceKey = attribute.Key("payonce.resource")
	replayed    = attribute.Key("payonce.replayed")
	members     = attribute.Key("payonce.members")
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
