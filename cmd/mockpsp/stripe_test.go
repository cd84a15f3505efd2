package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"payonce/demo/mockpsp/stripe"
)

func TestTheStripeDialectSharesTheLedger(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // an address that is free
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_ = listener.Close()
	running := start(t, environment(t, map[string]string{"MOCKPSP_STRIPE_ADDR": addr}))
	intents := "http://" + addr + "/v1/payment_intents"
	made := postForm(t, intents, "amount=1000&currency=krw&payment_method=pm_ok&metadata[reference]=pay_1")
	postForm(t, intents+"/"+made.ID+"/confirm", "")
	if got := ledger(t, running.url); !strings.Contains(got, `"reference":"pay_1"`) {
		t.Errorf("ledger: %s", got)
	}
	running.end(t)
}

func postForm(t *testing.T, url, form string) (made struct{ ID string }) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+stripe.DemoSecret)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	err = json.UnmarshalRead(response.Body, &made, json.MatchCaseInsensitiveNames(true))
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("answered %d, %v", response.StatusCode, err)
	}
	return made
}

func TestBadStripeSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"MOCKPSP_STRIPE_ADDR": "nowhere", "MOCKPSP_STRIPE_SECRET": "secret",
		"MOCKPSP_STRIPE_ACTION_DELAY": "-1s", "MOCKPSP_STRIPE_API_VERSION": "2020-08-27",
		"MOCKPSP_STRIPE_WEBHOOK_URL": "localhost", "MOCKPSP_STRIPE_WEBHOOK_SECRETS": "secret",
	} {
		set := map[string]string{
			"MOCKPSP_STRIPE_ADDR": "127.0.0.1:0", "MOCKPSP_STRIPE_WEBHOOK_URL": "http://127.0.0.1:1",
		}
		set[name] = value
		if err := run(t.Context(), nil, environment(t, set), io.Discard); err == nil {
			t.Errorf("%s=%s is taken", name, value)
		}
	}
}
