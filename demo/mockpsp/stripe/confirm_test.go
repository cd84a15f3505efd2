package stripe

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payonce/demo/mockpsp"
)

func TestAnIntentMovesNoMoneyUntilItIsConfirmed(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	made := p.post("/v1/payment_intents", "create", intentForm("pm_card_visa", "pay_1")).want(http.StatusOK,
		"object", "payment_intent", "status", "requires_confirmation", "currency", "krw",
		"payment_method", "pm_card_visa", "metadata.reference", "pay_1")
	p.wantCharges(0)
	id := made.text("id")
	done := p.confirm(id, "confirm").want(http.StatusOK, "status", "succeeded", "id", id)
	charges, _ := p.ledger()
	want := mockpsp.Movement{
		ID: id, Object: "charge", Account: "acct_1", IdempotencyKey: "key-of-pay_1", Reference: "pay_1",
		AmountCents: 1000, Currency: "KRW", PaymentMethod: "pm_card_visa", Status: "succeeded",
	}
	charges[0].CreatedAt = ""
	if diff := cmp.Diff([]mockpsp.Movement{want}, charges); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	p.one("/v1/charges", done.text("latest_charge")).want(http.StatusOK, "payment_intent", id, "status", "succeeded",
		"metadata.reference", "pay_1", "metadata.idempotency_key", "key-of-pay_1")
	if got := p.types(); !slices.Equal(got,
		[]string{"payment_intent.created", "charge.succeeded", "payment_intent.succeeded"}) {
		t.Errorf("events %v", got)
	}
}

func TestADeclineIsAnErrorAndAFailedCharge(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	id := p.intent("pm_declined")
	refused := p.confirm(id, "confirm").want(http.StatusPaymentRequired, "error.type", "card_error",
		"error.code", "card_declined", "error.decline_code", "insufficient_funds",
		"error.payment_intent.status", "requires_payment_method",
		"error.payment_intent.last_payment_error.code", "card_declined")
	p.one("/v1/charges", refused.text("error.charge")).want(http.StatusOK, "status", "failed",
		"failure_code", "card_declined")
	charges, _ := p.ledger()
	if len(charges) != 1 || charges[0].Status != "declined" || charges[0].ID != id {
		t.Errorf("ledger: %+v", charges)
	}
	p.post("/v1/payment_intents/"+id+"/confirm", "again", "payment_method=pm_ok").want(http.StatusOK,
		"status", "succeeded")
}

func TestChargedWithoutAnAnswerIsChargedOnce(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"pm_timeout_charged", "pm_silent_charged", "pm_reset_charged"} {
		p := setup(t, nil)
		id := p.intent(method)
		p.confirm(id, "confirm").wantLost()
		p.confirm(id, "confirm").want(http.StatusOK, "status", "succeeded")
		p.wantCharges(1)
	}
}

func TestASaved500Replays(t *testing.T) {
	t.Parallel()
	for method, charged := range map[string]int{"pm_500_charged": 1, "pm_500_not_charged": 0} {
		p := setup(t, nil)
		id := p.intent(method)
		first := p.confirm(id, "confirm").want(http.StatusInternalServerError, "error.type", "api_error")
		again := p.confirm(id, "confirm").want(http.StatusInternalServerError)
		if again.header.Get("Idempotent-Replayed") != "true" || again.body != first.body {
			t.Errorf("%s: the repeat is %v %s", method, again.header, again.body)
		}
		p.wantCharges(charged)
		if charged == 0 {
			p.confirm(id, "another").want(http.StatusOK, "status", "succeeded")
			p.wantCharges(1)
		}
	}
}

func TestNotChargedStrikesTheFirstAttemptOfAReferenceOnly(t *testing.T) {
	t.Parallel()
	p := setup(t, withFile(t))
	first := p.intent("pm_timeout_not_charged")
	p.confirm(first, "confirm-1").wantLost()
	p.wantCharges(0)
	p.cancel(first, "cancel-1").want(http.StatusOK, "status", "canceled")
	p = p.restart()
	second := p.intent("pm_timeout_not_charged") // of the same reference
	p.confirm(second, "confirm-2").want(http.StatusOK, "status", "succeeded")
	p.wantCharges(1)
}

func TestNeverIsNeverCharged(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	id := p.intent("pm_never")
	for range 3 {
		p.confirm(id, "confirm").wantLost()
	}
	p.wantCharges(0)
	p.cancel(id, "").want(http.StatusOK, "status", "canceled")
}

func TestStuckIsChargedAndCannotBeRead(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	id := p.intent("pm_stuck")
	p.confirm(id, "confirm").wantLost()
	p.confirm(id, "confirm").wantLost()
	p.wantCharges(1)
	p.get("/v1/payment_intents/"+id).want(http.StatusInternalServerError, "error.type", "api_error")
	p.cancel(id, "cancel").want(http.StatusInternalServerError)
	if all := p.data("/v1/payment_intents"); len(all) != 0 {
		t.Errorf("the list has %v", all)
	}
	if all := p.data("/v1/balance_transactions"); len(all) != 1 {
		t.Errorf("the balance has %v", all)
	}
}

func TestAWrongAmountIsChargedAndSaid(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	done := p.confirm(p.intent("pm_wrong_amount"), "").want(http.StatusOK, "status", "succeeded")
	if done.at("amount_received") != 1001.0 {
		t.Errorf("got %s", done.body)
	}
	if charges, _ := p.ledger(); charges[0].AmountCents != 1001 {
		t.Errorf("ledger: %+v", charges)
	}
}

func TestAnExecutedIntentCannotBeConfirmedAgain(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	id := p.charged()
	p.confirm(id, "again").want(http.StatusBadRequest, "error.code", "payment_intent_unexpected_state",
		"error.payment_intent.status", "succeeded")
	p.wantCharges(1)
}

func TestWithoutAPaymentMethodNothingIsConfirmed(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	made := p.post("/v1/payment_intents", "", "amount=1000&currency=krw").want(http.StatusOK,
		"status", "requires_payment_method")
	p.confirm(made.text("id"), "").want(http.StatusBadRequest, "error.code", "payment_intent_unexpected_state")
	p.wantCharges(0)
}

func TestConfirmationsOfOneIntentChargeOnce(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	id := p.intent("pm_ok")
	answers := make(chan result)
	const atOnce = 20
	for i := range atOnce {
		go func() { answers <- p.confirm(id, "key-"+strings.Repeat("x", i)) }()
	}
	won := 0
	for range atOnce {
		if answer := <-answers; answer.status == http.StatusOK {
			won++
		}
	}
	if won != 1 {
		t.Errorf("%d confirmations were executed", won)
	}
	p.wantCharges(1)
}
