package stripe

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
)

func TestTheKeyIsABearerTokenOrABasicUser(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(DemoSecret+":"))
	for authorization, want := range map[string]int{
		"Bearer " + DemoSecret: http.StatusOK, basic: http.StatusOK, "": http.StatusUnauthorized,
		"Bearer sk_test_other": http.StatusUnauthorized, "Basic c2s6": http.StatusUnauthorized,
	} {
		got := p.send(http.MethodGet, "/v1/charges", "", header{"Authorization": authorization}).want(want)
		if !strings.HasPrefix(got.header.Get("Request-Id"), "req_") || got.header.Get("Stripe-Version") != apiVersion {
			t.Errorf("%q: headers %v", authorization, got.header)
		}
	}
}

func TestAccountsSeeTheirOwnObjects(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	id := p.charged()
	own := header{"Stripe-Account": ""}
	p.send(http.MethodGet, "/v1/payment_intents/"+id, "", own).want(http.StatusNotFound, "error.code",
		"resource_missing")
	made := p.send(http.MethodPost, "/v1/payment_intents", intentForm("pm_ok", "pay_2"), own).want(http.StatusOK)
	p.send(http.MethodPost, "/v1/payment_intents/"+made.text("id")+"/confirm", "", own).want(http.StatusOK)
	charges, _ := p.ledger()
	if charges[0].Account != "acct_1" || charges[1].Account != "default" {
		t.Errorf("ledger %+v", charges)
	}
	p.send(http.MethodGet, "/v1/charges", "", header{"Stripe-Account": "acme"}).want(http.StatusForbidden)
}

func TestBadParametersAreNamed(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	for form, param := range map[string]string{
		"amount=ten&currency=krw":               "amount",
		"amount=0&currency=krw":                 "amount",
		"amount=-1&currency=krw":                "amount",
		"amount=1000":                           "currency",
		"amount=1000&currency=KRW":              "currency",
		"amount=1001&currency=kwd":              "amount",
		"amount=1050&currency=isk":              "amount",
		"amount=1050&currency=ugx":              "amount",
		"amount=1000&currency=krw&color=red":    "color",
		"amount=1000&currency=krw&confirm=true": "confirm",
		"amount=1000&currency=krw&automatic_payment_methods[enabled]=perhaps": "automatic_payment_methods[enabled]",
		"amount=1000&currency=krw&metadata[a[b]]=1":                           "metadata[a[b]]",
		"amount=1&currency=krw&metadata[a]=" + long(501):                      "metadata[a]",
		"amount=1&currency=krw&metadata[" + long(41) + "]=1":                  "metadata[" + long(41) + "]",
	} {
		p.post("/v1/payment_intents", "", form).want(http.StatusBadRequest, "error.param", param,
			"error.type", "invalid_request_error")
	}
	p.post("/v1/payment_intents", "", long(maxBodyBytes+1)).want(http.StatusRequestEntityTooLarge)
	p.get("/v1/nonsense").want(http.StatusNotFound)
	for _, form := range []string{"amount=1010&currency=kwd", "amount=1100&currency=ugx", "amount=70&currency=jpy"} {
		p.post("/v1/payment_intents", "", form+"&automatic_payment_methods[enabled]=true").want(http.StatusOK)
	}
}

func long(n int) string { return strings.Repeat("x", n) }

func TestWhatStripeDoesNotTakeIsRefusedBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	for form, code := range map[string]string{
		"amount=49&currency=usd":                                     "amount_too_small",
		"amount=29&currency=gbp":                                     "amount_too_small",
		"amount=50&currency=usd&payment_method=pm_nobody":            "resource_missing",
		"amount=50&currency=usd&payment_method=pm_wrong_id":          "resource_missing", // of the other dialect
		"amount=50&currency=usd&payment_method=pm_" + long(23):       "resource_missing",
		"amount=50&currency=usd&payment_method=pm_" + long(25):       "resource_missing",
		"amount=50&currency=usd&payment_method=pm_card_":             "resource_missing",
		"amount=50&currency=usd&payment_method=pm_card_visa&x=y":     "parameter_unknown",
		"amount=50&currency=usd&payment_method=tok_" + long(24):      "resource_missing",
		"amount=50&currency=usd&payment_method=pm_" + long(24) + " ": "resource_missing",
	} {
		p.post("/v1/payment_intents", "", form).want(http.StatusBadRequest, "error.code", code)
	}
	if made := p.data("/v1/payment_intents"); len(made) != 0 {
		t.Errorf("made %v", made)
	}
	for _, form := range []string{
		"amount=50&currency=usd", "amount=30&currency=gbp", "amount=1&currency=krw",
		"amount=50&currency=usd&payment_method=pm_card_visa",
		"amount=50&currency=usd&payment_method=pm_" + long(24),
	} {
		p.post("/v1/payment_intents", "", form).want(http.StatusOK)
	}
	id := p.intent("pm_declined")
	p.post("/v1/payment_intents/"+id+"/confirm", "", "payment_method=pm_nobody").want(http.StatusBadRequest,
		"error.code", "resource_missing", "error.param", "payment_method")
	p.wantCharges(0)
}
