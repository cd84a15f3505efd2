package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"payonce/internal/events"
	"payonce/internal/idempotency"
	"payonce/internal/problem"
	"payonce/internal/tenants"
)

// merchantEvents is what merchants ask about their events. It uses the methods of API.
type merchantEvents struct {
	*API
	registry *events.Registry
}

// Events adds the routes of events to a public API.
func Events(registry *events.Registry) func(*API, chi.Router) {
	return func(a *API, r chi.Router) {
		a.problemFor = problemOfEvents
		e := merchantEvents{a, registry}
		reading := chi.Chain(a.admit(tenants.PaymentsRead, isTenant), a.limitRate)
		writing := chi.Chain(a.admit(tenants.PaymentsWrite, isTenant), a.limitRate)
		// An endpoint hears of all payments, also of those that its maker has not made.
		hearing := chi.Chain(append(reading, a.admit(tenants.PaymentsWrite, isTenant))...)
		r.With(hearing...).Post("/webhook-endpoints", a.answerAs(http.StatusCreated, e.createEndpoint))
		r.With(reading...).Get("/webhook-endpoints", a.answer(e.listEndpoints))
		const one = "/webhook-endpoints/{endpointId}"
		r.With(reading...).Get(one, a.answer(e.getEndpoint))
		r.With(writing...).Delete(one, a.answerAs(http.StatusNoContent, e.deleteEndpoint))
		r.With(hearing...).Post(one+"/rotate", a.answer(e.rotateSecret))
		r.With(writing...).Post(one+"/enable", a.answer(e.enableEndpoint))
		r.With(reading...).With(a.limitLists).Get("/events", a.answer(e.readFeed))
		r.With(writing...).Put("/events/feed", a.answer(e.setFeed))
		r.With(writing...).Post("/events/{eventId}/redeliver", a.answerAs(http.StatusAccepted, e.redeliver))
	}
}

// problemOfEvents is the table of errors with those of events.
func problemOfEvents(err error, again string) *requestError {
	switch {
	case errors.Is(err, events.ErrNoEndpoint): // or the id is not valid
		return &requestError{code: problem.NotFound, detail: "There is no such endpoint."}
	case errors.Is(err, events.ErrNoEvent):
		return &requestError{code: problem.NotFound, detail: "There is no such event."}
	case errors.Is(err, events.ErrTooManyEndpoints):
		return &requestError{code: problem.TooManyEndpoints,
			detail: "Your account has 20 endpoints, and no more are possible. Delete one first. Nothing was made."}
	case errors.Is(err, events.ErrFeedOff):
		return &requestError{code: problem.EventsOff, detail: "No events are written for your account. Send " +
			`PUT /events/feed with {"enabled":true}, or make an endpoint. Events begin then.`}
	case errors.Is(err, events.ErrGone):
		return &requestError{code: problem.EventGone, detail: "This event is not in the feed any more. Read on " +
			"without after, from the oldest event. " + greatestVersion}
	case errors.Is(err, events.ErrGap):
		return &requestError{code: problem.EventGone, detail: "No events were written for some time after this " +
			"event, because your account had neither the feed nor an endpoint. Read on without after: the feed begins " +
			"when events were written again. GET /payments has what changed meanwhile. " + greatestVersion}
	}
	return problemFor(err, again)
}

const greatestVersion = "Of each payment, refund and dispute, keep what has the greatest version."

// endpointRequest is the body of POST /webhook-endpoints.
type endpointRequest struct {
	URL         *string  `json:"url"`
	Description *string  `json:"description"`
	EventTypes  []string `json:"eventTypes"`
}

// endpointView is an endpoint as the API shows it.
type endpointView struct {
	EndpointID     string            `json:"endpointId"`
	URL            string            `json:"url"`
	Description    string            `json:"description,omitempty"`
	EventTypes     []string          `json:"eventTypes"`
	Status         string            `json:"status"`
	DisabledReason string            `json:"disabledReason,omitempty"`
	DisabledAt     *idempotency.Time `json:"disabledAt,omitempty"`
	FailingSince   *idempotency.Time `json:"failingSince,omitempty"`
	LastFailure    string            `json:"lastFailure,omitempty"`
	Waiting        int               `json:"waiting"`
	CreatedAt      idempotency.Time  `json:"createdAt"`
	Secret         string            `json:"secret,omitempty"` // only when it is new
	PreviousUntil  *idempotency.Time `json:"previousSecretUntil,omitempty"`
}

func viewOfEndpoint(e events.EndpointRow, secret string) endpointView {
	v := endpointView{EndpointID: e.ID.String(), URL: e.URL, Description: e.Description, EventTypes: e.Types,
		Status: "enabled", DisabledReason: e.DisabledReason, DisabledAt: (*idempotency.Time)(e.DisabledAt),
		FailingSince: (*idempotency.Time)(e.FailingSince), LastFailure: e.LastFailure, Waiting: e.Waiting,
		CreatedAt: idempotency.Time(e.Created), Secret: secret, PreviousUntil: (*idempotency.Time)(e.PreviousUntil)}
	if e.DisabledAt != nil {
		v.Status = "disabled"
	}
	return v
}

func (e merchantEvents) createEndpoint(w http.ResponseWriter, r *http.Request) (any, error) {
	var body endpointRequest
	if bad := readBody(w, r, &body); bad != nil {
		return nil, bad
	}
	n := events.NewEndpoint{URL: deref(body.URL), Description: deref(body.Description), Types: body.EventTypes}
	if bad := wrong(unlessMissing(required(body.URL == nil, "/url"), e.registry.Check(n))); bad != nil {
		return nil, bad
	}
	made, secret, err := e.registry.Create(r.Context(), principalOf(r).Tenant, n)
	if err != nil {
		return nil, err
	}
	e.note(r, "endpoint created", made.ID.String())
	w.Header().Set("Location", e.base+"/webhook-endpoints/"+made.ID.String())
	return viewOfEndpoint(made, secret), nil
}

func (e merchantEvents) listEndpoints(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, err := e.registry.Endpoints(r.Context(), principalOf(r).Tenant)
	views := make([]endpointView, len(all))
	for i, endpoint := range all {
		views[i] = viewOfEndpoint(endpoint, "")
	}
	return struct {
		Data []endpointView `json:"data"`
	}{views}, err
}

func (e merchantEvents) getEndpoint(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := events.ParseEndpointID(chi.URLParam(r, "endpointId"))
	if err != nil {
		return nil, err
	}
	endpoint, err := e.registry.Endpoint(r.Context(), principalOf(r).Tenant, id)
	return viewOfEndpoint(endpoint, ""), err
}

func (e merchantEvents) deleteEndpoint(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := events.ParseEndpointID(chi.URLParam(r, "endpointId"))
	if err == nil {
		err = e.registry.Delete(r.Context(), principalOf(r).Tenant, id)
	}
	if err == nil {
		e.note(r, "endpoint deleted", id.String())
	}
	return nil, err
}

// rotateRequest is the body of POST /webhook-endpoints/{endpointId}/rotate.
type rotateRequest struct {
	OverlapSeconds *int64 `json:"overlapSeconds"`
}

func (e merchantEvents) rotateSecret(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rotateRequest
	if bad := readBodyIfAny(w, r, &body); bad != nil {
		return nil, bad
	}
	overlap := events.DefaultOverlap
	if s := body.OverlapSeconds; s != nil {
		if *s < 0 || *s > int64(events.MaxOverlap/time.Second) {
			return nil, invalid(problem.AtPointer("/overlapSeconds", "must be from 0 to 604800, which is a week"))
		}
		overlap = time.Duration(*s) * time.Second
	}
	id, err := events.ParseEndpointID(chi.URLParam(r, "endpointId"))
	if err != nil {
		return nil, err
	}
	endpoint, secret, err := e.registry.Rotate(r.Context(), principalOf(r).Tenant, id, overlap)
	if err != nil {
		return nil, err
	}
	e.note(r, "secret of endpoint rotated", id.String())
	return viewOfEndpoint(endpoint, secret), nil
}

func (e merchantEvents) enableEndpoint(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := events.ParseEndpointID(chi.URLParam(r, "endpointId"))
	if err != nil {
		return nil, err
	}
	endpoint, changed, err := e.registry.Enable(r.Context(), principalOf(r).Tenant, id, "")
	if err != nil {
		return nil, err
	}
	if changed {
		e.note(r, "endpoint enabled", id.String())
	}
	return viewOfEndpoint(endpoint, ""), nil
}

// note is the audit trail of what a merchant changes: who has changed it. The URL is not in it, because it may have a
// secret of the merchant's in it.
func (e merchantEvents) note(r *http.Request, what, object string) {
	p := principalOf(r)
	e.config.Log.InfoContext(r.Context(), "merchant changed", slog.String("change", what),
		slog.String("object", object), slog.String("tenant", p.Tenant), slog.String("actor", p.Actor()),
		slog.String("request_id", requestIDOf(r)))
}
