package mockpsp

import (
	"net/http"
	"os"
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
	page := p.get("/")
	for _, want := range []string{charge.ID, "key-&lt;1&gt;", "1 charges, 1 refunds, 1 late", "closed without an answer", "rf_"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if strings.Contains(page.body, "key-<1>") || strings.Contains(page.body, "<script") || strings.Contains(page.body, "//") {
		t.Error("the page has raw markup, a script, or an address outside")
	}
	if filtered := p.get("/?idempotencyKey=key-2").body; strings.Contains(filtered, "key-&lt;1&gt;") || !strings.Contains(filtered, "rf_") {
		t.Error("the filter does not filter")
	}
	if csp := page.header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
		t.Errorf("policy %q", csp)
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
		"slow=a%3Cb": "not a number", "slow=2": "from 0 to 1", "slow=NaN": "from 0 to 1", "slow=0.7&stuck=0.7": "more than 1",
	} {
		page := p.postForm(form, nil)
		if page.status != http.StatusBadRequest || !strings.Contains(page.body, want) || strings.Contains(page.body, "a<b") {
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
	for _, want := range []string{"0 pending, 0 delivered, 1 given up, 0 dropped", "evt_", "charge.succeeded", "418 I&#39;m a teapot"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if strings.Contains(shown, "//") {
		t.Error("the page has an address outside")
	}
	before := p.get("/_faults").body
	for _, form := range []string{"webhook_drop=2", "webhook_drop=x", "slow=0.5&webhook_drop=NaN", "slow=2&webhook_drop=0.1"} {
		if page := p.postForm(form, nil); page.status != http.StatusBadRequest || !strings.Contains(page.body, `role="alert"`) {
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

// The page and the README say of each fault what it does.
func TestEachRandomFaultIsExplained(t *testing.T) {
	t.Parallel()
	page := setup(t, nil).get("/").body
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range randomFaults() {
		name := f.rateName()
		if shown := "<dt><code>" + name + "</code></dt><dd>" + meanings[name] + "</dd>"; meanings[name] == "" || !strings.Contains(page, shown) {
			t.Errorf("the page does not say what %s does", name)
		}
		if !strings.Contains(string(readme), "`"+string(f)+"`") {
			t.Errorf("the README does not say what %s does", f)
		}
	}
	if len(meanings) != len(randomFaults()) {
		t.Errorf("%d meanings of %d faults", len(meanings), len(randomFaults()))
	}
}
