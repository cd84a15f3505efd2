package stripe

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"payonce/test/wait"
)

// disputed charges with a payment method, and returns the intent and its dispute.
func (p *running) disputed(method string) (intent, dispute string) {
	p.t.Helper()
	intent = p.intent(method)
	p.confirm(intent, "").want(http.StatusOK, "status", "succeeded")
	wait.Until(p.t, "the charge is disputed", func() bool {
		return len(p.data("/v1/disputes?payment_intent="+intent)) == 1
	})
	dispute, _ = p.data("/v1/disputes?payment_intent=" + intent)[0]["id"].(string)
	return intent, dispute
}

func (p *running) balance(source string) (amounts []any, categories []any) {
	p.t.Helper()
	for _, booked := range p.data("/v1/balance_transactions") {
		if booked["source"] == source {
			amounts, categories = append(amounts, booked["amount"]), append(categories, booked["reporting_category"])
		}
	}
	slices.Reverse(amounts)
	slices.Reverse(categories)
	return amounts, categories
}

func TestADisputeIsWonByEvidence(t *testing.T) {
	t.Parallel()
	p := setup(t, func(b *bundle) { b.psp.LateDelay = 0 })
	intent, id := p.disputed("pm_card_createDisputeProductNotReceived")
	path := "/v1/disputes/" + id
	p.get(path).want(http.StatusOK, "status", "needs_response", "reason", "product_not_received",
		"payment_intent", intent,
		"object", "dispute")
	p.refund(intent, "", "&amount=1").want(http.StatusBadRequest, "error.code", "charge_disputed")
	if charge := p.data("/v1/charges?payment_intent=" + intent)[0]; charge["disputed"] != true {
		t.Errorf("charge %v", charge)
	}
	p.post(path, "", "evidence[uncategorized_text]=winning_evidence&submit=false").want(http.StatusOK, "status",
		"needs_response")
	p.post(path, "key", "submit=true&expand[]=charge").want(http.StatusOK, "status", "under_review", "charge.object",
		"charge")
	p.post(path, "key", "submit=true&expand[]=charge").want(http.StatusOK, "status", "under_review")
	wait.Until(t, "the dispute is won", func() bool { return p.dialect.Due() == 0 })
	p.get(path).want(http.StatusOK, "status", "won")
	p.post(path, "", "evidence[uncategorized_text]=more").want(http.StatusBadRequest)
	p.post(path, "", "submit=true").want(http.StatusBadRequest)
	p.post(path+"/close", "", "").want(http.StatusBadRequest, "error.message", "This dispute is already closed.")
	if amounts, categories := p.balance(id); !slices.Equal(amounts, []any{-1000.0, 1000.0}) ||
		!slices.Equal(categories, []any{"dispute", "dispute_reversal"}) {
		t.Errorf("booked %v as %v", amounts, categories)
	}
	if got, want := p.types()[3:], []string{"charge.dispute.created", "charge.dispute.funds_withdrawn",
		"charge.dispute.updated", "charge.dispute.updated", "charge.dispute.closed",
		"charge.dispute.funds_reinstated"}; !slices.Equal(got, want) {
		t.Errorf("events %v", got)
	}
	p.refund(intent, "", "").want(http.StatusOK, "status", "succeeded")
	p.get("/v1/disputes/du_none").want(http.StatusNotFound, "error.code", "resource_missing")
	p.post(path, "", "metadata[a]=b").want(http.StatusOK, "status", "won", "metadata.a", "b")
}

func TestTokensDisputeAndDecideAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	p := setup(t, withFile(t))
	for token, end := range map[string]string{
		"pm_dispute": "needs_response", "pm_dispute_won": "won", "pm_dispute_lost": "lost",
		"pm_card_createDispute": "needs_response", "pm_card_createDisputeInquiry": "warning_needs_response",
	} {
		intent := p.intent(token)
		p.confirm(intent, "").want(http.StatusOK, "status", "succeeded")
		p = p.restart(func(b *bundle) { b.psp.LateDelay = 0 }, hoursOn)
		wait.Until(t, "it has ended", func() bool { return p.dialect.Due() == 0 })
		p = p.restart(func(b *bundle) { b.psp.LateDelay = time.Hour })
		all := p.data("/v1/disputes?payment_intent=" + intent)
		if len(all) != 1 || all[0]["status"] != end || p.dialect.Due() != 0 {
			t.Errorf("%s: %v", token, all)
		}
	}
}

func hoursOn(b *bundle) {
	now := b.psp.Now
	b.psp.Now = func() time.Time { return now().Add(2 * time.Hour) }
}

func TestADisputeThatIsClosedIsLost(t *testing.T) {
	t.Parallel()
	p := setup(t, func(b *bundle) { b.psp.LateDelay = 0 })
	intent, id := p.disputed("pm_card_createDispute")
	p.post("/v1/disputes/"+id+"/close", "", "").want(http.StatusOK, "status", "lost")
	p.refund(intent, "", "").want(http.StatusBadRequest, "error.code", "charge_disputed")
	if amounts, _ := p.balance(id); !slices.Equal(amounts, []any{-1000.0}) {
		t.Errorf("booked %v", amounts)
	}
	p.post("/v1/disputes/"+id, "", "evidence[receipt]=file_1").want(http.StatusBadRequest, "error.param",
		"evidence[receipt]")
	_, id = p.disputed("pm_card_createDispute")
	p.post("/v1/disputes/"+id, "", "evidence[uncategorized_text]=losing_evidence&metadata[a]=b").
		want(http.StatusOK, "metadata.a", "b")
	wait.Until(t, "the dispute is lost", func() bool { return p.dialect.Due() == 0 })
	p.get("/v1/disputes/"+id).want(http.StatusOK, "status", "lost", "metadata.a", "b")
}
