package stripe

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"payonce/test/wait"
)

// soon lets what is due come at once.
func soon(b *bundle) {
	b.psp.LateDelay, b.stripe.ActionDelay = 20*time.Millisecond, 20*time.Millisecond
}

func TestACancellationBeatsALateConfirmation(t *testing.T) {
	t.Parallel()
	p := setup(t, withFile(t))
	id := p.intent("pm_late_charge")
	p.confirm(id, "confirm").wantLost()
	p.confirm(id, "confirm").want(http.StatusConflict, "error.code", "idempotency_key_in_use")
	p.confirm(id, "another").want(http.StatusTooManyRequests, "error.code", "lock_timeout")
	p.cancel(id, "cancel").want(http.StatusOK, "status", "canceled", "cancellation_reason", "abandoned")
	p.confirm(id, "confirm").want(http.StatusBadRequest, "error.code", "payment_intent_unexpected_state")
	p = p.restart(soon)
	// Only the first confirmation of a payment is late.
	next := p.intent("pm_late_charge")
	p.confirm(next, "confirm-3").want(http.StatusOK, "status", "succeeded")
	other := p.post("/v1/payment_intents", "", intentForm("pm_late_charge", "pay_2")).want(http.StatusOK).text("id")
	p.confirm(other, "confirm-2").wantLost()
	wait.Until(t, "the other one lands", func() bool { return p.status(other) == "succeeded" })
	if got := p.status(id); got != "canceled" {
		t.Errorf("the canceled intent is %s", got)
	}
	p.wantCharges(2)
}

func TestALateConfirmationBeatsACancellation(t *testing.T) {
	t.Parallel()
	p := setup(t, soon)
	id := p.intent("pm_late_charge")
	p.confirm(id, "confirm").wantLost()
	wait.Until(t, "it lands", func() bool { return p.status(id) == "succeeded" })
	p.cancel(id, "cancel").want(http.StatusBadRequest, "error.code", "payment_intent_unexpected_state",
		"error.payment_intent.status", "succeeded", "error.payment_intent.id", id)
	p.confirm(id, "confirm").want(http.StatusOK, "status", "succeeded")
	p.wantCharges(1)
}

func TestCancellationsAndConfirmationsRaceToOneEnd(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	for range 20 {
		id := p.intent("pm_ok")
		ended := make(chan result, 2)
		go func() { ended <- p.confirm(id, "") }()
		go func() { ended <- p.cancel(id, "") }()
		first, second := <-ended, <-ended
		if (first.status == http.StatusOK) == (second.status == http.StatusOK) {
			t.Errorf("both ended with %d and %d", first.status, second.status)
		}
	}
	charges, _ := p.ledger()
	done := 0
	for _, i := range p.data("/v1/payment_intents?limit=100") {
		if i["status"] == "succeeded" {
			done++
		}
	}
	if done != len(charges) {
		t.Errorf("%d intents have succeeded, and %d were charged", done, len(charges))
	}
}

func TestALateConfirmationOutlivesAKill(t *testing.T) {
	t.Parallel()
	p := setup(t, withFile(t))
	id := p.intent("pm_late_charge")
	p.confirm(id, "confirm").wantLost()
	p = p.restart(func(b *bundle) { b.psp.Now = func() time.Time { return time.Now().Add(2 * time.Hour) } })
	wait.Until(t, "it lands", func() bool { return p.status(id) == "succeeded" })
	p.confirm(id, "confirm").want(http.StatusOK, "status", "succeeded")
	p.wantCharges(1)
}

func TestTheCustomerAuthenticatesAfterAWhile(t *testing.T) {
	t.Parallel()
	p := setup(t, soon)
	id := p.intent("pm_requires_action")
	p.confirm(id, "confirm").want(http.StatusOK, "status", "requires_action", "next_action.type", "redirect_to_url")
	wait.Until(t, "the customer has authenticated", func() bool { return p.status(id) == "succeeded" })
	p.wantCharges(1)
	if got := p.types(); !slices.Equal(got, []string{"payment_intent.created", "payment_intent.requires_action",
		"charge.succeeded", "payment_intent.succeeded"}) {
		t.Errorf("events %v", got)
	}
}

func TestACustomerWhoNeverAuthenticatesIsNeverCharged(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	for _, method := range []string{"pm_requires_action", "pm_requires_action_abandoned"} {
		id := p.intent(method)
		p.confirm(id, "").want(http.StatusOK, "status", "requires_action")
		p.cancel(id, "").want(http.StatusOK, "status", "canceled")
	}
	p.wantCharges(0)
}

func TestADebitClearsAfterAWhile(t *testing.T) {
	t.Parallel()
	p := setup(t, withFile(t))
	id := p.intent("pm_bank_debit")
	begun := p.confirm(id, "confirm").want(http.StatusOK, "status", "processing")
	chargeID := begun.text("latest_charge")
	p.one("/v1/charges", chargeID).want(http.StatusOK, "status", "pending")
	p.cancel(id, "cancel").want(http.StatusBadRequest, "error.code", "payment_intent_unexpected_state")
	p.wantCharges(0)
	p = p.restart(func(b *bundle) { b.psp.Now = func() time.Time { return time.Now().Add(2 * time.Hour) } })
	wait.Until(t, "the debit has cleared", func() bool { return p.status(id) == "succeeded" })
	p.one("/v1/charges", chargeID).want(http.StatusOK, "status", "succeeded")
	p.wantCharges(1)
	if booked := p.data("/v1/balance_transactions"); len(booked) != 1 || booked[0]["type"] != "payment" {
		t.Errorf("balance: %v", booked)
	}
}

func TestADebitThatFailsNeedsAnotherPaymentMethod(t *testing.T) {
	t.Parallel()
	p := setup(t, soon)
	id := p.intent("pm_bank_debit_fails")
	p.confirm(id, "confirm").want(http.StatusOK, "status", "processing")
	wait.Until(t, "the debit has failed", func() bool { return p.status(id) == "requires_payment_method" })
	if got := p.types(); got[len(got)-1] != "payment_intent.payment_failed" {
		t.Errorf("events %v", got)
	}
	if booked := p.data("/v1/balance_transactions"); len(booked) != 0 {
		t.Errorf("balance: %v", booked)
	}
}

// A timer that has begun when its intent is canceled, or confirmed in another way, finds that it is not due any more.
func TestWhatIsNotDueAnyMoreNeverHappens(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	dueOf := func(id string) *due {
		return p.dialect.store.newestIntent(p.dialect.store.intentSlot("acct_1", id)).Due
	}
	land := func(id string, d *due) {
		t.Helper()
		if err := p.dialect.land("acct_1", id, d); err != nil {
			t.Error(err)
		}
	}
	late := p.intent("pm_late_charge")
	p.confirm(late, "late").wantLost()
	lateDue := dueOf(late)
	p.cancel(late, "").want(http.StatusOK, "status", "canceled")
	land(late, lateDue)
	refused := p.confirm(late, "late").want(http.StatusBadRequest, "error.code", "payment_intent_unexpected_state")
	if refused.header.Get("Idempotent-Replayed") != "" {
		t.Error("the confirmation that was canceled has got a result")
	}

	abandoned := p.intent("pm_requires_action")
	p.confirm(abandoned, "").want(http.StatusOK, "status", "requires_action")
	abandonedDue := dueOf(abandoned)
	p.cancel(abandoned, "").want(http.StatusOK, "status", "canceled")
	land(abandoned, abandonedDue)

	other := p.intent("pm_requires_action")
	p.confirm(other, "").want(http.StatusOK, "status", "requires_action")
	otherDue := dueOf(other)
	p.post("/v1/payment_intents/"+other+"/confirm", "", "payment_method=pm_ok").want(http.StatusOK,
		"status", "succeeded")
	land(other, otherDue)
	p.wantCharges(1)
	for _, id := range []string{late, abandoned} {
		if got := p.status(id); got != "canceled" {
			t.Errorf("the canceled intent is %s", got)
		}
	}
}
