package stripe

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"payonce/test/wait"
)

func TestEverythingOutlivesAKill(t *testing.T) {
	t.Parallel()
	p := setup(t, withFile(t))
	id := p.post("/v1/payment_intents", "create", intentForm("pm_ok", "pay_1")).want(http.StatusOK).text("id")
	p.confirm(id, "confirm").want(http.StatusOK)
	p.refund(id, "refund", "&amount=400").want(http.StatusOK)
	broken := p.intent("pm_500_charged")
	p.confirm(broken, "broken").want(http.StatusInternalServerError)
	canceled := p.intent("pm_ok")
	p.cancel(canceled, "cancel").want(http.StatusOK)
	p.confirm(p.intent("pm_declined"), "declined").want(http.StatusPaymentRequired)
	p.cancel(canceled, "").want(http.StatusBadRequest) // changes nothing, and its line must be readable all the same
	read := func() map[string]string {
		seen := map[string]string{}
		for _, path := range []string{
			"payment_intents", "charges", "refunds", "balance_transactions?expand[]=data.source",
			"payment_intents/" + id, "payment_intents/search?query=metadata['reference']:'pay_1'",
		} {
			seen[path] = p.get("/v1/" + path).want(http.StatusOK).body
		}
		seen["events"] = fmt.Sprint(p.events())
		seen["ledger"] = p.back(http.MethodGet, "/_ledger", "").body
		return seen
	}
	before := read()
	p = p.restart()
	for path, after := range read() {
		if before[path] != after {
			t.Errorf("%s was\n%s\nand is\n%s", path, before[path], after)
		}
	}
	p.post("/v1/payment_intents", "create", intentForm("pm_ok", "pay_1")).want(http.StatusOK, "id", id)
	p.confirm(id, "confirm").want(http.StatusOK, "status", "succeeded")
	p.confirm(broken, "broken").want(http.StatusInternalServerError)
	p.refund(id, "refund", "&amount=400").want(http.StatusOK)
	p.refund(id, "more", "&amount=601").want(http.StatusBadRequest, "error.code", "amount_too_large")
	p.cancel(canceled, "cancel").want(http.StatusOK, "status", "canceled")
}

func TestUndeliveredEventsAreSentAfterAKill(t *testing.T) {
	t.Parallel()
	url, arrived := receiver(t, accept)
	p := setup(t, func(b *bundle) {
		withFile(t)(b)
		told(url)(b)
		b.psp.WebhookDelay = time.Hour
	})
	p.intent("pm_ok")
	p = p.restart(func(b *bundle) { b.psp.WebhookDelay = 0 })
	a := wait.For(t, "an event", arrived)
	if a.event["type"] != "payment_intent.created" || !a.verify(DemoWebhookSecret) {
		t.Errorf("event %s", a.body)
	}
	wait.Until(t, "it is delivered", func() bool {
		return p.back(http.MethodGet, "/_webhooks", "").at("dialect.delivered") == 1.0
	})
	p = p.restart()
	// What is to be sent again is pending from the start on, or has been tried by now.
	said := p.back(http.MethodGet, "/_webhooks", "").want(http.StatusOK)
	tries, _ := said.at("dialect.tries").([]any)
	if said.at("dialect.pending") != 0.0 || said.at("dialect.delivered") != 1.0 || len(tries) != 0 {
		t.Errorf("sent again: %s", said.body)
	}
}

func TestBothDialectsShareTheLedgerAndNothingElse(t *testing.T) {
	t.Parallel()
	p := setup(t, withFile(t))
	id := p.charged()
	p = p.restart()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.native.URL+"/v1/charges", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Authorization": {"Bearer demo-psp-secret"}, "Psp-Account": {"acct_1"}}
	response, err := p.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != `{"data":[],"hasMore":false}` {
		t.Errorf("the other dialect has the charge: %s, %v", body, err)
	}
	p.wantCharges(1)
	p.get("/v1/payment_intents/" + id).want(http.StatusOK)
	page := p.back(http.MethodGet, "/?account=acct_1", "").want(http.StatusOK)
	if !contains(page.body, id) || !contains(page.body, "/v1/payment_intents") {
		t.Error("the page does not show the charge or the calls")
	}
}
