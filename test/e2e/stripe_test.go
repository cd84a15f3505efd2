package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/demo/mockpsp"
	"payonce/demo/mockpsp/stripe"
	"payonce/internal/config"
	"payonce/test/pgtest"
)

const stripeAccount = "acct_acme"

// atStripe is for a world whose tenants are at Stripe.
func atStripe(o *options) { o.stripe = true }

// speakStripe has the mock PSP speak Stripe's dialect on a port of its own, too.
func (w *world) speakStripe(o options) {
	w.t.Helper()
	c := stripe.DefaultConfig()
	c.ActionDelay, c.SearchLag = time.Second, 0
	if o.webhooks {
		c.WebhookURL = "http://" + w.api.Listener.Addr().String() + "/webhooks/stripe"
		w.own.StripeWebhookSecrets = c.WebhookSecrets
	}
	dialect, err := stripe.New(w.mock, c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.stripe = dialect
	server := httptest.NewServer(o.between(dialect))
	w.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	w.own.PSP, w.own.StripeURL, w.own.StripeSecret = "stripe", server.URL, c.Secret
}

// endingsAtStripe are the endings of the same tokens there, and of those that only Stripe has. A lost confirmation is
// read, and what was not executed is cancelled, by the request itself.
func endingsAtStripe() []ending {
	return []ending{
		{"pm_ok", http.StatusCreated, paidOnce},
		{"pm_1NXWPnFTKLoHxWqrGexC2v1e", http.StatusCreated, paidOnce},
		{"pm_declined", http.StatusPaymentRequired, declinedOnce},
		{"pm_does_not_exist", http.StatusPaymentRequired, declinedOnce},
		{"pm_slow", http.StatusCreated, paidOnce},
		{"pm_timeout_charged", http.StatusCreated, paidOnce},
		{"pm_silent_charged", http.StatusCreated, paidOnce},
		{"pm_500_charged", http.StatusCreated, paidOnce},
		{"pm_reset_charged", http.StatusCreated, paidOnce},
		{"pm_conflict", http.StatusServiceUnavailable, cancelledAtOnce},
		{"pm_forgotten_key", http.StatusCreated, paidOnce},
		{"pm_late_charge", http.StatusServiceUnavailable, cancelledAtOnce},
		{"pm_timeout_not_charged", http.StatusServiceUnavailable, cancelledAtOnce},
		{"pm_500_not_charged", http.StatusServiceUnavailable, cancelledAtOnce},
		{"pm_create_500", http.StatusServiceUnavailable, freeAtOnce},
		{"pm_create_lost", http.StatusServiceUnavailable, freeAtOnce},
		{"pm_rate_limited", http.StatusServiceUnavailable, freeAtThird},
		{"pm_requires_action", http.StatusAccepted, completedAs("succeeded")},
		{"pm_bank_debit", http.StatusAccepted, completedAs("succeeded")},
		{"pm_bank_debit_fails", http.StatusAccepted, completedAs("declined")},
		{"pm_requires_action_abandoned", http.StatusAccepted, cancelledInTheEnd},
		{"pm_wrong_amount", http.StatusAccepted, heldForOperator("psp_contradicts_request")},
		{"pm_stuck", http.StatusAccepted, heldForOperator("lookups_exhausted")},
	}
}

// wantMoved checks how much money the PSP has moved under a key.
func (w *world) wantMoved(key string, want int) {
	w.t.Helper()
	moved := 0
	l := w.ledger(stripeAccount, key)
	for _, m := range append(l.Charges, l.Refunds...) {
		if m.Status == "succeeded" {
			moved++
		}
	}
	if moved != want {
		w.t.Fatalf("the PSP has moved money %d times, want %d: %+v", moved, want, l)
	}
}

func paidOnce(w *world, key string, retry func() reply) {
	w.t.Helper()
	first := retry()
	first.expect(w.t, http.StatusCreated, "")
	retry().same(w.t, first)
	w.wantMoved(key, 1)
	if k := w.keyRow(key); k.Attempt != 1 {
		w.t.Fatalf("the key is %+v", k)
	}
}

func declinedOnce(w *world, key string, retry func() reply) {
	w.t.Helper()
	first := retry()
	first.expect(w.t, http.StatusPaymentRequired, "payment_declined")
	retry().same(w.t, first)
	w.wantMoved(key, 0)
}

// freeAtOnce: the answer says that nothing was executed, and the next request is executed. No lookup and no grace
// period came between them.
func freeAtOnce(w *world, key string, retry func() reply) {
	w.t.Helper()
	w.wantMoved(key, 0)
	w.wantMoves(key, "owner: in_progress > failed_retryable")
	paidAfter(w, key, retry, 2)
}

// cancelledAtOnce is freeAtOnce for a payment whose intent could still be executed. So the answer "nothing was
// executed" is true only if Stripe has cancelled the intent.
func cancelledAtOnce(w *world, key string, retry func() reply) {
	w.t.Helper()
	if got := w.intents(key); !slices.Equal(got, []string{"canceled"}) {
		w.t.Fatalf("the payment is free, and its intents at Stripe are %q", got)
	}
	freeAtOnce(w, key, retry)
}

// intents are the statuses of the intents at Stripe that a key has made, the newest first.
func (w *world) intents(key string) (statuses []string) {
	w.t.Helper()
	var list struct {
		Data []struct {
			Status   string            `json:"status"`
			Metadata map[string]string `json:"metadata"`
		} `json:"data"`
		HasMore bool `json:"has_more"`
	}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet,
		w.own.StripeURL+"/v1/payment_intents?limit=100", http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + w.own.StripeSecret}, "Stripe-Account": {stripeAccount}}
	// The client of the world compares each answer with our own API document.
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.UnmarshalRead(res.Body, &list); err != nil || res.StatusCode != http.StatusOK || list.HasMore {
		w.t.Fatalf("list the intents: %d, more %t, %v", res.StatusCode, list.HasMore, err)
	}
	mark := "payonce:" + pgtest.Value[string](w.t, w.db, "SELECT id::text FROM installation")
	for _, i := range list.Data {
		if i.Metadata["origin"] != mark {
			w.t.Errorf("the origin is %q, want %q", i.Metadata["origin"], mark)
		}
		if i.Metadata["idempotency_key"] == key {
			statuses = append(statuses, i.Status)
		}
	}
	return statuses
}

// freeAtThird is freeAtOnce for a PSP that refuses twice.
func freeAtThird(w *world, key string, retry func() reply) {
	w.t.Helper()
	retry().expect(w.t, http.StatusServiceUnavailable, "psp_unavailable")
	paidAfter(w, key, retry, 3)
}

func paidAfter(w *world, key string, retry func() reply, attempts int) {
	w.t.Helper()
	first := retry()
	first.expect(w.t, http.StatusCreated, "")
	retry().same(w.t, first)
	w.wantMoved(key, 1)
	if k := w.keyRow(key); k.Attempt != attempts {
		w.t.Fatalf("the key is %+v, want attempt %d", k, attempts)
	}
}

// completedAs: the PSP waited for the customer or a bank, and told the outcome later.
func completedAs(status string) func(*world, string, func() reply) {
	return func(w *world, key string, retry func() reply) {
		w.t.Helper()
		if k := w.becomes(key, "completed"); k.Attempt != 1 {
			w.t.Fatalf("the key is %+v", k)
		}
		shown := w.do(call{method: "GET", path: w.resource(key)})
		if shown.text(w.t, "status") != status {
			w.t.Fatalf("shown is %s", shown.body)
		}
		if status == "succeeded" {
			w.wantMoved(key, 1)
		} else {
			w.wantMoved(key, 0)
		}
		retry().same(w.t, retry())
	}
}

// cancelledInTheEnd: the customer never came. After the grace period the lookup has cancelled the charge.
func cancelledInTheEnd(w *world, key string, _ func() reply) {
	w.t.Helper()
	w.becomes(key, "failed_retryable")
	w.wantMoves(key, "owner: in_progress > unknown", "lookup: unknown > failed_retryable")
	w.wantMoved(key, 0)
}

func heldForOperator(kind string) func(*world, string, func() reply) {
	return func(w *world, key string, retry func() reply) {
		w.t.Helper()
		w.awaitDeadLetter(kind, key)
		retry().expect(w.t, http.StatusAccepted, "")
		w.wantMoved(key, 1)
	}
}

func TestEveryPaymentMethodEndsByItselfAtStripe(t *testing.T) {
	if testing.Short() {
		t.Skip("long: every payment method, to its end")
	}
	t.Parallel()
	w := setupOpen(t, atStripe, func(o *options) {
		// A late confirmation lands long after the request has cancelled, however slow the machine is.
		o.psp = func(c *mockpsp.Config) { c.LateDelay = patience }
	}, shared(func(c *config.Shared) {
		// All begin at once, each with several requests to the PSP. One that is late by itself would be cancelled.
		c.PSPTotal, c.Lease, c.PSPLate = 3*time.Second, 9*time.Second, time.Second
	}))
	w.reconcile()
	endEach(t, w, endingsAtStripe(), paymentOf)
	w.wantNoOtherDeadLetters("psp_contradicts_request", "lookups_exhausted")
}

// refundEndingsAtStripe are the endings of a refund. Stripe executes it with one request and cannot end it. So a refund
// that was not executed is free after the grace period.
func refundEndingsAtStripe() []ending {
	return []ending{
		{"pm_ok", http.StatusCreated, paidOnce},
		{"pm_slow", http.StatusCreated, paidOnce},
		{"pm_declined", http.StatusPaymentRequired, refundDeclined},
		{"pm_timeout_charged", http.StatusAccepted, completedAs("succeeded")},
		{"pm_silent_charged", http.StatusAccepted, completedAs("succeeded")},
		{"pm_500_charged", http.StatusAccepted, completedAs("succeeded")},
		{"pm_reset_charged", http.StatusAccepted, completedAs("succeeded")},
		{"pm_late_charge", http.StatusAccepted, completedAs("succeeded")},
		{"pm_bank_debit", http.StatusAccepted, completedAs("succeeded")},
		{"pm_bank_debit_fails", http.StatusAccepted, completedAs("declined")},
		{"pm_timeout_not_charged", http.StatusAccepted, freeAfterGrace},
		{"pm_500_not_charged", http.StatusAccepted, freeAfterGrace}, // The 500 is saved, and the next key is another.
		{"pm_stuck", http.StatusAccepted, heldForOperator("lookups_exhausted")},
		{"pm_refund_returned", http.StatusCreated, comesBack},
	}
}

// comesBack: the refund has succeeded, and the bank gives the money back later. The client keeps its answer, and the
// refund has failed.
func comesBack(w *world, key string, retry func() reply) {
	w.t.Helper()
	first := retry()
	first.expect(w.t, http.StatusCreated, "")
	refund := call{method: "GET", path: first.header.Get("Location")}
	eventually(w.t, "the money comes back", func() bool { return w.do(refund).text(w.t, "status") == "failed" })
	retry().same(w.t, first)
}

func refundDeclined(w *world, key string, retry func() reply) {
	w.t.Helper()
	retry().expect(w.t, http.StatusPaymentRequired, "refund_declined")
	w.wantMoved(key, 0)
}

func freeAfterGrace(w *world, key string, retry func() reply) {
	w.t.Helper()
	w.becomes(key, "failed_retryable")
	w.wantMoves(key, "owner: in_progress > unknown", "lookup: unknown > failed_retryable")
	w.wantMoved(key, 0)
	paidAfter(w, key, retry, 2)
}

func TestEveryFaultOfARefundEndsByItselfAtStripe(t *testing.T) {
	if testing.Short() {
		t.Skip("long: every fault, to its end")
	}
	t.Parallel()
	w := setupOpen(t, atStripe)
	w.reconcile()
	payments := map[string]string{}
	for _, c := range refundEndingsAtStripe() {
		payments[c.fault] = w.paid()
	}
	endEach(t, w, refundEndingsAtStripe(), func(key, fault string) call {
		return refundOf(payments[fault], key, `{"amountCents":5000,"reason":"`+fault+`"}`)
	})
}

// wantNoOtherDeadLetters checks that each kind has one dead letter, and that there is no other kind. Events of types
// that nobody has asked for, and of objects that are not final, are no cases for an operator.
func (w *world) wantNoOtherDeadLetters(kinds ...string) {
	w.t.Helper()
	found := pgtest.Values[string](w.t, w.db, "SELECT kind FROM dead_letters ORDER BY kind DESC")
	if strings.Join(found, " ") != strings.Join(kinds, " ") {
		w.t.Fatalf("dead letters are %q, want %q", found, kinds)
	}
}

// The database goes back to a time before a payment, and the PSP does not.

// goesBack takes a key and its payment away, as a restore does.
func (w *world) goesBack(key string) {
	w.t.Helper()
	for _, table := range []string{"payments", "idempotency_key_events", "idempotency_keys"} {
		column := "key"
		if table == "payments" {
			column = "idempotency_key"
		}
		w.behindTheGuard("DELETE FROM "+table+" WHERE "+column+" = $1", key)
	}
}

// forgets has the PSP forget its keys, as it does after a day.
func (w *world) forgets() {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.mock.ServeHTTP(rec, httptest.NewRequest(http.MethodDelete, "/_keys", nil))
	if rec.Code != http.StatusOK {
		w.t.Fatalf("the PSP answers %d: %s", rec.Code, rec.Body)
	}
}

// A client sends a key that a restore has lost. Stripe knows the key with another payment, and forgets it after a day.
// To make another object then, and to cancel it, proves nothing.
func TestKeyThatStripeKnewWithAnotherPaymentIsNotChargedTwice(t *testing.T) {
	t.Parallel()
	w := setupOpen(t, atStripe, shared(soon))
	key := freshKey()
	w.pay(key, "pm_ok").expect(t, http.StatusCreated, "")
	w.goesBack(key)
	w.pay(key, "pm_ok").expect(t, http.StatusAccepted, "")
	w.forgets()

	d := w.openOps()
	w.reconcile(func(c *config.Reconciler) { c.ScanEvery = never })
	d.resolve(d.find("psp_contradicts_request", key), "retry").expect(t, http.StatusOK, "")
	found := d.find("psp_contradicts_request", key) // Stripe has a charge under the key, for another payment.
	if found.Version != 1 {
		t.Fatalf("dead letter is %+v", found)
	}
	w.pay(key, "pm_ok").expect(t, http.StatusAccepted, "")
	w.wantMoved(key, 1)
}

// What Stripe cannot count is refused before the key is used: of a refund as of a payment. The third decimal of a
// three-decimal currency must be zero, and an ariary has no parts.
func TestRefundThatStripeCannotCountIsRefusedBeforeItsKeyIsUsed(t *testing.T) {
	t.Parallel()
	w := setup(t, atStripe)
	for currency, part := range map[string]struct{ wrong, right int }{"KWD": {125, 120}, "MGA": {150, 100}} {
		paid := w.do(call{method: "POST", path: "/payments", key: freshKey(),
			body: strings.Replace(order("pm_ok"), "USD", currency, 1)})
		paid.expect(t, http.StatusCreated, "")
		id, key := paid.text(t, "paymentId"), freshKey()
		r := w.refund(id, key, fmt.Sprintf(`{"amountCents":%d}`, part.wrong))
		r.expect(t, http.StatusBadRequest, "invalid_request")
		if got := r.reasons(t); !slices.Equal(got, []string{"/amountCents"}) {
			t.Errorf("%s: refused for %v", currency, got)
		}
		w.wantUnused(key)
		w.refund(id, key, fmt.Sprintf(`{"amountCents":%d}`, part.right)).expect(t, http.StatusCreated, "")
		w.refund(id, freshKey(), `{}`).expect(t, http.StatusCreated, "")
	}
}
