package stripe

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stripe/stripe-go/v84"

	"payonce/internal/gateway"
)

func eventOf(kind, object string) string {
	return fmt.Sprintf(`{"id":"evt_1","object":"event","type":%q,"account":"acct_canary","data":{"object":%s}}`, kind,
		object)
}

func TestEventOfAMovementOfOursMoves(t *testing.T) {
	t.Parallel()
	charge := gateway.Record{
		Object: gateway.ChargeObject, ID: "pi_1", Account: "acct_canary", Key: key, Reference: "pay_canary",
		AmountMinor: 12000,
		Currency:    "USD", Status: "succeeded", Created: today(),
	}
	refusal := charge
	refusal.Status, refusal.DeclineCode = "declined", "insufficient_funds"
	back := gateway.Record{
		Object: gateway.RefundObject, ID: "re_1", Account: "acct_canary", Key: key, Reference: "re_canary",
		ChargeID:    "pi_1",
		AmountMinor: 500, Currency: "USD", Status: "succeeded", Created: today(),
	}
	for kind, row := range map[string]struct {
		object string
		want   gateway.Record
	}{
		"payment_intent.succeeded":      {intentIs("succeeded"), charge},
		"payment_intent.payment_failed": {intentIs("declined"), refusal},
		"refund.created":                {refundIs("succeeded"), back},
		"refund.updated":                {refundIs("succeeded"), back},
		"charge.refund.updated":         {refundIs("succeeded"), back},
	} {
		e, err := parseEvent([]byte(eventOf(kind, row.object)), "")
		if diff := cmp.Diff(gateway.Event(gateway.Moved{Type: kind, Record: row.want}), e); err != nil || diff != "" {
			t.Errorf("%s: %v, event differs (-want +got):\n%s", kind, err, diff)
		}
	}
	e, err := parseEvent([]byte(replace(eventOf("payment_intent.succeeded", intentIs("succeeded")),
		`"account":"acct_canary",`, ``)), "")
	if moved, is := e.(gateway.Moved); err != nil || !is || moved.Record.Account != DefaultAccount {
		t.Errorf("without an account: %+v, %v", e, err)
	}
	if moved, err := parseEvent([]byte(eventOf("refund.failed", refundIs("failed"))), ""); err != nil ||
		moved.(gateway.Moved).Record.DeclineCode != "failed" {
		t.Errorf("refund.failed: %+v, %v", moved, err)
	}
}

func TestEventOfNothingOfOursIsIgnored(t *testing.T) {
	t.Parallel()
	foreign := replace(intentIs("succeeded"), `"origin":"payonce"`, `"origin":"shop"`)
	for name, body := range map[string]string{
		"another type":           eventOf("payout.paid", `{}`),
		"a charge":               eventOf("charge.succeeded", `{"metadata":1}`),
		"cancelled":              eventOf("payment_intent.canceled", intentIs("canceled")),
		"a foreign intent":       eventOf("payment_intent.succeeded", foreign),
		"a refunded charge":      eventOf("charge.refunded", chargeIs(1, "succeeded", 1795176000)),
		"a dispute of no intent": eventOf("charge.dispute.created", replace(disputeIs("lost"), `"pi_1"`, `null`)),
		"a refund of no intent":  eventOf("refund.updated", replace(refundIs("succeeded"), `"pi_1"`, `null`)),
		"a pending refund":       eventOf("refund.created", refundIs("pending")),
	} {
		e, err := parseEvent([]byte(body), "")
		if ignored, is := e.(gateway.Ignored); err != nil || !is || ignored.Reason == "" || ignored.Type == "" {
			t.Errorf("%s: %T %+v, %v", name, e, e, err)
		}
	}
}

func TestMalformedEventOfOursIsRefusedAndNotRepeated(t *testing.T) {
	t.Parallel()
	good := eventOf("payment_intent.succeeded", intentIs("succeeded"))
	for name, body := range map[string]string{
		"no JSON": "canary", "no event": replace(good, `"object":"event"`, `"object":"canary"`),
		"no type":      replace(good, `"type"`, `"canary"`),
		"a name twice": replace(good, `"type"`, `"type":"canary","type"`),
		"no object":    eventOf("payment_intent.succeeded", "null"),
		"another object, else the same": eventOf("payment_intent.succeeded", replace(intentIs("succeeded"),
			`"object":"payment_intent"`, `"object":"canary"`)),
		"another object": eventOf("payment_intent.succeeded", refundIs("succeeded")),
		"another status": replace(good, `"status":"succeeded"`, `"status":"processing"`),
		"no amount":      replace(good, `"amount_received":12000,`, ``), "capitals": replace(good, `"usd"`, `"USD"`),
		"an error that is text, behind all else": replace(replace(good, `"last_payment_error":null,`, ``),
			`"status":"succeeded"`, `"status":"succeeded","last_payment_error":"canary"`),
		"no time": replace(good, `"created":1795176000`, `"created":-1`), "an account": replace(good, `acct_canary`,
			``)[:20],
		"another status of a refund": eventOf("refund.updated", refundIs("canary")),
		"a dispute that is none":     eventOf("charge.dispute.created", refundIs("succeeded")),
		"no amount of a dispute": eventOf("charge.dispute.created", replace(disputeIs("lost"), `"amount":12000,`,
			``)),
		"no amount of a refund": eventOf("refund.updated", replace(refundIs("succeeded"), `"amount":500,`, ``)),
	} {
		e, err := parseEvent([]byte(body), "")
		if !errors.Is(err, gateway.ErrPayload) || e != nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

// Stripe's own library reads the same in the objects of these tests. So the names of their members are Stripe's.
func TestObjectsAreThoseOfStripesLibrary(t *testing.T) {
	t.Parallel()
	var pi stripe.PaymentIntent
	var re stripe.Refund
	var ch stripe.Charge
	var bt stripe.BalanceTransaction
	var e stripe.Event
	var failed stripe.PaymentIntent
	for object, into := range map[string]any{
		intentIs("succeeded"): &pi, refundIs("succeeded"): &re, chargeIs(1, "failed", 1795176000): &ch,
		bookIs("charge", 1795176000, chargeIs(1, "succeeded", 1795176000)): &bt, intentIs("declined"): &failed,
		eventOf("refund.updated", refundIs("succeeded")): &e,
	} {
		if err := json.Unmarshal([]byte(object), into); err != nil {
			t.Fatal(err)
		}
	}
	if pi.AmountReceived != 12000 || pi.Metadata[keyMark] != key || pi.Status != stripe.PaymentIntentStatusSucceeded ||
		failed.LastPaymentError.DeclineCode != "insufficient_funds" || failed.LastPaymentError.Code != "card_declined" {
		t.Errorf("intent %+v", pi)
	}
	if re.PaymentIntent.ID != "pi_1" || re.Amount != 500 || re.Status != stripe.RefundStatusSucceeded {
		t.Errorf("refund %+v", re)
	}
	if ch.PaymentIntent.ID != "pi_c1" || ch.Outcome.Reason != "insufficient_funds" ||
		ch.FailureCode != "card_declined" || ch.Captured {
		t.Errorf("charge %+v", ch)
	}
	if bt.Type != stripe.BalanceTransactionTypeCharge || bt.Source.Charge.AmountCaptured != 700 ||
		!bt.Source.Charge.Captured {
		t.Errorf("balance transaction %+v", bt)
	}
	if e.Account != "acct_canary" || e.Type != stripe.EventTypeRefundUpdated || stripe.APIVersion != apiVersion {
		t.Errorf("event %+v", e)
	}
}
