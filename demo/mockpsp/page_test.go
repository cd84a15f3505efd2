package mockpsp

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
)

func (p *running) postForm(form string, headers header) result {
	all := header{"Content-Type": "application/x-www-form-urlencoded"}
	for name, value := range headers {
		all[name] = value
	}
	return p.send(p.t.Context(), http.MethodPost, "/", form, all)
}

func TestPageShowsTheLedgerAndTheCalls(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	charge := p.charge("key-<1>", "pm_ok").entry(t)
	p.refund(charge.ID, "key-2", "", 1)
	p.charge("key-3", "pm_late_charge")
	p.list("/v1/charges") // a call without a key or a fault
	page := p.get("/")
	for _, want := range []string{charge.ID, "key-&lt;1&gt;", "1 charges, 1 refunds, 0 disputes, 1 late",
		"closed without an answer", "rf_"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if strings.Contains(page.body, "key-<1>") || strings.Contains(page.body, "<script") ||
		strings.Contains(page.body, "//") {
		t.Error("the page has raw markup, a script, or an address outside")
	}
	// At a phone's width, a cell that is not empty has a label before it.
	if strings.Contains(page.body, "<code></code>") {
		t.Error("a cell has nothing but an empty element")
	}
	if filtered := p.get("/?idempotencyKey=key-2").body; strings.Contains(filtered, "key-&lt;1&gt;") ||
		!strings.Contains(filtered, "rf_") {
		t.Error("the filter does not filter")
	}
}

func TestPageMayHaveItsStyleAndNoOther(t *testing.T) {
	t.Parallel()
	page := setup(t, nil).get("/")
	_, rest, _ := strings.Cut(page.body, "<style>")
	style, rest, _ := strings.Cut(rest, "</style>")
	hash := sha256.Sum256([]byte(style))
	policy := page.header.Get("Content-Security-Policy")
	want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "';"
	if !strings.Contains(policy, want) {
		t.Errorf("the policy %q does not allow the page's style, %s", policy, want)
	}
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy %q is too lax", policy)
	}
	if strings.Contains(rest, "<style") || strings.Contains(rest, " style=") {
		t.Error("the page has a style that its policy forbids")
	}
}

func TestPageSetsTheRates(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	page := p.postForm("slow=0.25&stuck=", nil) // follows the redirect
	if page.status != http.StatusOK || !strings.Contains(page.body, `name="slow" value="0.25"`) {
		t.Errorf("%d %s", page.status, page.body)
	}
	if !strings.Contains(p.get("/_faults").body, `"slow":0.25,`) {
		t.Errorf("rates: %s", p.get("/_faults").body)
	}
	for form, want := range map[string]string{
		"slow=a%3Cb": "not a number", "slow=2": "from 0 to 1", "slow=NaN": "from 0 to 1",
		"slow=0.7&stuck=0.7": "more than 1",
	} {
		page := p.postForm(form, nil)
		if page.status != http.StatusBadRequest || !strings.Contains(page.body, want) ||
			strings.Contains(page.body, "a<b") {
			t.Errorf("%s: %d", form, page.status)
		}
	}
	if !strings.Contains(p.get("/_faults").body, `"slow":0.25,`) {
		t.Errorf("rates: %s", p.get("/_faults").body)
	}
}

func TestPageShowsWebhooksAndSetsTheirDisorder(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(arrival) int { return http.StatusTeapot })
	p := setup(t, toldTo(r))
	page := p.postForm("webhook_duplicate=1&webhook_drop=", nil)
	if page.status != http.StatusOK || !strings.Contains(page.body, `name="webhook_duplicate" value="1"`) {
		t.Errorf("%d %s", page.status, page.body)
	}
	p.charge("key-1", "pm_ok")
	p.awaitWebhooks(0, 0, 1, 0)
	shown := p.get("/").body
	for _, want := range []string{"0 pending, 0 delivered, 1 given up, 0 dropped", "evt_", "charge.succeeded",
		"418 I&#39;m a teapot"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	receiver := `Webhooks go to <a href="` + r.server.URL + `/">` + r.server.URL + `</a>.`
	if !strings.Contains(shown, receiver) || strings.Contains(strings.Replace(shown, receiver, "", 1), "//") {
		t.Error("the page must lead to the receiver, and nowhere else")
	}
	before := p.get("/_faults").body
	for _, form := range []string{"webhook_drop=2", "webhook_drop=x", "slow=0.5&webhook_drop=NaN",
		"slow=2&webhook_drop=0.1"} {
		if page := p.postForm(form, nil); page.status != http.StatusBadRequest ||
			!strings.Contains(page.body, `role="alert"`) {
			t.Errorf("%s: %d", form, page.status)
		}
	}
	if after := p.get("/_faults").body; after != before {
		t.Errorf("changed to %s", after)
	}
	if unset := setup(t, nil).get("/").body; !strings.Contains(unset, "no receiver is set") {
		t.Error("the page does not say that there is no receiver")
	}
}

func TestOtherSitesCannotSetTheRates(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	if got := p.postForm("slow=0.25", header{"Sec-Fetch-Site": "cross-site"}).status; got != http.StatusForbidden {
		t.Errorf("answered %d", got)
	}
	if strings.Contains(p.get("/_faults").body, "0.25") {
		t.Error("the rates were set")
	}
}

func TestPageLeadsToTheReceiverWhereABrowserMayReachIt(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"http://localhost:8080/webhooks/psp":     `Webhooks go to <a href="http://localhost:8080/">http://localhost:8080</a>.`,
		"http://127.0.0.1:8080/hooks?token=tell": `Webhooks go to <a href="http://127.0.0.1:8080/">http://127.0.0.1:8080</a>.`,
		"http://me:tell@[::1]:8080/hooks":        `Webhooks go to <a href="http://[::1]:8080/">http://[::1]:8080</a>.`,
		"http://api:8080/webhooks/psp":           `Webhooks go to http://api:8080.`,
		"https://pay.example/tell":               `Webhooks go to https://pay.example.`,
	} {
		p := setup(t, func(c *Config) { c.WebhookURL = given })
		if page := p.get("/").body; !strings.Contains(page, want) || strings.Contains(page, "tell") {
			t.Errorf("%s: the page lacks %s, or tells the rest", given, want)
		}
	}
}

func TestPageCountsTheCallsUnderAFilter(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	for _, part := range []string{"0 calls since the start.", "None yet.", "Nothing yet."} {
		if !strings.Contains(p.get("/").body, part) {
			t.Errorf("the empty page does not say %q", part)
		}
	}
	p.charge("key-1", "pm_ok")
	p.charge("key-2", "pm_ok")
	p.get("/v1/charges?idempotencyKey=key-1")
	for path, want := range map[string][]string{
		"/":                      {"3 calls since the start."},
		"/?idempotencyKey=key-1": {"2 of 3 calls since the start match the filter."},
		"/?account=acme":         {"3 of 3 calls since the start match the filter."},
		"/?account=globex": {"0 of 3 calls since the start match the filter.", "None matches the filter.",
			"Nothing matches the filter."},
		"/?idempotencyKey=key-77": {"0 of 3 calls since the start match the filter."},
	} {
		page := p.get(path).body
		for _, part := range want {
			if !strings.Contains(page, part) {
				t.Errorf("%s does not say %q", path, part)
			}
		}
	}
}

func TestThePagesButtonsAreDoors(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	charge := p.charge("key-1", "pm_ok").entry(t)
	form := func(path, fields string) result {
		return p.send(t.Context(), http.MethodPost, path, fields,
			header{"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"})
	}
	shows := func(parts ...string) {
		t.Helper()
		page := p.get("/").body
		for _, part := range parts {
			if !strings.Contains(page, part) {
				t.Errorf("the page lacks %s", part)
			}
		}
	}
	shows(`name="chargeId" value="`+charge.ID+`"`, `formaction="/_refunds"`, `formaction="/_disputes"`)
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if got := form("/_refunds", "chargeId="+charge.ID+"&amountCents=300"); got.status != http.StatusSeeOther {
		t.Fatalf("answered %d", got.status)
	}
	refund := p.ledger("").Refunds[0]
	shows("1 charges, 1 refunds, 0 disputes", `action="/_refunds/`+refund.ID+`/fail"`)
	form("/_refunds/"+refund.ID+"/fail", "")
	form("/_disputes", "chargeId="+charge.ID+"&amountCents=&inquiry=true")
	dispute := p.ledger("").Disputes[0]
	shows(`>failed</span>`, `>inquiry</span>`, `action="/_disputes/`+dispute.ID+`"`, `name="status" value="closed"`)
	form("/_disputes/"+dispute.ID, "status=needs_response")
	if got := form("/_refunds", "chargeId="+charge.ID); got.status != http.StatusPaymentRequired ||
		!strings.Contains(got.body, `role="alert">Nothing was changed: 0 of the charge are left`) {
		t.Errorf("answered %d", got.status)
	}
	p.client.CheckRedirect = nil
	if got := p.send(t.Context(), http.MethodPost, "/_refunds", "chargeId="+charge.ID,
		header{"Sec-Fetch-Site": "cross-site"}); got.status != http.StatusForbidden {
		t.Errorf("another site may refund: %d", got.status)
	}
}
