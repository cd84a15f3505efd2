package stripe

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"payonce/test/wait"
)

// What the mock does not do is refused before anything happens, in Stripe's form, and with the name of the parameter.
func TestWhatTheMockDoesNotDoIsRefusedByName(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	id := p.charged()
	const intents, good = "/v1/payment_intents", "amount=1000&currency=krw&payment_method=pm_ok&"
	byCard := p.post(intents, "", good+"payment_method_types[]=card&metadata[a]=").want(http.StatusOK).text("id")
	const deep = "latest_charge.payment_intent.latest_charge.payment_intent.latest_charge"
	for _, row := range []struct{ method, path, form, param string }{
		{"POST", intents, good + "capture_method=manual", "capture_method"},
		{"POST", intents, good + "confirm=true", "confirm"},
		{"POST", intents, good + "customer=cus_1", "customer"},
		{"POST", intents, good + "off_session=true", "off_session"},
		{"POST", intents, good + "transfer_group=a", "transfer_group"},
		{"POST", intents, good + "shipping[name]=a", "shipping[name]"},
		{"POST", intents, good + "description=", "description"},
		{"POST", intents, good + "expand[]=customer", "expand"},
		{"POST", intents, good + "expand[0]=latest_charge.dispute", "expand"},
		{"POST", intents, good + "expand[]=" + deep, "expand"},
		{"POST", intents, good + manyMetadata(51), "metadata"},
		{"POST", intents, good + "payment_method_types[]=klarna", "payment_method_types[]"},
		{"POST", intents, good + "automatic_payment_methods[allow_redirects]=never",
			"automatic_payment_methods[enabled]"},
		{"POST", intents, "amount=1000&currency=xts", "currency"},
		{"POST", intents, "amount=100000000&currency=usd", "amount"},
		{"POST", intents, "amount=1000&currency=krw&payment_method=pm_card_createDisputes", "payment_method"},
		{"POST", intents, "amount=1000&currency=krw&payment_method=pm_card_chargeDeclinedMaybe", "payment_method"},
		{"POST", intents, good + "payment_method=pm_bank_debit&payment_method_types[]=card", "payment_method"},
		{"POST", intents + "?customer=cus_1", good, "customer"},
		{"POST", intents + "/" + id + "/confirm", "capture_method=manual", "capture_method"},
		{"POST", intents + "/" + id + "/confirm", "capture_method=automatic", "capture_method"},
		{"POST", intents + "/" + byCard + "/confirm", "payment_method=pm_bank_debit", "payment_method"},
		{"POST", intents + "/" + id + "/confirm", "return_url=http://localhost", "return_url"},
		{"POST", intents + "/" + id + "/cancel", "cancellation_reason=bored", "cancellation_reason"},
		{"POST", "/v1/refunds", "payment_intent=" + id + "&charge=ch_1", "charge"},
		{"POST", "/v1/refunds", "payment_intent=" + id + "&reverse_transfer=true", "reverse_transfer"},
		{"POST", "/v1/refunds", "payment_intent=" + id + "&amount=", "amount"},
		{"GET", intents + "/" + id + "?client_secret=a", "", "client_secret"},
		{"GET", intents + "/" + id, "client_secret=a", "client_secret"},
		{"GET", intents + "/" + id + "?expand[]=data", "", "expand"},
		{"GET", intents + "?customer=cus_1", "", "customer"},
		{"GET", intents + "?expand[]=latest_charge", "", "expand"},
		{"GET", intents + "?expand[]=data", "", "expand"},
		{"GET", intents + "?ending_before=" + id, "", "ending_before"},
		{"GET", "/v1/charges?transfer_group=a", "", "transfer_group"},
		{"GET", "/v1/refunds?charge=ch_1", "", "charge"},
		{"GET", "/v1/balance_transactions?payout=", "", "payout"},
		{"GET", "/v1/balance_transactions?expand[]=data.source.customer", "", "expand"},
		{"GET", intents + "/search?query=metadata['a']:'b'&created[gte]=1", "", "created[gte]"},
		{"GET", intents + "/search?query=metadata['a']:'b'&page=page_2", "", "page"},
	} {
		got := p.send(row.method, row.path, row.form, nil)
		if got.status != http.StatusBadRequest || got.text("error.type") != "invalid_request_error" ||
			got.text("error.param") != row.param {
			t.Errorf("%s %s %s: %d %s, want a 400 that names %s", row.method, row.path, row.form, got.status, got.body,
				row.param)
		}
	}
	if made := p.data(intents); len(made) != 2 {
		t.Errorf("%d intents were made", len(made)-2)
	}
	p.wantCharges(1)
}

func manyMetadata(n int) (form string) {
	for i := range n {
		form += fmt.Sprintf("metadata[key%d]=a&", i)
	}
	return form
}

func TestStripesDecliningTestMethodsAreDeclined(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	for method, want := range map[string][3]string{
		"pm_card_chargeDeclined":                           {"card_declined", "generic_decline"},
		"pm_card_visa_chargeDeclined":                      {"card_declined", "generic_decline"},
		"pm_card_visa_chargeDeclinedInsufficientFunds":     {"card_declined", "insufficient_funds"},
		"pm_card_visa_chargeDeclinedLostCard":              {"card_declined", "lost_card"},
		"pm_card_visa_chargeDeclinedStolenCard":            {"card_declined", "stolen_card"},
		"pm_card_visa_chargeDeclinedVelocityLimitExceeded": {"card_declined", "card_velocity_exceeded"},
		"pm_card_chargeDeclinedFraudulent":                 {"card_declined", "fraudulent"},
		"pm_card_chargeDeclinedExpiredCard":                {"expired_card", "expired_card", "exp_month"},
		"pm_card_chargeDeclinedIncorrectCvc":               {"incorrect_cvc", "incorrect_cvc", "cvc"},
		"pm_card_chargeDeclinedProcessingError":            {"processing_error", "processing_error"},
	} {
		id := p.intent(method)
		got := p.confirm(id, "").want(http.StatusPaymentRequired, "error.type", "card_error", "error.code", want[0],
			"error.decline_code", want[1], "error.param", want[2], "error.payment_intent.id", id,
			"error.payment_method.id", method, "error.payment_method.object", "payment_method",
			"error.payment_intent.last_payment_error.decline_code", want[1],
			"error.doc_url", "https://stripe.com/docs/error-codes/"+strings.ReplaceAll(want[0], "_", "-"))
		p.one("/v1/charges", got.text("error.charge")).want(http.StatusOK, "status", "failed", "failure_code", want[0],
			"outcome.reason", want[1])
	}
	charges, _ := p.ledger()
	for _, c := range charges {
		if c.Status != "declined" {
			t.Errorf("the ledger has %+v", c)
		}
	}
}

func TestMembersAreExpanded(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	id := p.intent("pm_ok")
	const charge = "latest_charge.balance_transaction.source"
	confirm := "/v1/payment_intents/" + id + "/confirm"
	first := p.post(confirm, "key", "expand[]="+charge+"&expand[]=latest_charge").want(http.StatusOK,
		"latest_charge.object", "charge", "latest_charge.balance_transaction.object", "balance_transaction",
		"latest_charge.balance_transaction.source.object", "charge")
	again := p.post(confirm, "key", "expand[]="+charge+"&expand[]=latest_charge").want(http.StatusOK)
	now := p.get("/v1/payment_intents/" + id + "?expand[]=" + charge).want(http.StatusOK)
	if again.body != first.body || now.body != first.body {
		t.Errorf("confirmed\n%s\nand again\n%s\nand read\n%s", first.body, again.body, now.body)
	}
	const all = "&expand[]=charge&expand[]=payment_intent&expand[]=balance_transaction"
	p.post("/v1/refunds", "", "payment_intent="+id+all).
		want(http.StatusOK, "charge.object", "charge", "payment_intent.id", id, "balance_transaction.type", "refund")
	listed := p.data("/v1/refunds?expand[]=data.charge.payment_intent")
	if at(listed[0], "charge.payment_intent.id") != id {
		t.Errorf("listed %v", listed)
	}
	p.post("/v1/payment_intents", "", intentForm("pm_ok", "pay_2")+"&expand[]=latest_charge").want(http.StatusOK)
}

// A late answer is saved with what its request has asked for.
func TestALateAnswerIsExpanded(t *testing.T) {
	t.Parallel()
	p := setup(t, soon)
	confirm := "/v1/payment_intents/" + p.intent("pm_late_charge") + "/confirm"
	p.post(confirm, "key", "expand[]=latest_charge").wantLost()
	wait.Until(t, "it lands", func() bool { return p.dialect.Due() == 0 })
	id := p.post(confirm, "key", "expand[]=latest_charge").want(http.StatusOK, "latest_charge.object", "charge").
		text("id")
	p.refund(id, "refund", "&reason=pm_late_charge&expand[]=charge").wantLost()
	wait.Until(t, "it lands", func() bool { return p.dialect.Due() == 0 })
	p.refund(id, "refund", "&reason=pm_late_charge&expand[]=charge").want(http.StatusOK, "charge.object", "charge")
}

func TestTheVersionIsThatOfTheRequestOrOfTheAccount(t *testing.T) {
	t.Parallel()
	const ours = "2026-10-28.endive"
	url, arrived := receiver(t, accept)
	p := setup(t, func(b *bundle) { told(url)(b); withFile(t)(b); b.stripe.APIVersion = ours })
	const newer = "2026-03-25.dahlia"
	for asked, said := range map[string]string{"": ours, apiVersion: apiVersion, newer: newer} {
		got := p.send(http.MethodPost, "/v1/payment_intents", intentForm("pm_ok", "pay_1"),
			header{"Stripe-Version": asked})
		if got.want(http.StatusOK).header.Get("Stripe-Version") != said {
			t.Errorf("%q is answered in version %q", asked, got.header.Get("Stripe-Version"))
		}
		// Whatever the request asks for: docs.stripe.com/webhooks/versioning.
		if a := wait.For(t, "an event", arrived); a.event["api_version"] != ours {
			t.Errorf("after %q, the event has %v", asked, a.event["api_version"])
		}
	}
	p = p.restart(func(b *bundle) { b.stripe.APIVersion = apiVersion })
	if e := p.events()[0]; e["api_version"] != ours {
		t.Errorf("an event has changed its version to %v", e["api_version"])
	}
	for _, unknown := range []string{"2020-08-27", "2026-02-25", "newest", "2024-06-20.acacia"} {
		p.send(http.MethodGet, "/v1/charges", "", header{"Stripe-Version": unknown}).want(http.StatusBadRequest,
			"error.type", "invalid_request_error", "error.message", "Invalid Stripe API version: "+unknown)
	}
}
