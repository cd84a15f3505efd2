package stripe

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stripe/stripe-go/v84"

	"payonce/internal/gateway"
)

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
	const withdrawn, back = `{"amount":-12000}`, `{"amount":12000}`
	refund := func(status string) gateway.Record { return byOthers(gateway.RefundObject, "re_1", 500, status) }
	dispute := func(amount int64, status string) gateway.Record {
		return byOthers(gateway.DisputeObject, "du_1", amount, status)
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
		"opened":      {"charge.dispute.created", disputeIs("needs_response"), dispute(12000, "pending")},
		"withdrawn": {"charge.dispute.funds_withdrawn", disputeIs("under_review", withdrawn),
			dispute(12000, "pending")},
		"asked":       {"charge.dispute.created", disputeIs("warning_needs_response"), dispute(0, "pending")},
		"asks still":  {"charge.dispute.updated", disputeIs("warning_under_review"), dispute(0, "pending")},
		"not pursued": {"charge.dispute.closed", disputeIs("warning_closed"), dispute(12000, "declined")},
		"prevented":   {"charge.dispute.closed", disputeIs("prevented"), dispute(12000, "declined")},
		"won":         {"charge.dispute.closed", disputeIs("won", withdrawn, back), dispute(12000, "declined")},
		"lost":        {"charge.dispute.closed", disputeIs("lost", withdrawn), dispute(12000, "succeeded")},
		"reinstated": {"charge.dispute.funds_reinstated", disputeIs("under_review", withdrawn, back),
			dispute(0, "pending")},
		"withdrawn again": {"charge.dispute.funds_withdrawn", disputeIs("under_review", withdrawn, back, withdrawn),
			dispute(12000, "pending")},
		"lost after that": {"charge.dispute.closed", disputeIs("lost", withdrawn, back, withdrawn),
			dispute(12000, "succeeded")},
		"reinstated in part": {"charge.dispute.funds_reinstated", disputeIs("under_review", withdrawn, `{"amount":1}`),
			dispute(12000, "pending")},
		"unknown status": {"charge.dispute.updated", disputeIs("resting"), dispute(12000, "pending")},
	} {
		e, err := parseEvent([]byte(eventOf(row.kind, row.object)), "")
		want := gateway.Event(gateway.Moved{Type: row.kind, Record: row.want})
		if diff := cmp.Diff(want, e); err != nil || diff != "" {
			t.Errorf("%s: %v, event differs (-want +got):\n%s", name, err, diff)
		}
	}
}

// What a balance transaction is about is told by its source, whatever its type is called.
func TestStatementHasWhatOthersHaveDone(t *testing.T) {
	t.Parallel()
	day := today().Truncate(24 * time.Hour).Add(-24 * time.Hour)
	at := day.Unix() + 100
	line := func(kind, category string, amount int, currency, source string) string {
		return fmt.Sprintf(`{"id":"txn_1","object":"balance_transaction","amount":%d,"currency":%q,"type":%q,`+
			`"reporting_category":%q,"created":%d,"source":%s}`, amount, currency, kind, category, at, source)
	}
	ch := chargeIs(1, "succeeded", at)
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
			"reversal txn_1 of pi_c1: 650 succeeded"},
		"a payment that was reversed, in euros": {line("payment_reversal", "charge_failure", -600, "eur", ch),
			"reversal txn_1 of pi_c1: 700 succeeded"},
		"a charge that gives us something": {line("adjustment", "other_adjustment", 5, "eur", ch),
			"reversal txn_1 of pi_c1: 0 succeeded"},
		"a fee":                 {line("stripe_fee", "fee", -5, "usd", ch), ""},
		"a fee of a dispute":    {line("adjustment", "fee", -1500, "usd", disputeIs("lost")), ""},
		"an adjustment alone":   {line("adjustment", "other_adjustment", -5, "usd", "null"), ""},
		"a payout":              {line("payout", "payout", -5, "usd", `{"id":"po_1","object":"payout"}`), ""},
		"a charge of no intent": {line("payment_reversal", "x", -5, "usd", replace(ch, `"pi_c1"`, "null")), ""},
	} {
		s := scripted(t, map[string][]answer{bookLine: {ok(listOf(false, row.line))}})
		got := ""
		err := newClient(t, s.URL).Statement(t.Context(), "acct_canary", day, func(r gateway.Record) error {
			got += fmt.Sprintf("%s %s of %s: %d %s", r.Object, r.ID, r.ChargeID, r.AmountMinor, r.Status)
			return nil
		})
		if err != nil || got != row.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// The names of a dispute's members are Stripe's.
func TestDisputeIsThatOfStripesLibrary(t *testing.T) {
	t.Parallel()
	var d stripe.Dispute
	if err := json.Unmarshal([]byte(disputeIs("lost", `{"amount":-12000}`)), &d); err != nil {
		t.Fatal(err)
	}
	if d.Amount != 12000 || d.PaymentIntent.ID != "pi_1" || d.Status != stripe.DisputeStatusLost ||
		d.BalanceTransactions[0].Amount != -12000 || d.EvidenceDetails.DueBy != 1796000000 {
		t.Errorf("dispute %+v", d)
	}
}
