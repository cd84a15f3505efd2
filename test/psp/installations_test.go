package psp

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"payonce/internal/gateway"
)

// Two installations share one account, such as staging and production. What one of them has made is foreign to the
// other one, in the list, the statement and each event. A refund is judged by the charge that it changes, so it comes
// without its marks.
func TestAnotherInstallationsMovementsAreForeign(t *testing.T) {
	t.Parallel()
	w := setup(t, stripeDialect())
	theirs := w.clientOf("theirs")
	all := map[gateway.PSP]string{w.client: "", theirs: ""}
	for i, c := range []gateway.PSP{w.client, theirs} {
		w.client = c
		all[c] = w.charge(numbered(w.dialect, i))
		r := gateway.Refund{Account: "acct_acme", Key: "key-of-the-refund-" + all[c], Attempt: 1,
			Reference: "re_" + all[c], ChargeID: all[c], AmountMinor: 1, Currency: "USD"}
		if o, done := c.Refund(t.Context(), r).(gateway.Succeeded); !done {
			t.Fatalf("%T %+v", o, o)
		}
	}
	mail := w.received()
	w.clock.advance(24 * time.Hour)
	for c, own := range all {
		w.client = c
		w.checkOnly(own, mail)
	}
}

// checkOnly reads everything as the client of an installation that has made one charge and its refund.
func (w *world) checkOnly(own string, received []mail) {
	w.t.Helper()
	page, err := w.client.List(w.t.Context(), gateway.ChargeObject, w.dialect.Account+"acme", time.Time{}, "")
	if err != nil || !slices.Equal(ids(page.Records), []string{own}) || page.Foreign != 1 {
		w.t.Errorf("the list has %+v, %d foreign, %v", page.Records, page.Foreign, err)
	}
	refunds, _ := w.list(gateway.RefundObject, time.Time{})
	seen := map[gateway.Object][]gateway.Record{gateway.RefundObject: refunds}
	take := func(r gateway.Record) error {
		seen[r.Object] = append(seen[r.Object], r)
		return nil
	}
	published := gateway.StatementsOf(w.client)
	err = published.Statement(w.t.Context(), w.dialect.Account+"acme", today(), func(l gateway.Line) error {
		if l.Status == "" { // It is of the other installation.
			return nil
		}
		return take(l.Record)
	})
	if err != nil {
		w.t.Error(err)
	}
	for _, m := range received {
		e, err := w.client.ParseEvent(m.body)
		if err != nil {
			w.t.Error(err)
		}
		if moved, is := e.(gateway.Moved); is {
			_ = take(moved.Record)
		}
	}
	charges, marked := seen[gateway.ChargeObject], 0
	for _, r := range charges {
		if r.ID != own || !r.Marked() {
			w.t.Errorf("takes %+v for its own", r)
		}
	}
	for _, r := range seen[gateway.RefundObject] {
		if r.Marked() {
			marked++
		}
		if r.Marked() != (r.ChargeID == own) {
			w.t.Errorf("a refund is %+v", r)
		}
	}
	if len(charges) != 2 || marked < 3 { // the statement and a webhook; and the list of refunds
		w.t.Errorf("%d charges and %d marked refunds were seen", len(charges), marked)
	}
}

// An intent that a copy of this installation has made is read by its key and reference, and is not ended: the copy may
// be about to execute it.
func TestAnotherInstallationsIntentIsNotEnded(t *testing.T) {
	t.Parallel()
	w := setup(t, stripeDialect())
	ch := aCharge(w.dialect)
	id, refused := w.client.Prepare(t.Context(), ch)
	if refused != nil {
		t.Fatalf("%T %+v", refused, refused)
	}
	ch.ObjectID = id
	const why = "another installation has made it, and may execute it"
	ends := map[gateway.End]gateway.Lookup{
		gateway.EndUnsent: gateway.LookupFailed{Reason: why}, gateway.EndWaiting: gateway.LookupFailed{Reason: why},
		gateway.EndNothing: gateway.Waiting{Reason: why, Kept: true},
		gateway.EndDecided: gateway.Waiting{Reason: why, Kept: true},
	}
	for end, want := range ends {
		if l := w.clientOf("theirs").Lookup(t.Context(), ch, end); l != want {
			t.Errorf("%s: %T %+v, want %+v", end, l, l, want)
		}
	}
	if _, paid := w.client.Charge(t.Context(), ch).(gateway.Succeeded); !paid {
		t.Error("it was ended")
	}
	for end := range ends {
		if l, found := w.clientOf("theirs").Lookup(t.Context(), ch, end).(gateway.Found); !found ||
			len(l.Records) != 1 || l.Records[0].Reference != ch.Reference {
			t.Errorf("%T %+v", l, l)
		}
	}
}

// The search by the key finds what another installation has executed under an equal key. It is about another payment.
func TestEqualKeyOfAnotherInstallationIsNotFound(t *testing.T) {
	t.Parallel()
	w := setup(t, stripeDialect())
	ch := aCharge(w.dialect)
	w.charge(ch)
	w.admin(http.MethodDelete, "/_keys", "") // of the PSP's memory
	w.later()                                // the search lags
	ch.Reference = "pay_of_theirs"
	if l := w.clientOf("theirs").Lookup(t.Context(), ch, gateway.EndNothing); l != (gateway.NotFound{}) {
		t.Errorf("%T %+v", l, l)
	}
	if l, found := w.client.Lookup(t.Context(), ch, gateway.EndNothing).(gateway.Found); !found {
		t.Errorf("%T %+v", l, l)
	}
	ch.Reference = reference // A copy has the payment, too.
	if l, found := w.clientOf("theirs").Lookup(t.Context(), ch, gateway.EndNothing).(gateway.Found); !found {
		t.Errorf("%T %+v", l, l)
	}
}
