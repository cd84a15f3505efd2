package stripe

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

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

// settlement is today's file of the shared ledger.
func (p *running) settlement() string {
	p.t.Helper()
	today := time.Now().UTC().Format(time.DateOnly)
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet,
		p.native.URL+"/v1/settlements/"+today+".csv", http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header = http.Header{"Authorization": {"Bearer " + p.made.psp.Secret}, "Psp-Account": {"acct_1"}}
	response, err := p.client.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
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
	p.back(http.MethodPost, "/_disputes", `{"chargeId":"`+intent+`","amountCents":901}`).want(http.StatusBadRequest,
		"error.code", "amount_too_large")
	id = p.back(http.MethodPost, "/_disputes", `{"chargeId":"`+intent+`"}`).want(http.StatusOK, "status",
		"needs_response").text("id")
	p.back(http.MethodPost, "/_disputes/"+id, `{"status":"won"}`).want(http.StatusBadRequest)
	for _, status := range []string{"under_review", "won"} {
		p.back(http.MethodPost, "/_disputes/"+id, `{"status":"`+status+`"}`).want(http.StatusOK, "status", status)
	}
	p.post("/v1/disputes/"+id, "", "metadata[a]=b").want(http.StatusOK, "status", "won")
	if file := p.settlement(); strings.Count(file, id) != 2 {
		t.Errorf("the money was taken and has come back, and the file has\n%s", file)
	}
	p = p.restart()
	all := p.ledgerDisputes()
	if len(all) != 2 || all[0].Status != "closed" || all[1].Status != "won" || all[1].AmountCents != 900 ||
		all[1].ChargeID != intent {
		t.Errorf("ledger %+v", all)
	}
}

// What is done by hand comes first: a clock that strikes then finds nothing due.
func TestWhatIsDoneByHandIsNotDueAnyMore(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	intent, disputed := p.charged(), p.charged()
	refund := p.refund(intent, "key", "&reason=pm_refund_returned").text("id")
	dispute := p.back(http.MethodPost, "/_disputes", `{"chargeId":"`+disputed+`"}`).text("id")
	p.post("/v1/disputes/"+dispute, "", "evidence[uncategorized_text]=winning_evidence").want(http.StatusOK)
	back, decided := p.dialect.store.refundOf("acct_1", refund), p.dialect.store.disputeOf("acct_1", dispute)
	p.back(http.MethodPost, "/_refunds/"+refund+"/fail", "").want(http.StatusOK, "status", "failed")
	p.back(http.MethodPost, "/_disputes/"+dispute, `{"status":"lost"}`).want(http.StatusOK, "status", "lost")
	if err := errors.Join(p.dialect.landRefund(back), p.dialect.landDispute(decided)); err != nil {
		t.Error(err)
	}
	if _, refunds := p.ledger(); refunds[0].IdempotencyKey != "key" {
		t.Errorf("ledger %+v", refunds)
	}
	if again := p.refund(intent, "", "").want(http.StatusOK, "status", "succeeded"); again.at("amount") != 1000.0 {
		t.Errorf("refunded %s", again.body)
	}
}
