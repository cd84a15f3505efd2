package stripe

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/demo/mockpsp"
	"payonce/test/wait"
)

func (p *running) refund(id, key, further string) result {
	p.t.Helper()
	return p.post("/v1/refunds", key, "payment_intent="+id+further)
}

func TestARefundMovesMoneyAtOnce(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	id := p.charged()
	made := p.refund(id, "refund", "&amount=400&reason=requested_by_customer&metadata[reference]=re_of_1"+
		"&metadata[idempotency_key]=key-of-refund").want(http.StatusOK, "status", "succeeded", "payment_intent", id,
		"metadata.reference", "re_of_1")
	_, refunds := p.ledger()
	want := mockpsp.Movement{
		ID: made.text("id"), Object: "refund", Account: "acct_1", IdempotencyKey: "key-of-refund",
		Reference: "re_of_1",
		ChargeID:  id, AmountCents: 400, Currency: "KRW",
		Reason: "requested_by_customer", Status: "succeeded",
	}
	refunds[0].CreatedAt = ""
	if diff := cmp.Diff([]mockpsp.Movement{want}, refunds); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	of := p.one("/v1/charges", made.text("charge")).want(http.StatusOK)
	if of.at("amount_refunded") != 400.0 || of.at("refunded") != false {
		t.Errorf("charge: %s", of.body)
	}
	booked := p.data("/v1/balance_transactions?expand[]=data.source")
	if booked[0]["amount"] != -400.0 || booked[0]["type"] != "refund" ||
		at(booked[0], "source.id") != made.text("id") || at(booked[1], "source.object") != "charge" {
		t.Errorf("balance: %v", booked)
	}
}

func TestRefundsNeverExceedTheirCharge(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	id := p.charged()
	const atOnce = 30
	ended := make(chan result)
	for i := range atOnce {
		go func() { ended <- p.refund(id, fmt.Sprint("refund-", i), "&amount=300") }()
	}
	won := 0
	for range atOnce {
		answer := <-ended
		if answer.status == http.StatusOK {
			won++
		} else {
			answer.want(http.StatusBadRequest, "error.code", "amount_too_large")
		}
	}
	if won != 3 {
		t.Errorf("%d refunds of 300 out of 1000", won)
	}
	p.refund(id, "", "&amount=101").want(http.StatusBadRequest, "error.code", "amount_too_large")
	p.refund(id, "rest", "").want(http.StatusOK, "status", "succeeded")
	p.refund(id, "", "").want(http.StatusBadRequest, "error.code", "charge_already_refunded")
}

func TestWhatWasNotChargedCannotBeRefunded(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.refund(p.intent("pm_ok"), "", "").want(http.StatusBadRequest, "error.type", "invalid_request_error")
	p.refund("pi_unknown", "", "").want(http.StatusNotFound, "error.code", "resource_missing")
	p.post("/v1/refunds", "", "").want(http.StatusBadRequest, "error.code", "parameter_missing")
	p.refund(p.charged(), "", "&reason=because").want(http.StatusBadRequest, "error.param", "reason")
}

func TestTheReasonPicksTheFaultOfARefund(t *testing.T) {
	t.Parallel()
	p := setup(t, soon)
	p.refund(p.charged(), "lost", "&reason=pm_timeout_charged").wantLost()
	p.refund(p.charged(), "never", "&metadata[reason]=pm_never").wantLost()
	p.refund(p.charged(), "500", "&reason=pm_500_not_charged").want(http.StatusInternalServerError)
	p.refund(p.charged(), "declined", "&reason=pm_declined").want(http.StatusOK, "status", "failed",
		"failure_reason", "declined")
	if _, refunds := p.ledger(); len(refunds) != 2 {
		t.Errorf("ledger: %+v", refunds)
	}
	late := p.charged()
	p.refund(late, "late", "&reason=pm_late_charge").wantLost()
	wait.Until(t, "the refund lands", func() bool { return len(p.data("/v1/refunds?payment_intent="+late)) == 1 })
	pending := p.refund(p.charged(), "", "&reason=pm_bank_debit").want(http.StatusOK, "status", "pending").text("id")
	lost := p.refund(p.charged(), "", "&reason=pm_bank_debit_fails").want(http.StatusOK, "status", "pending").text("id")
	for id, end := range map[string]string{pending: "succeeded", lost: "failed"} {
		wait.Until(t, "the refund has "+end, func() bool {
			return p.one("/v1/refunds", id).want(http.StatusOK).text("status") == end
		})
	}
	p.refund(p.one("/v1/refunds", lost).text("payment_intent"), "", "").want(http.StatusOK, "status", "succeeded")
}

func TestARefundThatFailsLaterGivesTheMoneyBackToTheAccount(t *testing.T) {
	t.Parallel()
	p := setup(t, withFile(t))
	charged := p.charged()
	made := p.refund(charged, "", "&reason=pm_refund_returned").want(http.StatusOK, "status", "succeeded")
	id := made.text("id")
	p.refund(charged, "", "").want(http.StatusBadRequest, "error.code", "charge_already_refunded")
	p = p.restart(func(b *bundle) { b.psp.Now = func() time.Time { return time.Now().Add(2 * time.Hour) } })
	wait.Until(t, "the refund has failed", func() bool { return p.dialect.Due() == 0 })
	p = p.restart()
	failed := p.one("/v1/refunds", id).want(http.StatusOK, "status", "failed", "failure_reason",
		"expired_or_canceled_card", "balance_transaction", made.text("balance_transaction"))
	back := p.one("/v1/balance_transactions", failed.text("failure_balance_transaction")).want(http.StatusOK,
		"type", "refund_failure", "reporting_category", "refund_failure", "source", id)
	sum := 0.0
	for _, booked := range p.data("/v1/balance_transactions") {
		if amount, _ := booked["amount"].(float64); booked["source"] == id {
			sum += amount
		}
	}
	if back.at("amount") != 1000.0 || sum != 0 {
		t.Errorf("back are %v, and the refund has cost %v", back.at("amount"), sum)
	}
	if got := p.types(); got[len(got)-1] != "refund.failed" {
		t.Errorf("events %v", got)
	}
	if _, refunds := p.ledger(); len(refunds) != 1 || refunds[0].Status != "failed" || refunds[0].ID != id {
		t.Errorf("ledger: %+v", refunds)
	}
	p.refund(charged, "", "").want(http.StatusOK, "status", "succeeded")
}
