package statement

import (
	"net/http/httptest"
	"testing"
	"time"

	"payonce/demo/mockpsp"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/judge"
	"payonce/internal/payments"
)

// atMock has the reconciler ask a real mock PSP, whose clock shows the fixture's day.
func (d *fixture) atMock() {
	d.t.Helper()
	config := mockpsp.DefaultConfig()
	config.Secret = pspSecret
	config.Now = func() time.Time { return d.at(12) }
	mock, err := mockpsp.New(config)
	if err != nil {
		d.t.Fatal(err)
	}
	server := httptest.NewServer(mock)
	d.t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			d.t.Error(err)
		}
		server.Close()
	})
	psp, err := native.New(server.URL, pspSecret, gateway.DefaultLimits(), nil, time.Now)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(psp.Close)
	d.config.PSPs = gateway.PSPs{native.Name: psp}
}

// charge has the PSP charge for a payment of ours under another id than the one we know, and returns that id.
func (d *fixture) charge(m movement, method string) string {
	d.t.Helper()
	o := d.config.PSPs.Of(native.Name).Charge(d.t.Context(), gateway.Charge{
		Account: "acct_acme", Key: "key-" + m.id.String(), Reference: m.reference(), AmountMinor: m.amount,
		Currency:      m.currency,
		PaymentMethod: method,
	})
	s, ok := o.(gateway.Succeeded)
	if !ok && method == "pm_ok" {
		d.t.Fatalf("outcome %T %+v", o, o)
	}
	return s.ID
}

// The mock's own statement, of a day on which it charged once what we know, and lost, altered, refused and invented
// others.
func TestStatementOfTheMockIsReconciled(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.atMock()
	processing := func(m *movement) { m.status, m.finished = "processing", nil }
	known := d.paid("", 12, processing)
	id := d.charge(known, "pm_ok")
	d.exec("UPDATE payments SET status = 'succeeded', psp_charge_id = $2 WHERE id = $1", known.id, id)
	refunded := d.paid("", 12, refund, processing)
	o := d.config.PSPs.Of(native.Name).Refund(t.Context(), gateway.Refund{
		Account: "acct_acme", Key: "key-" + refunded.id.String(), Reference: refunded.reference(), ChargeID: id,
		AmountMinor: 100,
		Currency:    "USD",
	})
	given, ok := o.(gateway.Succeeded)
	if !ok {
		t.Fatalf("outcome %T %+v", o, o)
	}
	d.exec("UPDATE refunds SET status = 'succeeded', psp_refund_id = $2 WHERE id = $1", refunded.id, given.ID)

	d.charge(d.paid("", 12, processing), "pm_500_charged")
	d.charge(d.paid("", 12, processing), "pm_wrong_amount")
	d.charge(d.paid("", 12, processing), "pm_declined")
	d.charge(movement{
		object: gateway.ChargeObject, id: payments.FirstIDAt(d.at(12)), amount: 5, currency: "USD",
	}, "pm_ok")
	d.paid("ch_invented", 11)

	if s := d.run(); s.Lines != 5 || s.Breaks != 6 {
		t.Fatalf("%+v", s)
	}
	got := map[judge.BreakKind]int{}
	for _, b := range d.open("acct_acme", d.day) {
		got[b.Kind]++
		if b.Kind == judge.BreakAmount && b.Object == gateway.RefundObject && b.Theirs.AmountMinor != 100 {
			t.Errorf("%+v", b)
		}
	}
	// The refund's amount, and the wrong one; what has no outcome here; what nobody asked for; what we invented.
	if got[judge.BreakAmount] != 2 || got[judge.BreakStatus] != 2 ||
		got[judge.BreakMissingHere] != 1 || got[judge.BreakMissingThere] != 1 {
		t.Fatalf("%v", got)
	}
}
