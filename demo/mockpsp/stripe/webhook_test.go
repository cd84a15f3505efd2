package stripe

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"payonce/test/wait"

	"github.com/go-json-experiment/json"
)

type arrival struct {
	signature string
	body      string
	event     object
}

// verify checks the signature as Stripe's documents say.
func (a arrival) verify(secret string) bool {
	timestamp, signatures := "", []string{}
	for pair := range strings.SplitSeq(a.signature, ",") {
		name, value, _ := strings.Cut(pair, "=")
		switch name {
		case "t":
			timestamp = value
		case "v1":
			signatures = append(signatures, value)
		}
	}
	return slices.Contains(signatures, signature(secret, timestamp, []byte(a.body)))
}

// receiver answers the events with a status.
func receiver(t *testing.T, answer func(arrival) int) (url string, arrived <-chan arrival) {
	t.Helper()
	came := make(chan arrival, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		a := arrival{signature: r.Header.Get("Stripe-Signature"), body: string(body)}
		_ = json.Unmarshal(body, &a.event)
		came <- a
		w.WriteHeader(answer(a))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/webhooks/stripe", came
}

func accept(arrival) int { return http.StatusOK }

func told(url string) func(*bundle) {
	return func(b *bundle) {
		b.stripe.WebhookURL = url
		b.psp.WebhookDelay, b.psp.WebhookSchedule = 0, []time.Duration{time.Millisecond, time.Millisecond}
	}
}

func TestEventsAreSentAndSigned(t *testing.T) {
	t.Parallel()
	url, arrived := receiver(t, accept)
	p := setup(t, func(b *bundle) {
		told(url)(b)
		b.stripe.WebhookSecrets = []string{"whsec_old", "whsec_new"}
	})
	id := p.charged()
	kinds := map[any]bool{}
	for range 3 {
		a := wait.For(t, "an event", arrived)
		if !a.verify("whsec_old") || !a.verify("whsec_new") || a.verify("whsec_other") {
			t.Errorf("signature %s", a.signature)
		}
		if a.event["object"] != "event" || a.event["account"] != "acct_1" || a.event["livemode"] != false {
			t.Errorf("event %s", a.body)
		}
		kinds[a.event["type"]] = true
	}
	if !kinds["payment_intent.created"] || !kinds["charge.succeeded"] || !kinds["payment_intent.succeeded"] {
		t.Errorf("events %v", kinds)
	}
	p.back(http.MethodPost, "/_webhooks/"+id, "").want(http.StatusOK)
	if a := wait.For(t, "an event", arrived); a.event["type"] != "payment_intent.succeeded" {
		t.Errorf("by hand: %s", a.body)
	}
	printed := p.back(http.MethodGet, "/_webhooks/"+id, "").want(http.StatusOK)
	if !strings.Contains(printed.body, "stripe-signature: t=") {
		t.Errorf("printed: %s", printed.body)
	}
}

func TestAnEventIsTriedAgainWithTheSameBytes(t *testing.T) {
	t.Parallel()
	tries := 0
	url, arrived := receiver(t, func(arrival) int {
		if tries++; tries == 1 {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	p := setup(t, told(url))
	p.intent("pm_ok")
	first, second := wait.For(t, "an event", arrived), wait.For(t, "an event", arrived)
	if first.body != second.body {
		t.Errorf("%s, and then %s", first.body, second.body)
	}
}

func TestSilentAndStuckChargesSendNoEvent(t *testing.T) {
	t.Parallel()
	url, arrived := receiver(t, accept)
	p := setup(t, told(url))
	for i, method := range []string{"pm_silent_charged", "pm_stuck"} {
		id := p.intent(method)
		p.confirm(id, fmt.Sprint("key-", i)).wantLost()
	}
	p.post("/v1/payment_intents", "", "amount=1000&currency=krw&description=last").want(http.StatusOK)
	for {
		a := wait.For(t, "an event", arrived)
		if a.event["type"] != "payment_intent.created" {
			t.Errorf("event %s", a.body)
		}
		if at(a.event, "data.object.description") == "last" {
			break
		}
	}
}

func TestDisordersReachTheEvents(t *testing.T) {
	t.Parallel()
	url, arrived := receiver(t, accept)
	p := setup(t, told(url))
	p.faults(`{"webhooks":{"forge":1,"duplicate":1}}`)
	p.intent("pm_ok")
	good, bad := 0, 0
	for range 3 {
		if wait.For(t, "an event", arrived).verify(DemoWebhookSecret) {
			good++
		} else {
			bad++
		}
	}
	if good != 2 || bad != 1 {
		t.Errorf("%d good and %d forged ones", good, bad)
	}
}

func TestDoubleAndUnknownEvents(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.faults(`{"stripe":{"double_events":1,"unknown_events":1}}`)
	id := p.intent("pm_ok")
	all := p.events()
	if len(all) != 3 || all[0]["type"] != all[1]["type"] || all[0]["id"] == all[1]["id"] ||
		at(all[1], "data.object.id") != id || strings.HasPrefix(fmt.Sprint(all[2]["type"]), "payment_intent") {
		t.Errorf("events %v", all)
	}
}
