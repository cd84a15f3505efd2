package stripe

import (
	"net/http"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"payonce/demo/mockpsp"
)

func (p *running) ledgerDisputes() []mockpsp.Movement {
	p.t.Helper()
	var truth struct {
		Disputes []mockpsp.Movement `json:"disputes"`
	}
	if err := json.Unmarshal([]byte(p.back(http.MethodGet, "/_ledger", "").body), &truth); err != nil {
		p.t.Fatal(err)
	}
	return truth.Disputes
}

func TestARefundInTheDashboardHasNothingOfOurs(t *testing.T) {
	t.Parallel()
	p := setup(t, withFile(t))
	intent := p.charged()
	made := p.back(http.MethodPost, "/_refunds", `{"chargeId":"`+intent+`","amountCents":400}`).
		want(http.StatusOK, "status", "succeeded", "payment_intent", intent)
	if made.at("reason") != nil || made.at("amount") != 400.0 {
		t.Errorf("made %s", made.body)
	}
	p.back(http.MethodPost, "/_refunds", `{"chargeId":"`+intent+`","amountCents":601}`).
		want(http.StatusBadRequest, "error.code", "amount_too_large")
	p.back(http.MethodPost, "/_refunds", `{"chargeId":"`+intent+`","pending":true}`).
		want(http.StatusOK, "status", "pending")
	types := p.types()
	if want := []string{"charge.refunded", "refund.created", "refund.updated", "refund.created"}; !slices.Equal(
		types[len(types)-4:], want) {
		t.Errorf("events %v", types)
	}
	if _, refunds := p.ledger(); len(refunds) != 1 || refunds[0].IdempotencyKey != "" || refunds[0].Reference != "" {
		t.Errorf("ledger %+v", refunds)
	}

	fail := "/_refunds/" + made.text("id") + "/fail"
	p.back(http.MethodPost, fail, "").want(http.StatusOK, "status", "failed")
	p = p.restart()
	p.back(http.MethodPost, fail, "").want(http.StatusConflict, "error.code", "illegal_change")
	if _, refunds := p.ledger(); len(refunds) != 1 || refunds[0].Status != "failed" {
		t.Errorf("ledger %+v", refunds)
	}
	p.refund(intent, "", "&amount=400").want(http.StatusOK, "status", "succeeded")
}

func TestADisputeIsOpenedAndDecidedAtTheDoor(t *testing.T) {
	t.Parallel()
	p := setup(t, withFile(t))
	intent := p.charged()
	id := p.back(http.MethodPost, "/_disputes", `{"chargeId":"`+intent+`","inquiry":true,"reason":"unrecognized"}`).
		want(http.StatusOK, "status", "warning_needs_response", "reason", "unrecognized").text("id")
	p.refund(intent, "", "&amount=100").want(http.StatusOK, "status", "succeeded")
	p.back(http.MethodPost, "/_disputes/"+id, `{"status":"needs_response"}`).want(http.StatusBadRequest, "error.code",
		"amount_too_large")
	p.back(http.MethodPost, "/_disputes/"+id, `{"status":"closed"}`).want(http.StatusOK, "status", "warning_closed")
	id = p.back(http.MethodPost, "/_disputes", `{"chargeId":"`+intent+`"}`).want(http.StatusOK, "status",
		"needs_response").text("id")
	p.back(http.MethodPost, "/_disputes/"+id, `{"status":"won"}`).want(http.StatusBadRequest)
	for _, status := range []string{"under_review", "won"} {
		p.back(http.MethodPost, "/_disputes/"+id, `{"status":"`+status+`"}`).want(http.StatusOK, "status", status)
	}
	p = p.restart()
	all := p.ledgerDisputes()
	if len(all) != 2 || all[0].Status != "closed" || all[1].Status != "won" || all[1].AmountCents != 900 ||
		all[1].ChargeID != intent {
		t.Errorf("ledger %+v", all)
	}
}
