package stripe

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

func (p *running) payOut() []object {
	p.t.Helper()
	var paid []object
	answer := p.back(http.MethodPost, "/_payouts", `{"account":"acct_1"}`).want(http.StatusOK)
	if err := json.Unmarshal([]byte(answer.body), &paid); err != nil {
		p.t.Fatal(err)
	}
	return paid
}

// paidBy are the transactions that are listed under a payout, newest first.
func (p *running) paidBy(id string) (all []string) {
	p.t.Helper()
	for _, t := range p.data("/v1/balance_transactions?payout=" + id) {
		all = append(all, fmt.Sprint(t["type"], " ", t["net"]))
	}
	return all
}

func TestPayoutPaysEachTransactionOnce(t *testing.T) {
	t.Parallel()
	p := setup(t, withFile(t))
	intent := p.charged()
	p.refund(intent, "", "&amount=400").want(http.StatusOK)
	paid := p.payOut()
	if len(paid) != 1 || len(p.payOut()) != 0 {
		t.Fatalf("paid %v", paid)
	}
	first := fmt.Sprint(paid[0]["id"])
	p = p.restart()
	p.charged()
	second := p.payOut()
	if len(second) != 1 {
		t.Fatalf("paid %v after a restart", second)
	}
	amount := paid[0]["amount"].(float64)
	want := []string{fmt.Sprint("payout ", -amount), "refund -400", fmt.Sprint("charge ", amount+400)}
	if diff := cmp.Diff(want, p.paidBy(first)); diff != "" {
		t.Errorf("the first has paid (-want +got):\n%s", diff)
	}
	if got := p.paidBy(fmt.Sprint(second[0]["id"])); len(got) != 2 {
		t.Errorf("the second has paid %v", got)
	}
	booked := p.data("/v1/balance_transactions?expand[]=data.source&payout=" + first)[0]
	source, _ := booked["source"].(map[string]any)
	if booked["reporting_category"] != "payout" || source["object"] != "payout" || source["id"] != first {
		t.Errorf("the payout is booked as %v", booked)
	}
}
