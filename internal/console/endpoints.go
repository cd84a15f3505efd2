package console

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"payonce/internal/events"
	"payonce/internal/operator"
	"payonce/internal/payments"
	"payonce/internal/query"
	"payonce/internal/tenants"
)

// endpointPages are the pages of the endpoints to which events go. They use the methods of Console.
type endpointPages struct{ *Console }

func (c endpointPages) list() page {
	list := func(q *query.Query) operator.Page[events.EndpointRow] { return c.config.Events.ListAll(q) }
	return listPage(c.Console, "endpoints.html", "Endpoints", "/console/endpoints", list,
		[]field{textField("tenant", "Tenant")}, "limit", "cursor")
}

// endpointURL is the page of an endpoint.
func endpointURL(tenant string, id events.EndpointID) string {
	return "/console/endpoints/" + url.PathEscape(tenant) + "/" + id.String()
}

// deliveriesShown is how many deliveries the page of an endpoint shows at once.
const deliveriesShown = 20

// endpointView is the page of an endpoint.
type endpointView struct {
	events.EndpointRow

	URLHere       string // of this page
	KeyID         string // of the operator who sees the page
	Rows          []events.Delivery
	Newest, Older string // the addresses of other pages; or ""
	Said          string // what has become of the last form; or ""
	Refused       string // why nothing was changed; or ""
	Since         string // what the field for a time has
}

func (c endpointPages) endpoint(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
	c.showEndpoint(w, r, by, http.StatusOK, endpointView{})
}

func (c endpointPages) showEndpoint(
	w http.ResponseWriter, r *http.Request, by tenants.Principal, status int, v endpointView,
) {
	tenant, id, err := endpointIn(r)
	if err == nil {
		v.EndpointRow, err = c.config.Events.Endpoint(r.Context(), tenant, id)
	}
	if err != nil {
		c.explain(w, r, err)
		return
	}
	var after *payments.EventName
	if event, err := events.ParseID(r.URL.Query().Get("cursor")); err == nil {
		after, v.Newest = &event, endpointURL(tenant, id)
	}
	rows, more, err := c.config.Events.Deliveries(r.Context(), tenant, id, after, deliveriesShown)
	if err != nil {
		c.explain(w, r, err)
		return
	}
	v.Rows, v.URLHere, v.KeyID = rows, endpointURL(tenant, id), by.KeyID.String()
	if more {
		v.Older = v.URLHere + "?cursor=" + rows[len(rows)-1].EventID()
	}
	c.show(w, r, status, "endpoint.html", "Endpoint", &by, v)
}

func endpointIn(r *http.Request) (tenant string, id events.EndpointID, err error) {
	id, err = events.ParseEndpointID(r.PathValue("id"))
	return r.PathValue("tenant"), id, err
}

// deliveryView is the page of a delivery.
type deliveryView struct {
	events.Sent

	Endpoint events.EndpointRow
	URLHere  string // of the page of the endpoint
	KeyID    string // of the operator who sees the page
	JSON     string // the body for people
}

func (c endpointPages) delivery(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
	var v deliveryView
	var event payments.EventName
	tenant, id, err := endpointIn(r)
	if err == nil {
		event, err = events.ParseID(r.PathValue("event"))
	}
	if err == nil {
		v.Endpoint, err = c.config.Events.Endpoint(r.Context(), tenant, id)
	}
	if err == nil {
		v.Sent, err = c.config.Events.Sent(r.Context(), tenant, id, event)
	}
	if err != nil {
		c.explain(w, r, err)
		return
	}
	v.URLHere, v.KeyID, v.JSON = endpointURL(tenant, id), by.KeyID.String(), indented(string(v.Body))
	c.show(w, r, http.StatusOK, "delivery.html", "Delivery", &by, v)
}

// enable enables an endpoint again.
func (c endpointPages) enable(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
	c.changeEndpoint(w, r, by, "enabled", func(tenant string, id events.EndpointID) (endpointView, error) {
		_, err := c.config.Events.Enable(r.Context(), tenant, id)
		return endpointView{Said: "The endpoint is enabled. What has waited is delivered now."}, err
	})
}

// resend delivers one event again, or all since a time.
func (c endpointPages) resend(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
	c.changeEndpoint(w, r, by, "events resent", func(tenant string, id events.EndpointID) (endpointView, error) {
		if text := r.PostFormValue("event"); text != "" {
			event, err := events.ParseID(text)
			if err == nil {
				_, err = c.config.Events.Redeliver(r.Context(), tenant, event, &id)
			}
			return endpointView{Said: "The event " + text + " is delivered again."}, err
		}
		q := &query.Query{Values: queryIn(r.PostForm, []field{timeField("since", "")})}
		since, _ := q.Between("since", "until")
		if since == nil || q.Bad() != nil || since.Year() < 1970 {
			return endpointView{Refused: "Nothing was changed. Write a time, such as 2026-11-20T09:30:00."}, nil
		}
		n, last, err := c.config.Events.RedeliverSince(r.Context(), tenant, id, *since)
		v := endpointView{Said: fmt.Sprintf("%d event%s since %s (UTC) are delivered again.", n, plural(n),
			since.UTC().Format(time.DateTime))}
		if last != nil {
			v.Since = last.Format(timeInput)
			v.Said += " There may be more: send the form once more for those since " + last.Format(time.DateTime) + "."
		}
		return v, err
	})
}

// changeEndpoint changes an endpoint, notes in the log who has done it, and shows the endpoint.
func (c endpointPages) changeEndpoint(
	w http.ResponseWriter, r *http.Request, by tenants.Principal, what string,
	do func(tenant string, id events.EndpointID) (endpointView, error),
) {
	tenant, id, err := endpointIn(r)
	if err != nil {
		c.explain(w, r, err)
		return
	}
	if !c.sentBy(w, r, by) {
		return
	}
	v, err := do(tenant, id)
	switch {
	case err != nil:
		c.explain(w, r, err)
	case v.Refused != "":
		c.showEndpoint(w, r, by, http.StatusBadRequest, v)
	default:
		c.config.Log.InfoContext(r.Context(), "operator changes an endpoint", slog.String("change", what),
			slog.String("tenant", tenant), slog.String("endpoint_id", id.String()), slog.String("actor", by.Actor()),
			slog.String("result", v.Said))
		c.showEndpoint(w, r, by, http.StatusOK, v)
	}
}

// noSuchThing says which thing an address names that does not exist; "" for another error.
func noSuchThing(err error) string {
	switch {
	case errors.Is(err, events.ErrNoEndpoint): // or the id is not valid
		return "endpoint"
	case errors.Is(err, events.ErrNoEvent), errors.Is(err, events.ErrNoID):
		return "event at this endpoint"
	}
	return ""
}

// short is the beginning of a merchant's answer, for a list.
func short(answer string) string {
	const most = 80
	if runes := []rune(answer); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return answer
}

// shownURL is the URL of an endpoint without its query, in which a merchant may have put a secret.
func shownURL(raw string) string {
	if before, _, found := strings.Cut(raw, "?"); found {
		return before + "?••••"
	}
	return raw
}
