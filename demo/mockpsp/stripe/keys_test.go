package stripe

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"payonce/test/wait"
)

func TestARepeatIsAnsweredFromMemory(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	first := p.post("/v1/payment_intents", "create", intentForm("pm_ok", "pay_1")).want(http.StatusOK)
	p.confirm(first.text("id"), "confirm").want(http.StatusOK, "status", "succeeded")
	again := p.post("/v1/payment_intents", "create", intentForm("pm_ok", "pay_1")).want(http.StatusOK,
		"status", "requires_confirmation") // as it was answered first, whatever came after
	if again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" ||
		again.header.Get("Original-Request") != first.header.Get("Request-Id") {
		t.Errorf("the repeat is %v %s", again.header, again.body)
	}
	if first.header.Get("Idempotent-Replayed") != "" {
		t.Error("the first answer says that it is a repeat")
	}
}

func TestOtherParametersUnderAKeyAreRefused(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	id := p.post("/v1/payment_intents", "key", intentForm("pm_ok", "pay_1")).want(http.StatusOK).text("id")
	for path, form := range map[string]string{
		"/v1/payment_intents":                    intentForm("pm_ok", "pay_2"),
		"/v1/payment_intents/" + id + "/confirm": "",
	} {
		p.post(path, "key", form).want(http.StatusBadRequest, "error.type", "idempotency_error")
	}
	p.wantCharges(0)
}

func TestKeysOfAnotherAccountAreOtherKeys(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	first := p.post("/v1/payment_intents", "key", intentForm("pm_ok", "pay_1")).want(http.StatusOK)
	other := p.send(http.MethodPost, "/v1/payment_intents", intentForm("pm_ok", "pay_1"),
		header{"Idempotency-Key": "key", "Stripe-Account": "acct_2"}).want(http.StatusOK)
	if first.text("id") == other.text("id") {
		t.Error("two accounts share an intent")
	}
}

func TestWhatIsRefusedBeforeExecutionUsesNoKey(t *testing.T) {
	t.Parallel()
	p := setup(t, withFile(t))
	p.post("/v1/payment_intents", "key", "currency=krw").want(http.StatusBadRequest, "error.code", "parameter_missing",
		"error.param", "amount")
	p.post("/v1/payment_intents", "key", intentForm("pm_ok", "pay_1")).want(http.StatusOK)

	// The refusals are counted over a restart.
	limited := p.intent("pm_rate_limited")
	for range 2 {
		p.confirm(limited, "limited").want(http.StatusTooManyRequests, "error.code", "rate_limit")
		p = p.restart()
	}
	p.confirm(limited, "limited").want(http.StatusOK, "status", "succeeded")

	locked := p.post("/v1/payment_intents", "", intentForm("pm_conflict", "pay_2")).want(http.StatusOK).text("id")
	p.confirm(locked, "locked").want(http.StatusTooManyRequests, "error.code", "lock_timeout")
	p = p.restart()
	p.confirm(locked, "locked").want(http.StatusOK, "status", "succeeded")
	p.wantCharges(2)
}

func TestAKeyIsAtMost255Characters(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.post("/v1/payment_intents", strings.Repeat("k", 256), intentForm("pm_ok", "pay_1")).want(http.StatusBadRequest)
	p.post("/v1/payment_intents", strings.Repeat("k", 255), intentForm("pm_ok", "pay_1")).want(http.StatusOK)
}

func TestAKeyThatIsBeingExecutedIsInUse(t *testing.T) {
	t.Parallel()
	p := setup(t, func(b *bundle) { b.psp.HangLimit = time.Hour })
	id := p.intent("pm_timeout_charged")
	ended := make(chan result)
	go func() { ended <- p.confirm(id, "confirm") }()
	wait.Until(t, "the intent is charged", func() bool { return p.status(id) == "succeeded" })
	p.confirm(id, "confirm").want(http.StatusConflict, "error.code", "idempotency_key_in_use")
	p.stop()
	(<-ended).wantLost()
}

func TestAForgottenKeyIsExecutedOnceMore(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	first := p.post("/v1/payment_intents", "key", intentForm("pm_ok", "pay_1")).want(http.StatusOK)
	p.back(http.MethodDelete, "/_keys?account=acct_1", "").want(http.StatusOK)
	again := p.post("/v1/payment_intents", "key", intentForm("pm_ok", "pay_1")).want(http.StatusOK)
	if again.text("id") == first.text("id") {
		t.Error("the key was not forgotten")
	}
	p.faults(`{"stripe":{"key_forgotten":1}}`)
	third := p.post("/v1/payment_intents", "key-3", intentForm("pm_ok", "pay_1")).want(http.StatusOK)
	fourth := p.post("/v1/payment_intents", "key-3", intentForm("pm_ok", "pay_1")).want(http.StatusOK)
	if third.text("id") == fourth.text("id") {
		t.Error("the rate forgot nothing")
	}
}

func TestKeysAreRememberedForAsLongAsIsSaid(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	clock := func(b *bundle) { b.psp.Now = func() time.Time { return now } }
	p := setup(t, func(b *bundle) { clock(b); withFile(t)(b) })
	first := p.post("/v1/payment_intents", "key", intentForm("pm_ok", "pay_1")).want(http.StatusOK).text("id")
	now = now.Add(24*time.Hour - time.Second)
	p = p.restart()
	p.post("/v1/payment_intents", "key", intentForm("pm_ok", "pay_1")).want(http.StatusOK, "id", first)
	now = now.Add(time.Second + time.Millisecond)
	if p.post("/v1/payment_intents", "key", intentForm("pm_ok", "pay_1")).want(http.StatusOK).text("id") == first {
		t.Error("the key is remembered for too long")
	}
}

func TestACreationThatIsLostOrFailsIsSavedUnderItsKey(t *testing.T) {
	t.Parallel()
	p := setup(t, withFile(t))
	lost := intentForm("pm_create_lost", "pay_1")
	p.post("/v1/payment_intents", "lost", lost).wantLost()
	p.post("/v1/payment_intents", "lost", lost).want(http.StatusOK, "status", "requires_confirmation")
	if all := p.data("/v1/payment_intents"); len(all) != 1 {
		t.Errorf("%d intents", len(all))
	}
	broken := intentForm("pm_create_500", "pay_2")
	p.post("/v1/payment_intents", "500", broken).want(http.StatusInternalServerError)
	p = p.restart()
	p.post("/v1/payment_intents", "500", broken).want(http.StatusInternalServerError)
	p.post("/v1/payment_intents", "another", broken).want(http.StatusOK)
	if all := p.data("/v1/payment_intents"); len(all) != 2 {
		t.Errorf("%d intents", len(all))
	}
}
