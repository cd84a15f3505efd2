package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// door has the mock do what others do at a provider: the merchant's people in its dashboard, customers, banks.
func (w *world) door(path, body string) reply {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.mock.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	r := reply{status: rec.Code, header: rec.Result().Header, body: rec.Body.Bytes()}
	r.expect(w.t, http.StatusOK, "")
	return r
}

// wantPayment waits until a payment shows each of these.
func (w *world) wantPayment(id string, shows ...string) {
	w.t.Helper()
	var got string
	for _, part := range shows {
		w.t.Logf("waits for %s", part)
		eventually(w.t, "the payment shows "+part, func() bool {
			got = string(w.do(call{method: "GET", path: "/payments/" + id}).body)
			return strings.Contains(got, part)
		})
	}
}

// refundsOf are the refunds of a payment, newest first, as "origin status amount".
func (w *world) refundsOf(id string) (all []string) {
	w.t.Helper()
	var page struct {
		Data []struct {
			Origin, Status string
			AmountCents    int
		}
	}
	list := w.do(call{method: "GET", path: "/payments/" + id + "/refunds"})
	if err := json.Unmarshal(list.body, &page); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range page.Data {
		all = append(all, fmt.Sprint(r.Origin, " ", r.Status, " ", r.AmountCents))
	}
	return all
}

// A refund that somebody makes in the provider's dashboard is a refund of the payment. What the webhook and then the
// scan say is one refund.
func TestRefundMadeElsewhereIsARefundOfThePaymentAndBoundsOurs(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, at func(*options)) {
		w := setupOpen(t, at)
		w.reconcile(scanning)
		paid := w.pay(freshKey(), "pm_ok")
		paid.expect(t, http.StatusCreated, "")
		id, charge := paid.text(t, "paymentId"), paid.text(t, "pspChargeId")
		w.refund(id, freshKey(), `{"amountCents":1000}`).expect(t, http.StatusCreated, "")
		w.door("/_refunds", `{"chargeId":"`+charge+`","amountCents":4500}`)
		w.wantPayment(id, `"amountRefundedCents":5500`)

		tooMuch := freshKey()
		w.refund(id, tooMuch, `{"amountCents":6501}`).expect(t, http.StatusConflict, "refund_exceeds_payment")
		w.wantUnused(tooMuch)
		w.refundByOthers(charge, 500) // another program on the account
		w.wantPayment(id, `"amountRefundedCents":6000`)
		rest := w.refund(id, freshKey(), `{}`)
		rest.expect(t, http.StatusCreated, "")
		if got := rest.member(t, "amountCents"); got != 6000.0 {
			t.Errorf("the whole rest is %v, want 6000", got)
		}
		w.refund(id, freshKey(), `{}`).expect(t, http.StatusConflict, "refund_exceeds_payment")
		want := []string{"api succeeded 6000", "provider succeeded 500", "provider succeeded 4500",
			"api succeeded 1000"}
		if diff := cmp.Diff(want, w.refundsOf(id)); diff != "" {
			t.Error(diff)
		}
		w.wantNoOtherDeadLetters()

		b := w.browse()
		b.signIn(operatorKey).expect(t, http.StatusSeeOther, "")
		for page, want := range map[string]string{"/console/payments/" + id: "none: made at the PSP",
			"/console/payments": `data-label="Refunded">120.00 USD`} {
			if shown := string(b.get(page).body); !strings.Contains(shown, want) {
				t.Errorf("%s does not show %q but\n%s", page, want, shown)
			}
		}
	})
}

// The money of a refund comes back. The stored answer stays, and the customer is refunded again under a new key.
func TestRefundThatComesBackCanBeMadeAgain(t *testing.T) {
	t.Parallel()
	for name, webhooks := range map[string]bool{"by webhook": true, "by the scan": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachProvider(t, func(t *testing.T, at func(*options)) {
				w := setupOpen(t, at, func(o *options) { o.webhooks = webhooks })
				w.reconcile(scanning)
				paid := w.pay(freshKey(), "pm_ok")
				id, key := paid.text(t, "paymentId"), freshKey()
				first := w.refund(id, key, `{}`)
				first.expect(t, http.StatusCreated, "")
				w.door("/_refunds/"+first.text(t, "pspRefundId")+"/fail", "")
				w.wantPayment(id, `"amountRefundedCents":0`)
				w.refund(id, key, `{}`).same(t, first)
				w.refund(id, freshKey(), `{}`).expect(t, http.StatusCreated, "")
				if diff := cmp.Diff([]string{"api succeeded 12000", "api failed 12000"}, w.refundsOf(id)); diff != "" {
					t.Error(diff)
				}
				w.wantNoOtherDeadLetters()
			})
		})
	}
}

// A dispute is on the payment, and bounds refunds while it holds the money.
func TestDisputeIsShownAndBoundsRefunds(t *testing.T) {
	t.Parallel()
	for name, webhooks := range map[string]bool{"by webhook": true, "by the scan": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachProvider(t, func(t *testing.T, at func(*options)) {
				w := setupOpen(t, at, func(o *options) { o.webhooks = webhooks })
				w.reconcile(scanning)
				paid := w.pay(freshKey(), "pm_ok")
				id, charge := paid.text(t, "paymentId"), paid.text(t, "pspChargeId")
				dispute := w.door("/_disputes", `{"chargeId":"`+charge+`","amountCents":5000}`).text(t, "id")
				w.wantPayment(id, `"amountDisputedCents":5000`, `"status":"needs_response"`, `"evidenceDueBy":"`,
					`"reason":"fraudulent"`)
				tooMuch := w.refund(id, freshKey(), `{"amountCents":7001}`)
				tooMuch.expect(t, http.StatusConflict, "refund_exceeds_payment")
				w.door("/_disputes/"+dispute, `{"status":"under_review"}`)
				w.door("/_disputes/"+dispute, `{"status":"won"}`)
				w.wantPayment(id, `"status":"won"`, `"closedAt":"`)
				w.refund(id, freshKey(), `{"amountCents":8000}`).expect(t, http.StatusCreated, "")

				lost := w.door("/_disputes", `{"chargeId":"`+charge+`"}`).text(t, "id")
				w.door("/_disputes/"+lost, `{"status":"lost"}`)
				w.wantPayment(id, `"status":"lost"`, `"amountDisputedCents":4000`, `"amountRefundedCents":8000`)
				w.refund(id, freshKey(), `{}`).expect(t, http.StatusConflict, "refund_exceeds_payment")
				b := w.browse()
				b.signIn(operatorKey).expect(t, http.StatusSeeOther, "")
				steps := strings.Split(string(b.get("/console/payments/"+id).body), "<li")
				last := steps[len(steps)-1]
				if !strings.Contains(last, "dispute lost") || !strings.Contains(last, "keeps 0.00 USD") {
					t.Errorf("the life of the payment ends with %s", last)
				}
				w.wantNoOtherDeadLetters()
			})
		})
	}
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
		w.wantNoOtherDeadLetters()
	})
}
