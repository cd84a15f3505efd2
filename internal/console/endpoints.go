package console

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
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
	Actions       []events.Action // of operators
	Newest, Older string          // the addresses of other pages; or ""
	Resent        *resent
	Refused       string // why nothing was changed; or ""
}

// Failure is how the last try has failed. Its delivery says more than the merchant is told.
func (v endpointView) Failure() string {
	var last events.Delivery
	for _, d := range v.Rows {
		if v.Newest == "" && d.Delivered == nil && d.Last != nil && (last.Last == nil || d.Last.After(*last.Last)) {
			last = d
		}
	}
	return cmp.Or(last.Error, v.LastFailure)
}

// resent is what has become of the form that sends events again. The page has it in its address.
type resent struct {
	N     int
	Since time.Time
	Older string // the id of the last event that was looked at; "" if no more are to be sent
}

// query is what resentIn reads.
func (s resent) query() string {
	q := url.Values{"resent": {strconv.Itoa(s.N)}, "since": {s.Since.Format(timeInput)}}
	if s.Older != "" {
		q.Set("after", s.Older)
	}
	return q.Encode()
}

// resentIn is nil if the address has none.
func resentIn(q url.Values) *resent {
	n, err := strconv.ParseUint(q.Get("resent"), 10, 31)
	since, wrong := time.Parse(timeInput, q.Get("since"))
	if err != nil || wrong != nil {
		return nil
	}
	return &resent{N: int(n), Since: since, Older: q.Get("after")}
}

// Field is the time for the field of a form.
func (s resent) Field() string { return s.Since.Format(timeInput) }

func (c endpointPages) endpoint(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
	c.showEndpoint(w, r, by, http.StatusOK, endpointView{Resent: resentIn(r.URL.Query())})
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
	rows, older, err := c.config.Events.Deliveries(r.Context(), tenant, id, after, deliveriesShown)
	if err != nil {
		c.explain(w, r, err)
		return
	}
	if v.Actions, err = c.config.Events.Actions(r.Context(), tenant, id); err != nil {
		c.explain(w, r, err)
		return
	}
	v.Rows, v.URLHere, v.KeyID = rows, endpointURL(tenant, id), by.KeyID.String()
	if older != nil {
		v.Older = v.URLHere + "?cursor=" + events.IDOf(*older)
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
	Resent   bool   // by the last form
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
	v.Resent = r.URL.Query().Has("resent")
	v.URLHere, v.KeyID, v.JSON = endpointURL(tenant, id), by.KeyID.String(), indented(string(v.Body))
	c.show(w, r, http.StatusOK, "delivery.html", "Delivery", &by, v)
}

// enable enables an endpoint again.
func (c endpointPages) enable(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
	c.changeEndpoint(w, r, by, "enabled", func(tenant string, id events.EndpointID) (next string, err error) {
		_, changed, err := c.config.Events.Enable(r.Context(), tenant, id, by.Actor())
		if err == nil && !changed {
			err = errEnabled
		}
		return endpointURL(tenant, id), err
	})
}

// resend delivers one event again, or all since a time.
func (c endpointPages) resend(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
	c.changeEndpoint(w, r, by, "events resent", func(tenant string, id events.EndpointID) (next string, err error) {
		if text := r.PostFormValue("event"); text != "" {
			event, err := events.ParseID(text)
			if err == nil {
				_, err = c.config.Events.Redeliver(r.Context(), tenant, event, &id, by.Actor())
			}
			return endpointURL(tenant, id) + "/events/" + events.IDOf(event) + "?resent", err
		}
		return c.resendSince(r, by, tenant, id)
	})
}

// Why a form changes nothing.
var (
	errNoTime  = errors.New("no time") // or a wrong one
	errEnabled = errors.New("the endpoint is enabled")
)

// resendSince delivers events since a time again: the newest, or those that are older than the last ones.
func (c endpointPages) resendSince(
	r *http.Request, by tenants.Principal, tenant string, id events.EndpointID,
) (next string, err error) {
	q := &query.Query{Values: queryIn(r.PostForm, []field{timeField("since", "")})}
	since, _ := q.Between("since", "until")
	if since == nil || q.Bad() != nil || since.Year() < 1970 {
		return "", errNoTime
	}
	var after *payments.EventName
	if text := r.PostFormValue("after"); text != "" {
		event, err := events.ParseID(text)
		if err != nil {
			return "", err
		}
		after = &event
	}
	n, older, err := c.config.Events.RedeliverSince(r.Context(), tenant, id, *since, after, by.Actor())
	s := resent{N: n, Since: since.UTC()}
	if older != nil {
		s.Older = events.IDOf(*older)
	}
	return endpointURL(tenant, id) + "?" + s.query(), err
}

// changeEndpoint changes an endpoint, notes in the log who has done it, and leads on to the page that do returns.
func (c endpointPages) changeEndpoint(
	w http.ResponseWriter, r *http.Request, by tenants.Principal, what string,
	do func(tenant string, id events.EndpointID) (next string, err error),
) {
	tenant, id, err := endpointIn(r)
	if err != nil {
		c.explain(w, r, err)
		return
	}
	if !c.sentBy(w, r, by) {
		return
	}
	next, err := do(tenant, id)
	switch {
	case errors.Is(err, errNoTime):
		c.showEndpoint(w, r, by, http.StatusBadRequest, endpointView{
			Refused: "Nothing was changed. Write a time, such as 2026-11-20T09:30:00."})
	case errors.Is(err, errEnabled):
		c.showEndpoint(w, r, by, http.StatusConflict, endpointView{
			Refused: "Nothing was changed. The endpoint was enabled before."})
	case err != nil:
		c.explain(w, r, err)
	default:
		c.config.Log.InfoContext(r.Context(), "operator changes an endpoint", slog.String("change", what),
			slog.String("tenant", tenant), slog.String("endpoint_id", id.String()), slog.String("actor", by.Actor()),
			slog.String("page", next))
		http.Redirect(w, r, next, http.StatusSeeOther)
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

// shownURL is the server of an endpoint's URL with the first name in its path. A merchant may have put a secret into
// the rest. A first name that is long may be a secret itself.
func shownURL(raw string) string {
	const longest = 16
	u, err := url.Parse(raw)
	if err != nil {
		return "…"
	}
	first, _, deeper := strings.Cut(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	rest := ""
	switch {
	case len(first) > longest:
		first, rest = "", "…"
	case deeper:
		rest = "/…"
	case u.RawQuery != "":
		rest = "?…"
	}
	return u.Scheme + "://" + u.Host + "/" + first + rest
}
