package httpapi

import (
	"net/http"

	"github.com/google/uuid"
)

// trace begins the span of a request with an Idempotency-Key, before its body is read. id is the id of the payment or
// refund if the request creates one. The caller calls end after the answer.
func (a *API) trace(
	w http.ResponseWriter, r *http.Request, operation string, id uuid.UUID,
) (_ *http.Request, end func()) {
	ctx, span := a.config.Tracer.Request(r.Context(), r.Header, operation, id)
	if !span.Recorded() {
		return r, untraced
	}
	traced := r.WithContext(ctx)
	return traced, func() {
		if answered, ok := w.(interface{ Status() int }); ok {
			span.Status(answered.Status())
		}
		span.Replayed(w.Header().Get("Idempotent-Replayed") == "true")
		span.Resource(knownOf(traced).resource)
		span.End()
	}
}

func untraced() {}
