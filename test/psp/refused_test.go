package psp

import (
	"net/http"
	"testing"

	"payonce/internal/gateway"
)

// The first attempt at a refund ends with a 500 and gives nothing back. Then somebody else refunds the whole payment.
// The second attempt is refused, and so would be each further one: it is declined, by one more request.
func TestRefundThatIsRefusedAtALaterAttemptEnds(t *testing.T) {
	t.Parallel()
	w := setup(t, stripeDialect())
	charge := w.charge(aCharge(w.dialect))
	r := gateway.Refund{Account: "acct_acme", Key: key, Attempt: 1, Reference: "re_conformance", ChargeID: charge,
		AmountMinor: amount / 2, Currency: "USD", Reason: "pm_500_not_charged"}
	if o, lost := w.client.Refund(t.Context(), r).(gateway.Indeterminate); !lost {
		t.Fatalf("outcome %T %+v", o, o)
	}
	if l := w.client.Lookup(t.Context(), r, gateway.EndWaiting); l != (gateway.NotFound{}) {
		t.Fatalf("lookup %T %+v", l, l)
	}
	theirs := Raw{"/v1/refunds", "payment_intent=" + charge, foreignIntent("false").Header}
	if status, body := w.raw(theirs, ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	before := w.wire.sent("refund")
	r.Attempt = 2
	if o := w.client.Refund(t.Context(), r); o != (gateway.Declined{Code: gateway.AlreadyMoved}) {
		t.Errorf("outcome %T %+v", o, o)
	}
	if n := w.wire.sent("refund") - before; n != 2 {
		t.Errorf("%d requests to refund, want one under the saved 500 and one under the next key", n)
	}
}
