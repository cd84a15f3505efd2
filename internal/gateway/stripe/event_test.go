package stripe

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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
		e, err := here.parseEvent([]byte(eventOf(kind, row.object)), "")
		if diff := cmp.Diff(gateway.Event(gateway.Moved{Type: kind, Record: row.want}), e); err != nil || diff != "" {
			t.Errorf("%s: %v, event differs (-want +got):\n%s", kind, err, diff)
		}
	}
	e, err := here.parseEvent([]byte(replace(eventOf("payment_intent.succeeded", intentIs("succeeded")),
		`"account":"acct_canary",`, ``)), "")
	if moved, is := e.(gateway.Moved); err != nil || !is || moved.Record.Account != DefaultAccount {
		t.Errorf("without an account: %+v, %v", e, err)
	}
	if moved, err := here.parseEvent([]byte(eventOf("refund.failed", refundIs("failed"))), ""); err != nil ||
		moved.(gateway.Moved).Record.DeclineCode != "failed" {
		t.Errorf("refund.failed: %+v, %v", moved, err)
	}
}

func TestEventOfNothingOfOursIsIgnored(t *testing.T) {
	t.Parallel()
	foreign := replace(intentIs("succeeded"), `"origin":"payonce:here"`, `"origin":"shop"`)
	for name, body := range map[string]string{
		"another type":           eventOf("payout.paid", `{}`),
		"a charge":               eventOf("charge.succeeded", `{"metadata":1}`),
		"cancelled":              eventOf("payment_intent.canceled", intentIs("canceled")),
		"a foreign intent":       eventOf("payment_intent.succeeded", foreign),
		"a refunded charge":      eventOf("charge.refunded", chargeIs(1, "succeeded", 1795176000)),
		"a dispute of no intent": eventOf("charge.dispute.created", replace(disputeIs("lost"), `"pi_1"`, `null`)),
		"a refund of no intent":  eventOf("refund.updated", replace(refundIs("succeeded"), `"pi_1"`, `null`)),
		"a pending refund":       eventOf("refund.created", refundIs("pending")),
		// It has no object in it (https://docs.stripe.com/event-destinations#thin-events).
		"a thin event": `{"id":"evt_test_1","object":"v2.core.event","type":"v1.billing.meter.error_report_triggered",` +
			`"livemode":false,"created":"2026-11-20T09:30:00.000Z","reason":null,"related_object":{"id":"mtr_1",` +
			`"type":"billing.meter","url":"/v1/billing/meters/mtr_1"}}`,
	} {
		e, err := here.parseEvent([]byte(body), "")
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
		e, err := here.parseEvent([]byte(body), "")
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

// In test mode, a connected account can pay itself with a card that moves no money, under any metadata. Stripe sends
// such an event to the endpoint of the live mode, too.
func TestEventOfTheOtherModeMovesNothing(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		secret, livemode string
		moves            bool
	}{
		{"sk_live_canary", "true", true}, {"sk_live_canary", "false", false},
		{"rk_live_canary", "true", true}, {"rk_live_canary", "false", false},
		{"sk_test_canary", "false", true}, {"sk_test_canary", "true", false},
		{"rk_test_canary", "false", true}, {"rk_test_canary", "true", false},
	} {
		c := newClient(t, "http://psp.test", func(c *Config) { c.Secret = row.secret })
		for kind, object := range map[string]string{
			"payment_intent.succeeded": intentIs("succeeded"), "payment_intent.payment_failed": intentIs("declined"),
			"refund.updated": refundIs("succeeded"),
		} {
			body := replace(eventOf(kind, object), `"object":"event"`, `"object":"event","livemode":`+row.livemode)
			e, err := c.ParseEvent([]byte(body))
			if _, moves := e.(gateway.Moved); err != nil || moves != row.moves {
				t.Errorf("%s, livemode %s, by %s: %+v, %v", kind, row.livemode, row.secret, e, err)
			}
		}
	}
}

// The events of the other mode could not be told from ours. That must not go unnoticed.
func TestSecretThatDoesNotTellItsModeIsRefused(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"sk_canary", "canary", "sk_canary_live", "sk_live", "sk_LIVE_canary"} {
		c, err := New(Config{URL: "http://psp.test", Secret: secret, Limits: gateway.DefaultLimits(), Now: today})
		if err == nil {
			c.Close()
			t.Errorf("%s is taken", secret)
		} else if strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", secret, err)
		}
	}
}

// With a client secret, a browser could pay.
func TestClientSecretIsNeverKept(t *testing.T) {
	t.Parallel()
	const address = "https://hooks.stripe.com/3ds?payment_intent_client_secret"
	for raw, want := range map[string]string{
		`{"client_secret" : "pi_1_secret_canary"}`:  `{"client_secret" : "redacted"}`,
		`{"client_secret":"a \" b"}`:                `{"client_secret":"redacted"}`,
		address + `=pi_3A_secret_canary&x=1`:        address + `=pi_3A_secret_redacted&x=1`,
		address + `%3Dpi_3A_secret_canary%26`:       address + `%3Dpi_3A_secret_redacted%26`,
		`"seti_1_secret_canary"`:                    `"seti_1_secret_redacted"`,
		`"?client_secret=src_client_secret_canary"`: `"?client_secret=src_client_secret_redacted"`,
		`{"id":"pi_1","type":"payment_intent"}`:     `{"id":"pi_1","type":"payment_intent"}`,
	} {
		if got := string(redacted([]byte(raw))); got != want {
			t.Errorf("%s is kept as %s", raw, got)
		}
	}
}

// A client chooses its key, and may choose one that looks like a secret. The stored event must still name that key:
// otherwise each event of the payment contradicts the payment.
func TestKeyThatLooksLikeASecretIsKept(t *testing.T) {
	t.Parallel()
	c := newClient(t, "http://psp.test")
	ch := aCharge()
	for _, ch.Key = range []string{
		"pi_3A_secret_0123456789", "a?client_secret=seti_1_secret_9", `a"client_secret":"src_1_secret_2`,
	} {
		quoted, err := json.Marshal(ch.Key)
		if err != nil {
			t.Fatal(err)
		}
		intent := replace(intentIs("succeeded"), `"`+key+`"`, string(quoted))
		stored := c.Traits().Redacted([]byte(eventOf("payment_intent.succeeded", intent)))
		if strings.Contains(string(stored), "pi_1_secret_canary") {
			t.Errorf("stored is %s", stored)
		}
		e, err := c.ParseEvent(stored)
		moved, is := e.(gateway.Moved)
		if !is || ch.Judge(moved.Record) != gateway.Outcome(gateway.Succeeded{ID: "pi_1"}) {
			t.Errorf("key %s: %+v, %v", ch.Key, e, err)
		}
	}
}

// byOthers is a record of what another program, or a bank, has done to the charge of aCharge.
func byOthers(o gateway.Object, id string, amount int64, status string) gateway.Record {
	r := gateway.Record{Object: o, ID: id, Account: "acct_canary", ChargeID: "pi_1", AmountMinor: amount,
		Currency: "USD", Status: status, Created: today()}
	if o == gateway.RefundObject && status == gateway.StatusDeclined {
		r.DeclineCode = "failed"
	}
	return r
}

// Whose the intent is, only the caller knows. So each refund and each dispute of an intent is a record.
func TestEventOfWhatOthersHaveDoneMoves(t *testing.T) {
	t.Parallel()
	refund := func(status string) gateway.Record { return byOthers(gateway.RefundObject, "re_1", 500, status) }
	dispute := func(status gateway.DisputeStatus) gateway.Record {
		r := byOthers(gateway.DisputeObject, "du_1", 12000, status.Record())
		r.Dispute = gateway.Dispute{Status: status, Reason: "fraudulent", EvidenceDueBy: time.Unix(1796000000, 0).UTC()}
		return r
	}
	for name, row := range map[string]struct {
		kind, object string
		want         gateway.Record
	}{
		"refunded":    {"refund.created", unmarked(refundIs("succeeded")), refund("succeeded")},
		"on its way":  {"refund.created", unmarked(refundIs("pending")), refund("pending")},
		"new status":  {"refund.updated", unmarked(refundIs("resting")), refund("pending")},
		"came back":   {"refund.failed", unmarked(refundIs("failed")), refund("declined")},
		"in old form": {"charge.refund.updated", unmarked(refundIs("succeeded")), refund("succeeded")},
		"opened":      {"charge.dispute.created", disputeIs("needs_response"), dispute(gateway.NeedsResponse)},
		"withdrawn":   {"charge.dispute.funds_withdrawn", disputeIs("under_review"), dispute(gateway.UnderReview)},
		"asked":       {"charge.dispute.created", disputeIs("warning_needs_response"), dispute(gateway.Inquiry)},
		"asks still":  {"charge.dispute.updated", disputeIs("warning_under_review"), dispute(gateway.Inquiry)},
		"not pursued": {"charge.dispute.closed", disputeIs("warning_closed"), dispute(gateway.Closed)},
		"prevented":   {"charge.dispute.closed", disputeIs("prevented"), dispute(gateway.Closed)},
		"won":         {"charge.dispute.closed", disputeIs("won"), dispute(gateway.Won)},
		"lost":        {"charge.dispute.closed", disputeIs("lost"), dispute(gateway.Lost)},
		"reinstated":  {"charge.dispute.funds_reinstated", disputeIs("under_review"), dispute(gateway.UnderReview)},
		"unknown":     {"charge.dispute.updated", disputeIs("resting"), dispute(gateway.NeedsResponse)},
	} {
		e, err := here.parseEvent([]byte(eventOf(row.kind, row.object)), "")
		want := gateway.Event(gateway.Moved{Type: row.kind, Record: row.want})
		if diff := cmp.Diff(want, e); err != nil || diff != "" {
			t.Errorf("%s: %v, event differs (-want +got):\n%s", name, err, diff)
		}
	}
}

// A transaction that moves a customer's money is about its source. Any other one changes only the balance, whatever its
// source is.
func TestStatementHasWhatOthersHaveDone(t *testing.T) {
	t.Parallel()
	day := today().Truncate(24 * time.Hour).Add(-24 * time.Hour)
	at := day.Unix() + 100
	line := func(kind, category string, amount int, currency, source string) string {
		return fmt.Sprintf(`{"id":"txn_1","object":"balance_transaction","amount":%d,"currency":%q,"type":%q,`+
			`"reporting_category":%q,"created":%d,"source":%s}`, amount, currency, kind, category, at, source)
	}
	ch, payout := chargeIs(1, "succeeded", at), `{"id":"po_1","object":"payout"}`
	for name, row := range map[string]struct{ line, want string }{
		"a refund": {line("refund", "refund", -500, "usd", unmarked(refundIs("succeeded"))),
			"refund re_1 of pi_1: 500 succeeded"},
		"a refund that came back": {line("refund_failure", "refund_failure", 500, "usd", unmarked(refundIs("failed"))),
			"refund re_1 of pi_1: 500 declined"},
		"the same as an adjustment": {line("adjustment", "refund_failure", 500, "usd", unmarked(refundIs("failed"))),
			"refund re_1 of pi_1: 500 declined"},
		"a dispute": {line("adjustment", "dispute", -12000, "eur", disputeIs("needs_response")),
			"dispute du_1 of pi_1: 12000 pending"},
		"a dispute that was won": {line("adjustment", "dispute_reversal", 12000, "eur", disputeIs("won")),
			"dispute du_1 of pi_1: 12000 declined"},
		"a debit that the bank took back": {line("payment_failure_refund", "charge_failure", -650, "usd", ch),
			"refund txn_1 of pi_c1: 650 succeeded"},
		"a payment that was reversed, in euros": {line("payment_reversal", "charge_failure", -600, "eur", ch),
			"refund txn_1 of pi_c1: 700 succeeded"},
		"a reversal that gives us something": {line("payment_reversal", "charge_failure", 5, "eur", ch),
			"refund  of pi_c1: 0 "},
		"a hold on a charge": {line("payment_network_reserve_hold", "payment_network_reserve_hold", -1000, "usd", ch),
			"  of pi_c1: 0 "},
		"a new type about a charge": {line("brand_new_type", "brand_new_type", -7, "usd", ch), "  of pi_c1: 0 "},
		"a new type about a refund": {line("brand_new_type", "brand_new_type", -7, "usd", refundIs("succeeded")),
			"  of pi_1: 0 "},
		"an adjustment about a dispute": {line("adjustment", "other_adjustment", -7, "usd", disputeIs("lost")),
			"  of pi_1: 0 "},
		"a dispute without its object": {line("adjustment", "dispute", -700, "usd", ch),
			"refund txn_1 of pi_c1: 700 succeeded"},
		"a fee":                   {line("stripe_fee", "fee", -5, "usd", ch), "fee  of : 0 "},
		"a fee of a dispute":      {line("adjustment", "fee", -1500, "usd", disputeIs("lost")), "fee  of : 0 "},
		"an adjustment alone":     {line("adjustment", "other_adjustment", -5, "usd", "null"), "  of : 0 "},
		"a hold of half a króna":  {line("payment_network_reserve_hold", "x", -1250, "isk", "null"), "  of : 0 "},
		"a hold in USDC":          {line("a new type", "x", -1250, "usdc", "null"), "  of : 0 "},
		"a payout":                {line("payout", "payout", -5, "usd", payout), "payout po_1 of : 0 "},
		"a payout that came back": {line("payout_failure", "payout_reversal", 5, "usd", payout), "payout  of : 0 "},
		"a refund on its way":     {line("refund", "refund", -500, "usd", refundIs("pending")), "refund  of pi_1: 0 "},
		"a charge of no intent": {line("payment_reversal", "charge_failure", -5, "usd",
			replace(ch, `"pi_c1"`, "null")),
			"refund  of : 0 "},
	} {
		s := scripted(t, map[string][]answer{bookLine: {ok(listOf(false, row.line))}})
		got := ""
		err := newClient(t, s.URL).Statement(t.Context(), "acct_canary", day, func(r gateway.Line) error {
			got += fmt.Sprintf("%s %s of %s: %d %s", r.Object, r.ID, r.ChargeID, r.AmountMinor, r.Status)
			return nil
		})
		if err != nil || got != row.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for kind, source := range map[string]string{ // which may be about a payment of ours
		"charge": `"ch_1"`, "payment": `"py_1"`, "refund": `"re_1"`, "payment_refund": `"pyr_1"`,
		"refund_failure": `"re_1"`, "payment_reversal": `{"object":"charge","amount":"7"}`,
		"dispute": `{"object":"dispute","amount":"7"}`,
	} {
		s := scripted(t, map[string][]answer{bookLine: {ok(listOf(false, line(kind, "x", -500, "usd", source)))}})
		err := newClient(t, s.URL).Statement(t.Context(), "acct_canary", day, func(gateway.Line) error { return nil })
		if err == nil {
			t.Errorf("a %s that cannot be read is left out", kind)
		}
	}
}

// The names of a dispute's members are Stripe's.
func TestDisputeIsThatOfStripesLibrary(t *testing.T) {
	t.Parallel()
	var d stripe.Dispute
	if err := json.Unmarshal([]byte(disputeIs("lost")), &d); err != nil {
		t.Fatal(err)
	}
	if d.Amount != 12000 || d.PaymentIntent.ID != "pi_1" || d.Status != stripe.DisputeStatusLost ||
		string(d.Reason) != "fraudulent" || d.EvidenceDetails.DueBy != 1796000000 {
		t.Errorf("dispute %+v", d)
	}
}
