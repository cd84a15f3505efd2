package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"payonce/internal/config"
)

// refundByOthers gives money of a charge back as another program on the account does: without our marks. It returns
// the PSP's id of the refund.
func (w *world) refundByOthers(charge string, amount int) string {
	w.t.Helper()
	if w.stripe == nil {
		r := w.hand(http.MethodPost, "/v1/charges/"+charge+"/refunds", "acme", freshKey(),
			fmt.Sprintf(`{"amountCents":%d,"currency":"USD","reference":"ticket 42"}`, amount))
		r.expect(w.t, http.StatusCreated, "")
		return r.text(w.t, "id")
	}
	form := url.Values{"payment_intent": {charge}, "amount": {fmt.Sprint(amount)}}.Encode()
	req := httptest.NewRequest(http.MethodPost, "/v1/refunds", strings.NewReader(form))
	req.Header = http.Header{"Authorization": {"Bearer " + w.own.StripeSecret}, "Stripe-Account": {stripeAccount},
		"Content-Type": {"application/x-www-form-urlencoded"}}
	rec := httptest.NewRecorder()
	w.stripe.ServeHTTP(rec, req)
	r := reply{status: rec.Code, header: rec.Result().Header, body: rec.Body.Bytes()}
	r.expect(w.t, http.StatusOK, "")
	return r.text(w.t, "id")
}

// wantOutside waits until so much of a payment is known to be moved by others.
func (w *world) wantOutside(key string, minor int) {
	w.t.Helper()
	eventually(w.t, "what others have moved", func() bool {
		return w.count(`SELECT coalesce(sum(moved_outside_minor), 0) FROM payments WHERE idempotency_key = $1`,
			key) == minor
	})
}

// eachProvider runs a test with tenants at each provider.
func eachProvider(t *testing.T, test func(t *testing.T, at func(*options))) {
	t.Helper()
	for name, at := range map[string]func(*options){"native": func(*options) {}, "stripe": atStripe} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, at)
		})
	}
}

// A refund that somebody makes in the provider's dashboard is a case about the payment, and counts. What the webhook
// and then the scan say is one refund.
func TestRefundOfOthersIsACaseAndBoundsOurs(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, at func(*options)) {
		w := setupOpen(t, at)
		w.reconcile(scanning)
		key := freshKey()
		paid := w.pay(key, "pm_ok")
		paid.expect(t, http.StatusCreated, "")
		id := paid.text(t, "paymentId")
		w.refundByOthers(paid.text(t, "pspChargeId"), 4500)
		w.wantOutside(key, 4500)
		w.awaitDeadLetter("moved_outside", key)

		tooMuch := freshKey()
		w.refund(id, tooMuch, `{"amountCents":7501}`).expect(t, http.StatusConflict, "refund_exceeds_payment")
		w.wantUnused(tooMuch)
		rest := w.refund(id, freshKey(), `{}`)
		rest.expect(t, http.StatusCreated, "")
		if got := rest.member(t, "amountCents"); got != 7500.0 {
			t.Errorf("the whole rest is %v, want 7500", got)
		}
		w.refund(id, freshKey(), `{}`).expect(t, http.StatusConflict, "refund_exceeds_payment")
		w.wantNoOtherDeadLetters("moved_outside")

		b := w.browse() // Operators see why the rest is gone, also when the case is closed.
		b.signIn(operatorKey).expect(t, http.StatusSeeOther, "")
		for page, want := range map[string]string{"/console/payments/" + id: "moved by others 45.00 USD",
			"/console/payments": "75.00 USD, others 45.00 USD"} {
			if shown := string(b.get(page).body); !strings.Contains(shown, want) {
				t.Errorf("%s does not show %q but\n%s", page, want, shown)
			}
		}
	})
}

// Without a webhook, the scan finds it.
func TestScanFindsARefundOfOthers(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, at func(*options)) {
		w := setupOpen(t, at, func(o *options) { o.webhooks = false })
		w.reconcile(scanning)
		key := freshKey()
		paid := w.pay(key, "pm_ok")
		w.refundByOthers(paid.text(t, "pspChargeId"), 12000)
		w.wantOutside(key, 12000)
		w.awaitDeadLetter("moved_outside", key)
		w.refund(paid.text(t, "paymentId"), freshKey(), `{}`).expect(t, http.StatusConflict, "refund_exceeds_payment")
	})
}

// Nobody has told us of the refund yet. The provider refuses ours, because nothing is left. The answer must not invite
// anybody to pay the money out again.
func TestRefusalForWhatOthersHaveRefundedInvitesNobodyToPayTwice(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, at func(*options)) {
		w := setupOpen(t, at, func(o *options) { o.webhooks = false })
		w.reconcile(func(c *config.Reconciler) { c.ScanEvery = never })
		paid := w.pay(freshKey(), "pm_ok")
		w.refundByOthers(paid.text(t, "pspChargeId"), 12000)
		key := freshKey()
		refused := w.refund(paid.text(t, "paymentId"), key, `{"amountCents":500}`)
		refused.expect(t, http.StatusPaymentRequired, "refund_declined")
		if code := refused.text(t, "declineCode"); code != "already_returned_or_held" {
			t.Errorf("decline code %s", code)
		}
		if detail := refused.text(t, "detail"); !strings.Contains(detail, "Do not return it in another way") {
			t.Errorf("detail: %s", detail)
		}
		w.awaitDeadLetter("moved_outside", key)
	})
}
