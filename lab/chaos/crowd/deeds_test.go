package crowd

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"payonce/lab/chaos/plan"
)

const ledgerBody = `{"charges":[
	{"id":"ch_old","status":"succeeded","reference":"pay_1","amountCents":1,"currency":"USD"},
	{"id":"ch_new","status":"succeeded","reference":"pay_2","amountCents":2,"currency":"EUR"},
	{"id":"ch_declined","status":"declined","reference":"pay_3"}, {"id":"ch_theirs","status":"succeeded"}],
	"refunds":[{"id":"rf_ours","status":"succeeded","reference":"re_1"}, {"id":"rf_theirs","status":"succeeded"},
	{"id":"rf_odd","status":"succeeded","reference":"re_2","fault":"pm_charged_twice"},
	{"id":"rf_declined","status":"declined","reference":"re_3"}, {"id":"rf_failed","status":"failed"}],
	"disputes":[{"id":"dp_1","status":"under_review"}, {"id":"dp_2","status":"won"}, {"id":"dp_3","status":"lost"}]}`

func TestOthersActAtTheDoorsOfThePSP(t *testing.T) {
	t.Parallel()
	known := paid{tenant: "acme", ID: "pay_1", ChargeID: "ch_1", Amount: 100, Currency: "USD"}
	for name, row := range map[string]struct {
		deed plan.Deed
		want string
	}{
		"a part": {plan.Deed{Kind: plan.RefundElsewhere, Share: .5, Times: 1},
			`/_refunds {"amountCents":51,"chargeId":"ch_1","pending":false}`},
		"all": {plan.Deed{Kind: plan.RefundElsewhere, Share: 1, Times: 1, Later: true},
			`/_refunds {"chargeId":"ch_1","pending":true}`},
		"inquiry": {plan.Deed{Kind: plan.Dispute, Share: 1, Later: true},
			`/_disputes {"chargeId":"ch_1","inquiry":true}`},
		"ours":   {plan.Deed{Kind: plan.ComeBack, Won: true}, `/_refunds/rf_ours/fail {}`},
		"theirs": {plan.Deed{Kind: plan.ComeBack}, `/_refunds/rf_theirs/fail {}`},
		"lost":   {plan.Deed{Kind: plan.Decide, Times: 2}, `/_disputes/dp_1 {"status":"lost"}`},
		"won":    {plan.Deed{Kind: plan.Decide, Times: 1, Won: true}, `/_disputes/dp_1 {"status":"won"}`},
	} {
		var asked []string
		b := setup(t, func(_ int, r *http.Request) (int, string) {
			if r.Method == http.MethodGet {
				return http.StatusOK, ledgerBody
			}
			body, _ := io.ReadAll(r.Body)
			asked = append(asked, r.URL.Path+" "+sorted(string(body)))
			return http.StatusOK, `{}`
		})
		b.o.PSP, b.known[0].paid = b.o.APIs[0], []paid{known}
		row.deed.Pick = 1 // a known payment
		b.act(t.Context(), row.deed)
		if !slices.Equal(asked, []string{row.want}) {
			t.Errorf("%s: asked %q", name, asked)
		}
		changed := row.deed.Kind == plan.RefundElsewhere || row.deed.Kind == plan.Dispute
		if _, some := b.returned.pick(0); some != changed {
			t.Errorf("%s: the clients may refund it: %t", name, some)
		}
	}
}

// sorted brings the members of a small object into order.
func sorted(body string) string {
	members := strings.Split(strings.Trim(body, "{}"), ",")
	slices.Sort(members)
	return "{" + strings.Join(members, ",") + "}"
}

// Others change what a client is about to refund, and what was charged just now.
func TestOthersChooseWhatIsInMotion(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ int, r *http.Request) (int, string) {
		if r.URL.Path != "/_ledger" {
			return http.StatusCreated, paidBody
		}
		return http.StatusOK, ledgerBody
	})
	b.o.PSP = b.o.APIs[0]
	known := paid{tenant: "acme", ID: "pay_1", ChargeID: "ch_1", Amount: 100, Currency: "USD"}
	b.known[0].paid = []paid{known}
	chosen := make(chan paid)
	go func() {
		of, _ := b.victim(t.Context(), plan.Deed{Pick: 0})
		chosen <- of
	}()
	e := b.errand("refund")
	for deadline := time.Now().Add(deedEvery); time.Now().Before(deadline); {
		b.refund(t.Context(), e)
		select {
		case of := <-chosen:
			if of != known {
				t.Errorf("of what a client refunds: %+v", of)
			}
		default:
			continue
		}
		break
	}
	if of, _ := b.victim(t.Context(), plan.Deed{Pick: 1}); of != known {
		t.Errorf("of a known payment: %+v", of)
	}
	newest := paid{tenant: "acme", ChargeID: "ch_new", Amount: 2, Currency: "EUR"}
	if of, _ := b.victim(t.Context(), plan.Deed{Pick: 2}); of != newest {
		t.Errorf("of the newest charge: %+v", of)
	}
	if !strings.HasPrefix(b.api.asked[0], "POST /payments/pay_1/refunds") {
		t.Errorf("asked %v", b.api.asked)
	}
}
