package invariants

import (
	"context"
	"net/http"
	"testing"
)

// What an API shows that is not to be trusted, of a payment that others have changed.
func TestWrongSightOfWhatOthersDoIsFound(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.pay("acme", paidKey, "pm_ok")
	charge := s.text("SELECT psp_charge_id FROM payments")
	s.door("/_refunds", `{"chargeId":%q,"amountCents":5000}`, charge)
	s.door("/_disputes", `{"chargeId":%q,"amountCents":2000}`, charge)
	s.reconcile()
	for name, row := range map[string]struct {
		look     func(context.Context, Evidence, world) ([]Violation, error)
		from, to string
	}{
		"a refund is called ours":      {refundLists, `"origin":"provider"`, `"origin":"api"`},
		"a refund is said to be lost":  {refundLists, `"status":"succeeded"`, `"status":"failed"`},
		"a refund is left out":         {refundLists, `"data":[{`, `"data":[],"x":[{`},
		"less is disputed":             {shown, `"amountDisputedCents":2000`, `"amountDisputedCents":1`},
		"a dispute is said to be won":  {shown, `"needs_response"`, `"won"`},
		"less is returned":             {shown, `"amountRefundedCents":5000`, `"amountRefundedCents":0`},
		"a dispute is lost in a list":  {lists, `"disputes":[`, `"d":[`},
		"the last change is forgotten": {lists, `"updatedAt"`, `"u"`},
	} {
		e := s.evidence()
		e.HTTP = http.DefaultClient
		if found, err := row.look(t.Context(), e, s.world()); err != nil || len(found) != 0 {
			t.Errorf("%s: found %v, %v before", name, found, err)
		}
		e.APIs = []string{s.liar(s.api.URL, func(r *http.Response) { s.rewrite(r, row.from, row.to) })}
		if found, err := row.look(t.Context(), e, s.world()); err != nil || len(found) == 0 {
			t.Errorf("%s: found %v, %v", name, found, err)
		}
	}
}
