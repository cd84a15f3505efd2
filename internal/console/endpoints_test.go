package console

import (
	"html/template"
	"net/url"
	"strings"
	"testing"
	"time"

	"payonce/internal/events"
)

// What a merchant has put into a URL may be a secret.
func TestURLOfAnEndpointIsShownWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://shop.example":                            "https://shop.example/",
		"https://shop.example/":                           "https://shop.example/",
		"https://shop.example:8443/payonce":               "https://shop.example:8443/payonce",
		"https://shop.example/payonce?token=secret":       "https://shop.example/payonce?…",
		"https://shop.example/services/T1/secret":         "https://shop.example/services/…",
		"https://shop.example/services/secret?a=b":        "https://shop.example/services/…",
		"https://shop.example/0123456789abcdef-secret":    "https://shop.example/…",
		"https://shop.example/0123456789abcdef-secret/in": "https://shop.example/…",
		"https://user:secret@shop.example/payonce#secret": "https://shop.example/payonce",
		"https://shop.example/%zz-secret":                 "…",
	} {
		if got := shownURL(raw); got != want {
			t.Errorf("%s is shown as %s, want %s", raw, got, want)
		}
	}
}

// rendered is a template with this data, as text.
func rendered(t *testing.T, name string, data any) string {
	t.Helper()
	pages := template.Must(template.New("").Funcs(functions(time.Now)).ParseFS(files, "templates/*.html"))
	var b strings.Builder
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCountOfWaitingDeliveriesSaysWhereItEnds(t *testing.T) {
	t.Parallel()
	for waiting, want := range map[int]string{0: "0", 99: "99", 100: "100 or more"} {
		if got := rendered(t, "waiting", events.EndpointRow{Waiting: waiting}); got != want {
			t.Errorf("%d that wait: %q, want %q", waiting, got, want)
		}
	}
}

// Operators see more of the last failure than the merchant: what its delivery has.
func TestPageSaysHowTheLastTryHasFailed(t *testing.T) {
	t.Parallel()
	at := func(minute int) *time.Time {
		when := time.Date(2026, 11, 20, 9, minute, 0, 0, time.UTC)
		return &when
	}
	v := endpointView{EndpointRow: events.EndpointRow{FailingSince: at(0), LastFailure: "connection failed"},
		Rows: []events.Delivery{{}, {Last: at(1), Error: "dial tcp 192.0.2.1: refused"},
			{Last: at(2), Delivered: at(2)}, {Last: at(0), Error: "an earlier one"}}}
	older := v
	older.Newest = "/console/endpoints/acme/we_1"
	answered := v
	answered.LastFailure, answered.Rows = "answered 500", append(v.Rows, events.Delivery{Last: at(3), Status: 500})
	for want, v := range map[string]endpointView{"dial tcp 192.0.2.1: refused": v, "connection failed": older,
		"answered 500": answered} {
		page := rendered(t, "endpoint.html", view{Body: v})
		if !strings.Contains(page, "failing since 2026-11-20 09:00:00: <bdi>"+want+"</bdi>") {
			t.Errorf("want %q\n%s", want, page)
		}
	}
}

func TestPageSaysWhatWasSentAgainAndGoesOn(t *testing.T) {
	t.Parallel()
	const more = `name="since" value="2026-11-20T09:30:00"><input type="hidden" name="after" value="evt_1">`
	since := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		sent     resent
		disabled string
		want     string
		goesOn   bool
	}{
		{resent{N: 1, Since: since}, "", "1 event since 2026-11-20 09:30:00 (UTC) is delivered again.", false},
		{resent{N: 2, Since: since, Older: "evt_1"}, "", "2 events since 2026-11-20 09:30:00 (UTC) are delivered again.",
			true},
		{resent{N: 1, Since: since}, "it has answered 410 Gone", "waits until the endpoint is enabled.", false},
		{resent{N: 0, Since: since, Older: "evt_1"}, "test", "wait until the endpoint is enabled.", true},
	} {
		q, err := url.ParseQuery(c.sent.query())
		if err != nil {
			t.Fatal(err)
		}
		page := rendered(t, "endpoint.html", view{May: true, Body: endpointView{Resent: resentIn(q),
			EndpointRow: events.EndpointRow{DisabledReason: c.disabled}}})
		if !strings.Contains(page, c.want) || strings.Contains(page, more) != c.goesOn {
			t.Errorf("%+v of an endpoint that is %q: want %q\n%s", c.sent, c.disabled, c.want, page)
		}
	}
	for _, wrong := range []string{"", "resent=-1&since=2026-11-20T09:30:00", "resent=1&since=x",
		"since=2026-11-20T09:30:00"} {
		q, err := url.ParseQuery(wrong)
		if err != nil {
			t.Fatal(err)
		}
		if s := resentIn(q); s != nil {
			t.Errorf("%q is read as %+v", wrong, s)
		}
	}
}
