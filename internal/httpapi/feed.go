package httpapi

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"payonce/internal/events"
	"payonce/internal/problem"
	"payonce/internal/query"
)

// feedView is a page of the feed. Unlike in other lists, the last page has a cursor, too: the next event will be behind
// it.
type feedView struct {
	Data       []events.Body `json:"data"`
	HasMore    bool          `json:"hasMore"`
	NextCursor string        `json:"nextCursor,omitempty"`
}

func (e merchantEvents) readFeed(_ http.ResponseWriter, r *http.Request) (any, error) {
	at, bad := positionOf(r.URL.RawQuery)
	if bad != nil {
		return nil, bad
	}
	page, err := e.registry.Feed(r.Context(), principalOf(r).Tenant, at)
	if err != nil {
		return nil, err
	}
	v := feedView{Data: page.Events, HasMore: page.More}
	if page.Next != nil {
		v.NextCursor = events.IDOf(*page.Next)
	}
	return v, nil
}

// positionOf reads the query of the feed.
func positionOf(rawQuery string) (events.Position, *requestError) {
	q := query.Parse(rawQuery)
	p := events.Position{Limit: q.Limit(), Type: query.OneOf(q, "type", events.Types()...)}
	if after, given := q.Get("after"); given {
		name, err := events.ParseID(after)
		if err != nil {
			q.Refuse("after", "must be the id of an event, or the nextCursor of an earlier page")
		}
		p.After = &name
	}
	return p, wrong(q.Bad())
}

// feedRequest is the body of PUT /events/feed.
type feedRequest struct {
	Enabled *bool `json:"enabled"`
}

func (e merchantEvents) setFeed(w http.ResponseWriter, r *http.Request) (any, error) {
	var body feedRequest
	if bad := readBody(w, r, &body); bad != nil {
		return nil, bad
	}
	if bad := wrong(required(body.Enabled == nil, "/enabled")); bad != nil {
		return nil, bad
	}
	if err := e.registry.SetFeed(r.Context(), principalOf(r).Tenant, *body.Enabled); err != nil {
		return nil, err
	}
	what := "feed switched off"
	if *body.Enabled {
		what = "feed switched on"
	}
	e.note(r, what, "feed")
	return body, nil
}

// redeliverRequest is the body of POST /events/{eventId}/redeliver.
type redeliverRequest struct {
	EndpointID *string `json:"endpointId"`
}

// redelivery is what comes of such a request.
type redelivery struct {
	EventID   string   `json:"eventId"`
	Endpoints []string `json:"endpointIds"`
}

func (e merchantEvents) redeliver(w http.ResponseWriter, r *http.Request) (any, error) {
	var body redeliverRequest
	if bad := readBodyIfAny(w, r, &body); bad != nil {
		return nil, bad
	}
	var to *events.EndpointID
	if body.EndpointID != nil {
		id, err := events.ParseEndpointID(*body.EndpointID)
		if err != nil {
			return nil, invalid(problem.AtPointer("/endpointId", "must be the id of an endpoint"))
		}
		to = &id
	}
	event, err := events.ParseID(chi.URLParam(r, "eventId"))
	if err != nil {
		return nil, events.ErrNoEvent
	}
	endpoints, err := e.registry.Redeliver(r.Context(), principalOf(r).Tenant, event, to, "")
	if err != nil {
		return nil, err
	}
	v := redelivery{EventID: events.IDOf(event), Endpoints: make([]string, len(endpoints))}
	for i, id := range endpoints {
		v.Endpoints[i] = id.String()
	}
	e.note(r, "event redelivered", v.EventID)
	return v, nil
}
