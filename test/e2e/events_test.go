package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/events"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
)

const newEndpoint = `{"url":"https://shop.example/payonce"}`

// place gives places to all events, as the reconciler does.
func (w *world) place() {
	w.t.Helper()
	d := events.New(events.Config{DB: postgres.Wrap(w.db, patience),
		Metrics: telemetry.NewMetrics(prometheus.NewRegistry())})
	if err := d.Dispatch(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// event is the id of the first event of a payment, which has its place in the feed now.
func (w *world) event(paymentID string) string {
	w.t.Helper()
	w.place()
	id, err := payment.ParseID(paymentID)
	if err != nil {
		w.t.Fatal(err)
	}
	version := w.count("SELECT min(version) FROM events WHERE payment_id = $1", uuid.UUID(id))
	return events.IDOf(payments.EventName{PaymentID: id, Version: int64(version)})
}

// feed reads a page of a feed.
func (w *world) feed(as, query string) (page struct {
	Data       []events.Body
	NextCursor string
}) {
	w.t.Helper()
	r := w.do(call{method: "GET", path: "/events" + query, as: as})
	r.expect(w.t, http.StatusOK, "")
	var texts struct {
		Data []struct {
			ID, Type string
			Version  int64
		}
		NextCursor string
	}
	if err := json.Unmarshal(r.body, &texts, json.MatchCaseInsensitiveNames(true)); err != nil {
		w.t.Fatalf("%v\n%s", err, r.body)
	}
	page.NextCursor = texts.NextCursor
	for _, e := range texts.Data {
		page.Data = append(page.Data, events.Body{ID: e.ID, Type: e.Type, Version: e.Version})
	}
	return page
}

func TestMerchantReadsWhatHasBecomeOfPayments(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do(call{method: "GET", path: "/events"}).expect(t, http.StatusConflict, "events_off")
	w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "") // before the feed is on
	on := w.do(call{method: "PUT", path: "/events/feed", body: `{"enabled":true}`})
	on.expect(t, http.StatusOK, "")
	if page := w.feed(acmeKey, ""); len(page.Data) != 0 || page.NextCursor != "" {
		t.Errorf("the feed begins with %+v", page)
	}
	paid := w.paid()
	w.refund(paid, freshKey(), `{"amountCents":1}`).expect(t, http.StatusCreated, "")
	w.pay(freshKey(), "pm_declined").expect(t, http.StatusPaymentRequired, "")
	w.place()
	var types []string
	page := w.feed(readonlyKey, "?limit=2")
	for len(page.Data) > 0 {
		for _, e := range page.Data {
			types = append(types, e.Type)
		}
		page = w.feed(readonlyKey, "?limit=2&after="+page.NextCursor)
	}
	if diff := cmp.Diff([]string{"payment.succeeded", "refund.succeeded", "payment.declined"}, types); diff != "" {
		t.Errorf("the feed (-want +got):\n%s", diff)
	}
	page = w.feed(acmeKey, "?type=refund.succeeded")
	if len(page.Data) != 1 || page.Data[0].Type != "refund.succeeded" {
		t.Errorf("of one type, it has %+v", page)
	}
	w.exec("DELETE FROM events WHERE type = 'payment.declined'")
	w.do(call{method: "GET", path: "/events?after=" + page.NextCursor}).expect(t, http.StatusGone, "event_gone")
	for _, query := range []string{"after=", "after=evt_x", "after=" + paid, "type=payment", "limit=101", "cursor=x"} {
		w.do(call{method: "GET", path: "/events?" + query}).expect(t, http.StatusBadRequest, "invalid_request")
	}
	w.do(call{method: "PUT", path: "/events/feed", body: `{}`}).expect(t, http.StatusBadRequest, "invalid_request")
	w.do(call{method: "PUT", path: "/events/feed", body: `{"enabled":false}`}).expect(t, http.StatusOK, "")
	w.do(call{method: "GET", path: "/events"}).expect(t, http.StatusConflict, "events_off")
	w.do(call{method: "PUT", path: "/events/feed", body: `{"enabled":true}`}).expect(t, http.StatusOK, "")
	gone := w.do(call{method: "GET", path: "/events?after=" + w.event(paid)})
	gone.expect(t, http.StatusGone, "event_gone")
	if detail := gone.text(t, "detail"); !strings.Contains(detail, "No events were written for some time after") {
		t.Errorf("of the time without events, it says %q", detail)
	}
}

// endpoint is a request about an endpoint of acme's.
func (w *world) endpoint(method, id, rest, body string) reply {
	w.t.Helper()
	return w.do(call{method: method, path: "/webhook-endpoints/" + id + rest, body: body})
}

func TestSecretOfAnEndpointIsShownOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const body = `{"url":"https://shop.example/payonce?token=of-the-shop","description":"books",
		"eventTypes":["dispute.won"]}`
	made := w.do(call{method: "POST", path: "/webhook-endpoints", body: body})
	made.expect(t, http.StatusCreated, "")
	id := made.text(t, "endpointId")
	if made.header.Get("Location") != "/webhook-endpoints/"+id {
		t.Errorf("it is at %s", made.header.Get("Location"))
	}
	rotated := w.endpoint("POST", id, "/rotate", `{"overlapSeconds":60}`)
	rotated.expect(t, http.StatusOK, "")
	if rotated.text(t, "previousSecretUntil") == "" {
		t.Errorf("it does not say until when the old secret signs: %s", rotated.body)
	}
	for _, row := range []struct {
		body   string
		status int
	}{
		{`{"overlapSeconds":-1}`, 400}, {`{"overlapSeconds":604801}`, 400}, {`{"overlapSeconds":604800}`, 200},
		{`{}`, 200}, {``, 200}, {` `, 400},
	} {
		if r := w.endpoint("POST", id, "/rotate", row.body); r.status != row.status {
			t.Errorf("%s is answered %d %s", row.body, r.status, r.body)
		}
	}
	first, second := made.text(t, "secret"), rotated.text(t, "secret")
	if first == second {
		t.Error("the secret was not rotated")
	}
	shown := w.endpoint("GET", id, "", "")
	shown.expect(t, http.StatusOK, "")
	list := w.do(call{method: "GET", path: "/webhook-endpoints", as: readonlyKey})
	list.expect(t, http.StatusOK, "")
	w.endpoint("POST", id, "/enable", "").expect(t, http.StatusOK, "")
	if w.logged("endpoint enabled", id) {
		t.Error("it was enabled before, and the log says that it was changed")
	}
	w.exec("UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'test'")
	enabled := w.endpoint("POST", id, "/enable", "")
	enabled.expect(t, http.StatusOK, "")
	for place, text := range map[string]string{"the endpoint": string(shown.body), "the list": string(list.body),
		"the enabled endpoint": string(enabled.body), "the log": w.logs.String()} {
		if strings.Contains(text, first) || strings.Contains(text, second) || strings.Contains(text, "whsec_") {
			t.Errorf("%s has a secret: %s", place, text)
		}
	}
	w.endpoint("DELETE", id, "", "").expect(t, http.StatusNoContent, "")
	w.endpoint("GET", id, "", "").expect(t, http.StatusNotFound, "not_found")
	w.endpoint("DELETE", id, "", "").expect(t, http.StatusNotFound, "not_found")
	for _, what := range []string{"endpoint created", "secret of endpoint rotated", "endpoint enabled",
		"endpoint deleted"} {
		if !w.logged(what, id) {
			t.Errorf("the log does not say who has done this: %s", what)
		}
	}
	if strings.Contains(w.logs.String(), "of-the-shop") {
		t.Error("the log has the URL, which may have a secret in it")
	}
}

// logged reports whether a line of the log has a text, the object and who has done it.
func (w *world) logged(what, object string) bool {
	for line := range strings.SplitSeq(w.logs.String(), "\n") {
		if strings.Contains(line, what) && strings.Contains(line, object) && strings.Contains(line, `"actor":"`) &&
			strings.Contains(line, "api key ") {
			return true
		}
	}
	return false
}

func TestEndpointIsRefusedWithWhatToChange(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for body, places := range map[string][]string{
		`{}`:                            {"/url"},
		`{"url":"http://shop.example"}`: {"/url"},
		`{"url":"https://10.0.0.1/","eventTypes":["x"]}`:  {"/eventTypes/0", "/url"},
		`{"url":"https://shop.example","eventTypes":"x"}`: {"/eventTypes"},
		`{"url":"https://shop.example","secret":"x"}`:     {"/secret"},
	} {
		r := w.do(call{method: "POST", path: "/webhook-endpoints", body: body})
		r.expect(t, http.StatusBadRequest, "invalid_request")
		if diff := cmp.Diff(places, r.reasons(t)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
	for range events.MaxEndpoints {
		w.do(call{method: "POST", path: "/webhook-endpoints", body: newEndpoint}).expect(t, http.StatusCreated, "")
	}
	w.do(call{method: "POST", path: "/webhook-endpoints", body: newEndpoint}).expect(t, http.StatusConflict,
		"too_many_endpoints")
}

func TestDisabledEndpointSaysWhyUntilItIsEnabled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	made := w.do(call{method: "POST", path: "/webhook-endpoints", body: newEndpoint})
	id := made.text(t, "endpointId")
	const reason = "no delivery has succeeded since 2026-11-17: the last one: answered 500"
	w.exec(`UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = $1, failing_since = now(),
		last_failure = 'answered 500'`, reason)
	r := w.endpoint("GET", id, "", "")
	if r.expect(t, http.StatusOK, ""); r.text(t, "status") != "disabled" || r.text(t, "disabledReason") != reason ||
		r.text(t, "failingSince") == "" || r.text(t, "lastFailure") != "answered 500" {
		t.Errorf("it shows %s", r.body)
	}
	r = w.endpoint("POST", id, "/enable", "")
	if r.expect(t, http.StatusOK, ""); r.text(t, "status") != "enabled" ||
		strings.Contains(string(r.body), "disabled") || strings.Contains(string(r.body), "lastFailure") {
		t.Errorf("it shows %s", r.body)
	}
}

func TestEventIsRedeliveredToWhoIsNamed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	made := w.do(call{method: "POST", path: "/webhook-endpoints", body: newEndpoint})
	made.expect(t, http.StatusCreated, "")
	id := w.event(w.paid())
	ask := func(event, body string) reply {
		return w.do(call{method: "POST", path: "/events/" + event + "/redeliver", body: body})
	}
	endpoint := made.text(t, "endpointId")
	for _, body := range []string{``, `{}`, fmt.Sprintf(`{"endpointId":%q}`, endpoint)} {
		r := ask(id, body)
		r.expect(t, http.StatusAccepted, "")
		if want := fmt.Sprintf(`{"eventId":%q,"endpointIds":[%q]}`+"\n", id, endpoint); string(r.body) != want {
			t.Errorf("answered %s, want %s", r.body, want)
		}
	}
	if n := w.count("SELECT count(*) FROM event_deliveries WHERE due_at IS NOT NULL"); n != 1 {
		t.Errorf("%d deliveries are due", n)
	}
	ask(id, `{"endpointId":"we_00000000000000000000000000"}`).expect(t, http.StatusNotFound, "not_found")
	ask(id, `{"endpointId":"x"}`).expect(t, http.StatusBadRequest, "invalid_request")
	ask("evt_x", `{}`).expect(t, http.StatusNotFound, "not_found")
}
