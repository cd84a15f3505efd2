package e2e

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// told is a world with an endpoint of acme's that was told of a payment, and browsers of two operators.
func told(t *testing.T) (s *sides, page, event string, reader, resolver *browser) {
	t.Helper()
	s = setupSides(t)
	made := s.do(call{method: "POST", path: "/webhook-endpoints",
		body: `{"url":"https://shop.example/payonce?token=of-the-shop"}`})
	made.expect(t, http.StatusCreated, "")
	s.acme = map[string]string{"secret": made.text(t, "secret"), "paymentId": s.paid()}
	event = s.event(s.acme["paymentId"])
	reader, resolver = s.browse(), s.browse()
	reader.signIn(operatorKey).expect(t, http.StatusSeeOther, "")
	resolver.signIn(resolvingKey).expect(t, http.StatusSeeOther, "")
	return s, "/console/endpoints/acme/" + made.text(t, "endpointId"), event, reader, resolver
}

// wantPage is the text of a page that has all of these.
func (b *browser) wantPage(path string, want ...string) string {
	b.t.Helper()
	r := b.get(path)
	r.expect(b.t, http.StatusOK, "")
	for _, text := range want {
		if !strings.Contains(string(r.body), text) {
			b.t.Errorf("%s lacks %q:\n%s", path, text, r.body)
		}
	}
	return string(r.body)
}

func TestConsoleShowsWhereEventsGoAndNoSecret(t *testing.T) {
	t.Parallel()
	s, page, event, reader, _ := told(t)
	s.exec(`UPDATE event_deliveries SET attempts = 2, last_at = now(), last_status = 503,
		last_answer = 'we are <b>closed'`)
	all := reader.wantPage("/console/endpoints?tenant=acme", "https://shop.example/payonce", page)
	all += reader.wantPage(page, event, "503", "we are &lt;b&gt;closed", "waiting", "may read only")
	all += reader.wantPage(page+"/events/"+event, "Webhook-Id: "+event, "Webhook-Signature: v1,••••", "Status 503",
		s.acme["paymentId"], "payment.succeeded")
	all += reader.wantPage("/console/payments/"+s.acme["paymentId"], page+"/events/"+event, "payment.succeeded")
	for _, secret := range []string{s.acme["secret"], s.acme["secret"][len("whsec_"):], "of-the-shop", "/resend"} {
		if strings.Contains(all, secret) {
			t.Errorf("somebody who may read only is shown %q", secret)
		}
	}
	if strings.Contains(reader.wantPage("/console/endpoints?tenant=globex"), "shop.example") {
		t.Error("the list of globex has an endpoint of acme's")
	}
	for _, nothing := range []string{"/console/endpoints/globex/" + page[len("/console/endpoints/acme/"):],
		"/console/endpoints/acme/x", page + "/events/x", page + "/events/evt_01k9z3w5m8fk2v7q4d6h0r1txe_1"} {
		reader.get(nothing).expect(t, http.StatusNotFound, "")
	}
}

var keyID = regexp.MustCompile(`name="keyId" value="([^"]*)"`)

func TestOperatorSendsEventsAgainAndEnablesAnEndpoint(t *testing.T) {
	t.Parallel()
	s, page, event, reader, resolver := told(t)
	const delivered = "UPDATE event_deliveries SET due_at = NULL, delivered_at = now(), attempts = 1"
	const due = "SELECT count(*) FROM event_deliveries WHERE due_at IS NOT NULL"
	s.exec(delivered)
	s.exec("UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'it has answered 410 Gone'")
	mine := keyID.FindStringSubmatch(resolver.wantPage(page, "it has answered 410 Gone"))[1]
	post := func(b *browser, what, keyID string, fields ...string) reply {
		form := url.Values{"keyId": {keyID}}
		for i := 0; i+1 < len(fields); i += 2 {
			form.Set(fields[i], fields[i+1])
		}
		return b.send(http.MethodPost, page+what, form)
	}
	post(reader, "/resend", mine, "event", event).expect(t, http.StatusForbidden, "")
	post(resolver, "/resend", "another", "event", event).expect(t, http.StatusConflict, "")
	post(resolver, "/resend", mine, "event", "evt_x").expect(t, http.StatusNotFound, "")
	for _, since := range []string{"", "yesterday", "0001-01-01T00:00:00"} {
		post(resolver, "/resend", mine, "since", since).expect(t, http.StatusBadRequest, "")
	}
	if n := s.count(due); n != 0 {
		t.Fatalf("%d deliveries are due although each form was refused", n)
	}
	// Each form leads to a page that may be loaded again.
	lead := func(r reply, want, says string) {
		t.Helper()
		r.expect(t, http.StatusSeeOther, "")
		if to := r.header.Get("Location"); !strings.HasPrefix(to, page+want) {
			t.Errorf("the form leads to %s, want %s", to, page+want)
		}
		resolver.wantPage(r.header.Get("Location"), says)
	}
	post(resolver, "/resend", mine, "since", "2020-01-01T00:00", "after", "x").expect(t, http.StatusNotFound, "")
	lead(post(resolver, "/resend", mine, "event", event), "/events/"+event+"?resent",
		"The event waits until the endpoint is enabled.")
	if n := s.count(due); n != 1 {
		t.Errorf("%d deliveries are due after one was sent again", n)
	}
	s.exec(delivered)
	for since, want := range map[string]int{"2999-01-01T00:00:00": 0, "2020-01-01T00:00": 1} {
		lead(post(resolver, "/resend", mine, "since", since), "?resent="+strconv.Itoa(want)+"&",
			"until the endpoint is enabled.")
		if n := s.count(due); n != want {
			t.Errorf("%d deliveries are due after all since %s were sent again, want %d", n, since, want)
		}
		s.exec(delivered)
	}
	post(resolver, "/enable", mine).expect(t, http.StatusSeeOther, "")
	if n := s.count("SELECT count(*) FROM webhook_endpoints WHERE disabled_at IS NOT NULL"); n != 0 {
		t.Error("the endpoint is still disabled")
	}
	again := post(resolver, "/enable", mine)
	if again.expect(t, http.StatusConflict, ""); !strings.Contains(string(again.body), "Nothing was changed.") {
		t.Errorf("enabled again:\n%s", again.body)
	}
	reader.wantPage(page, "What operators have done", "<b>enable</b>", "<b>resend</b> "+event,
		"<b>resend</b> 1 since 2020-01-01T00:00:00Z")
	if n := s.count("SELECT count(*) FROM operator_actions WHERE tenant_id = 'acme'"); n != 3 {
		t.Errorf("%d rows in the audit, want those of the 3 forms that have changed something", n)
	}
}
