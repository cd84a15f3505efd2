package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"payonce/internal/config"
	"payonce/internal/payment"
	"payonce/test/wait"
)

// price is what w.pay takes, in cents.
const price = 12000

// paid takes a payment and returns its id.
func (w *world) paid() string {
	w.t.Helper()
	r := w.pay(freshKey(), "pm_ok")
	r.expect(w.t, http.StatusCreated, "")
	return r.text(w.t, "paymentId")
}

func (w *world) refund(paymentID, key, body string) reply {
	w.t.Helper()
	return w.do(refundOf(paymentID, key, body))
}

// pspRefunds are the PSP's refunds under a key, or all of acme's.
func (w *world) pspRefunds(key string) []pspRefund {
	w.t.Helper()
	var l struct {
		Refunds []pspRefund `json:"refunds"`
	}
	w.askPSP("/_ledger?account=acme&idempotencyKey="+key, &l)
	return l.Refunds
}

type pspRefund struct {
	ID, IdempotencyKey, Reference, ChargeID, Currency, Reason, Status string
	AmountCents                                                       int64
}

// wantRefunded checks what a payment shows, and holds for refunds that may be confirmed yet.
func (w *world) wantRefunded(paymentID string, confirmed, held int) {
	w.t.Helper()
	shown := w.do(call{method: "GET", path: "/payments/" + paymentID})
	if got := shown.member(w.t, "amountRefundedCents"); got != float64(confirmed) {
		w.t.Fatalf("the payment shows %v as refunded, want %d", got, confirmed)
	}
	id, err := payment.ParseID(paymentID)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := w.count("SELECT refund_held_minor FROM payments WHERE id = $1", uuid.UUID(id)); got != held {
		w.t.Fatalf("%d are held for refunds, want %d", got, held)
	}
}

// wantUnused checks that a refund's key was not consumed, and that the PSP has not heard of it.
func (w *world) wantUnused(key string) {
	w.t.Helper()
	if n := w.count("SELECT count(*) FROM idempotency_keys WHERE key = $1", key); n != 0 {
		w.t.Fatalf("%d keys were reserved by a refused refund", n)
	}
	if n := w.count("SELECT count(*) FROM refunds WHERE idempotency_key = $1", key); n != 0 {
		w.t.Fatalf("%d refunds were written by a refused one", n)
	}
	if n := w.pspRequests("acme", key); n != 0 {
		w.t.Fatalf("PSP asked %d times", n)
	}
}

func TestPartIsRefunded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	payment := w.pay(freshKey(), "pm_ok")
	id, key := payment.text(t, "paymentId"), freshKey()
	r := w.refund(id, key, `{"amountCents":4500,"reason":"wrong size"}`)
	r.expect(t, http.StatusCreated, "")
	for member, want := range map[string]any{
		"paymentId": id, "status": "succeeded", "amountCents": 4500.0, "currency": "USD", "amount": "45.00",
		"reason": "wrong size",
	} {
		if got := r.member(t, member); got != want {
			t.Errorf("%s is %v, want %v", member, got, want)
		}
	}
	if r.header.Get("Location") != "/refunds/"+r.text(t, "refundId") || r.header.Get("Idempotency-Key") != key ||
		r.header.Get("Idempotent-Replayed") != "false" || r.header.Get("Idempotency-Key-Expires") == "" {
		t.Errorf("headers are %v", r.header)
	}
	want := pspRefund{
		ID: r.text(t, "pspRefundId"), IdempotencyKey: key, Reference: r.text(t, "refundId"),
		ChargeID: payment.text(t, "pspChargeId"),
		Currency: "USD", Reason: "wrong size", Status: "succeeded", AmountCents: 4500,
	}
	if got := w.pspRefunds(key); len(got) != 1 || got[0] != want {
		t.Errorf("the PSP's ledger has %+v, want %+v", got, want)
	}
	w.wantRefunded(id, 4500, 4500)
	shown := w.do(call{method: "GET", path: r.header.Get("Location"), as: readonlyKey})
	if shown.expect(t, http.StatusOK, ""); !bytes.Equal(shown.undated(), r.body) {
		t.Errorf("the refund reads %s, its answer %s", shown.body, r.body)
	}
}

func TestRefundWithoutAmountIsOfTheWholeRest(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.paid()
	w.refund(id, freshKey(), `{"amountCents":4500}`).expect(t, http.StatusCreated, "")
	r := w.refund(id, freshKey(), `{}`)
	if r.expect(t, http.StatusCreated, ""); r.member(t, "amountCents") != 7500.0 {
		t.Fatalf("the rest of 12000 after 4500 is %s", r.body)
	}
	w.wantRefunded(id, price, price)
	key := freshKey()
	w.refund(id, key, `{}`).expect(t, http.StatusConflict, "refund_exceeds_payment")
	w.wantUnused(key)
}

// Amounts that cannot all fit are asked for at once. What is refused would not have fitted, and nothing more is given
// than there is, whatever order they arrive in.
func TestTenRefundsAtOnceNeverExceedThePayment(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for round := range 6 {
		id := w.paid()
		granted, refused := w.refundAtOnce(id, func(i int) string {
			return fmt.Sprintf(`{"amountCents":%d}`, 1000+500*i+round) // 32 500 of 12 000
		})
		sum := 0.0
		for _, r := range granted {
			sum += r.member(t, "amountCents").(float64)
		}
		charged := int64(0)
		for _, r := range granted {
			charged += w.pspRefunds(r.header.Get("Idempotency-Key"))[0].AmountCents
		}
		if sum > price || float64(charged) != sum {
			t.Fatalf("of %d, we granted %v and the PSP gave back %d", price, sum, charged)
		}
		for _, asked := range refused {
			if float64(asked) <= price-sum {
				t.Errorf("a refund of %d was refused although %v are left", asked, price-sum)
			}
		}
		w.wantRefunded(id, int(sum), int(sum))
	}
}

func TestTenRefundsOfTheWholeRestAtOnceAreOne(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.paid()
	granted, refused := w.refundAtOnce(id, func(int) string { return `{}` })
	if len(granted) != 1 || len(refused) != 9 || len(w.pspRefunds("")) != 1 {
		t.Fatalf("%d were granted, %d refused, the PSP gave back %d", len(granted), len(refused), len(w.pspRefunds("")))
	}
	w.wantRefunded(id, price, price)
}

// refundAtOnce sends ten refunds, each under a key of its own. It returns the answers of those that succeeded, and the
// amounts of those that were refused for exceeding the payment; there must be no others.
func (w *world) refundAtOnce(id string, body func(i int) string) (granted []reply, refused []int) {
	w.t.Helper()
	var mu sync.Mutex
	wait.AtOnce(10, func(i int) {
		key := freshKey()
		r, err := w.try(refundOf(id, key, body(i)))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			w.t.Error(err)
		case r.status == http.StatusCreated:
			granted = append(granted, r)
		case r.status == http.StatusConflict && strings.Contains(string(r.body), `"code":"refund_exceeds_payment"`):
			amount := price + 1
			_, _ = fmt.Sscanf(body(i), `{"amountCents":%d}`, &amount)
			refused = append(refused, amount)
			w.wantUnused(key)
		default:
			w.t.Errorf("status %d: %s", r.status, r.body)
		}
	})
	return granted, refused
}

func TestRefundThatExceedsThePaymentDoesNotConsumeTheKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id, key := w.paid(), freshKey()
	w.refund(id, freshKey(), `{"amountCents":4500}`).expect(t, http.StatusCreated, "")
	for _, amount := range []string{"7501", "12001", "999999999999"} {
		r := w.refund(id, key, `{"amountCents":`+amount+`}`)
		r.expect(t, http.StatusConflict, "refund_exceeds_payment")
		if r.member(t, "retryable") != false {
			t.Errorf("the same refund will not fit later, either: %s", r.body)
		}
		w.wantUnused(key)
	}
	w.wantRefunded(id, 4500, 4500)
	w.refund(id, key, `{"amountCents":7500}`).expect(t, http.StatusCreated, "")
	w.wantRefunded(id, price, price)
}

func TestOnlyASucceededPaymentIsRefunded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	unreachable := w.withoutPSP()
	for status, payment := range map[string]reply{
		"processing": w.pay(freshKey(), "pm_500_charged"),
		"declined":   w.pay(freshKey(), "pm_declined"),
		"failed":     unreachable.pay(freshKey(), "pm_ok"),
	} {
		id, key := payment.text(t, "paymentId"), freshKey()
		if shown := w.do(call{method: "GET", path: "/payments/" + id}); shown.text(t, "status") != status {
			t.Fatalf("payment is %s, want %s", shown.body, status)
		}
		for _, body := range []string{`{}`, `{"amountCents":1}`} {
			w.refund(id, key, body).expect(t, http.StatusConflict, "payment_not_refundable")
			w.wantUnused(key)
		}
	}
}

func TestRefundIsReplayedToTheByte(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id, key := w.paid(), freshKey()
	first := w.refund(id, key, `{"amountCents":4500,"reason":"wrong size"}`)
	w.refund(id, freshKey(), `{}`).expect(t, http.StatusCreated, "") // nothing is left, and that is no matter
	for range 3 {
		again := w.do(refundOf(id, `"`+key+`"`, "{ \"reason\":\"wrong\\u0020size\",\n \"amountCents\":4500 }"))
		again.same(t, first)
		if again.header.Get("Idempotent-Replayed") != "true" {
			t.Fatal("a replay does not say so")
		}
	}
	if n := w.pspRequests("acme", key); n != 1 {
		t.Fatalf("PSP asked %d times", n)
	}
}

func TestOneKeyForAPaymentAndForItsRefundIsTwoKeys(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	payment := w.pay(key, "pm_ok")
	payment.expect(t, http.StatusCreated, "")
	refund := w.refund(payment.text(t, "paymentId"), key, `{}`)
	refund.expect(t, http.StatusCreated, "")
	if refund.header.Get("Idempotent-Replayed") != "false" {
		t.Fatal("the refund was taken for a repetition of the payment")
	}
	w.pay(key, "pm_ok").same(t, payment)
	w.refund(payment.text(t, "paymentId"), key, `{}`).same(t, refund)
	if l := w.ledger("acme", key); len(l.Charges) != 1 || len(l.Refunds) != 1 {
		t.Fatalf("the PSP's ledger has %+v", l)
	}
}

func TestRefundKeyForSomethingElseIsAMismatch(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id, key := w.paid(), freshKey()
	other, pending := w.paid(), w.pay(freshKey(), "pm_500_charged").text(t, "paymentId")
	first := w.refund(id, key, `{"amountCents":4500,"reason":"wrong size"}`)
	for name, c := range map[string]call{
		"another payment":                   refundOf(other, key, `{"amountCents":4500,"reason":"wrong size"}`),
		"a payment that cannot be refunded": refundOf(pending, key, `{"amountCents":4500,"reason":"wrong size"}`),
		"another amount":                    refundOf(id, key, `{"amountCents":4501,"reason":"wrong size"}`),
		"an amount that exceeds":            refundOf(id, key, `{"amountCents":12000,"reason":"wrong size"}`),
		"no amount":                         refundOf(id, key, `{"reason":"wrong size"}`),
		"another reason":                    refundOf(id, key, `{"amountCents":4500,"reason":"wrong colour"}`),
		"no reason":                         refundOf(id, key, `{"amountCents":4500}`),
	} {
		r := w.do(c)
		if r.status != http.StatusUnprocessableEntity ||
			r.text(t, "code") != "idempotency_key_reused_with_different_payload" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	if n := w.pspRequests("acme", key); n != 1 {
		t.Fatalf("PSP asked %d times", n)
	}
	w.wantRefunded(id, 4500, 4500)
	w.do(refundOf(id, key, `{"amountCents":4500,"reason":"wrong size"}`)).same(t, first)
}

func TestRefusedRefundIsStoredAndGivesItsShareBack(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id, key := w.paid(), freshKey()
	first := w.refund(id, key, `{"reason":"pm_declined"}`)
	first.expect(t, http.StatusPaymentRequired, "refund_declined")
	if first.text(t, "declineCode") != "insufficient_funds" || first.text(t, "refundId") == "" ||
		first.text(t, "paymentId") != id {
		t.Fatalf("unexpected answer: %s", first.body)
	}
	if first.header.Get("Location") != "/refunds/"+first.text(t, "refundId") ||
		first.text(t, "instance") != first.header.Get("Location") {
		t.Fatalf("unexpected answer: %v %s", first.header, first.body)
	}
	shown := w.do(call{method: "GET", path: first.header.Get("Location")})
	if shown.text(t, "status") != "declined" || shown.text(t, "declineCode") != "insufficient_funds" {
		t.Fatalf("refund is %s", shown.body)
	}
	w.wantRefunded(id, 0, 0)
	w.refund(id, key, `{"reason":"pm_declined"}`).same(t, first)
	if n := w.pspRequests("acme", key); n != 1 {
		t.Fatalf("PSP asked %d times", n)
	}
	w.refund(id, freshKey(), `{"amountCents":12000}`).expect(t, http.StatusCreated, "")
}

// Every one of these is unknown for us: never executed again, and its share is not given to anybody else.
func TestLostRefundIsPendingAndKeepsItsShare(t *testing.T) {
	t.Parallel()
	for reason, refunded := range map[string]int{"pm_500_charged": 1, "pm_never": 0, "pm_wrong_amount": 1} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			w := setup(t, func(o *options) {
				o.settings = func(c *config.API) { c.PSPTotal = 300 * time.Millisecond }
			})
			id, key := w.paid(), freshKey()
			for range 3 {
				r := w.refund(id, key, `{"amountCents":4500,"reason":"`+reason+`"}`)
				r.expect(t, http.StatusAccepted, "")
				if r.text(t, "status") != "processing" || r.header.Get("Location") != "/refunds/"+
					r.text(t, "refundId") || r.header.Get("Retry-After") == "" {
					t.Fatalf("unexpected answer: %v %s", r.header, r.body)
				}
			}
			if n := w.pspRequests("acme", key); n != 1 {
				t.Fatalf("PSP asked %d times", n)
			}
			if k := w.keyRow(key); k.Status != "unknown" {
				t.Fatalf("key is %+v", k)
			}
			w.wantRefunded(id, 0, 4500)
			w.refund(id, freshKey(), `{"amountCents":7501}`).expect(t, http.StatusConflict, "refund_exceeds_payment")
			deadLetters := 0
			if reason == "pm_wrong_amount" {
				deadLetters = 1
			}
			if n := w.count("SELECT count(*) FROM dead_letters WHERE key = $1 AND kind = 'psp_contradicts_request'",
				key); n != deadLetters {
				t.Fatalf("%d dead letters, want %d", n, deadLetters)
			}
			eventually(t, "the ledger's final state", func() bool { return len(w.pspRefunds(key)) == refunded })
		})
	}
}

func TestReleasedRefundGivesItsShareBackAndHoldsItAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	unreachable := w.withoutPSP()
	for _, body := range []string{`{}`, `{"amountCents":12000}`} {
		id, key := w.paid(), freshKey()
		r := unreachable.refund(id, key, body)
		r.expect(t, http.StatusServiceUnavailable, "psp_unavailable")
		if r.text(t, "paymentId") != id || r.member(t, "retryable") != true || r.header.Get("Retry-After") == "" {
			t.Fatalf("unexpected answer: %v %s", r.header, r.body)
		}
		path := "/refunds/" + r.text(t, "refundId")
		if shown := w.do(call{method: "GET", path: path}); shown.text(t, "status") != "failed" {
			t.Fatalf("refund is %s", shown.body)
		}
		w.wantRefunded(id, 0, 0)
		again := w.refund(id, key, body)
		again.expect(t, http.StatusCreated, "")
		if again.text(t, "refundId") != r.text(t, "refundId") || again.header.Get("Location") != path {
			t.Fatalf("a retry made another refund: %s, then %s", r.body, again.body)
		}
		if k := w.keyRow(key); k.Status != "completed" || k.Attempt != 2 || len(w.pspRefunds(key)) != 1 {
			t.Fatalf("key is %+v", k)
		}
		w.wantRefunded(id, price, price)
	}
}

// Meanwhile, others may have taken what a released refund gave back. Then its retry exceeds the payment, and stays
// free.
func TestReleasedRefundDoesNotTakeItsShareFromOthers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	unreachable := w.withoutPSP()
	id, key := w.paid(), freshKey()
	unreachable.refund(id, key, `{"amountCents":4500}`).expect(t, http.StatusServiceUnavailable, "psp_unavailable")
	w.refund(id, freshKey(), `{"amountCents":8000}`).expect(t, http.StatusCreated, "")
	for range 2 {
		w.refund(id, key, `{"amountCents":4500}`).expect(t, http.StatusConflict, "refund_exceeds_payment")
	}
	if k := w.keyRow(key); k.Status != "failed_retryable" || k.Attempt != 1 || w.pspRequests("acme", key) != 0 {
		t.Fatalf("key is %+v, PSP asked %d times", k, w.pspRequests("acme", key))
	}
	w.wantRefunded(id, 8000, 8000)
}

func TestInFlightRefundIsNotSentTwice(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := setup(t, func(o *options) { o.between = gate.wrapRefunds })
	id, key := w.paid(), freshKey()
	first := w.inBackground(refundOf(id, key, `{}`))
	gate.awaitArrival(t)
	busy := w.do(preferring(refundOf(id, key, `{}`), "wait=0"))
	busy.expect(t, http.StatusConflict, "idempotency_key_in_progress")
	if busy.text(t, "paymentId") != id || busy.text(t, "refundId") == "" || busy.header.Get("Retry-After") == "" {
		t.Fatalf("unexpected answer: %v %s", busy.header, busy.body)
	}
	async := refundOf(id, key, `{}`)
	async.header = http.Header{"Prefer": {"respond-async"}}
	r := w.do(async)
	r.expect(t, http.StatusAccepted, "")
	if r.header.Get("Location") != "/refunds/"+busy.text(t, "refundId") || r.text(t, "status") != "processing" {
		t.Fatalf("unexpected answer: %v %s", r.header, r.body)
	}
	w.wantRefunded(id, 0, price) // held before it is sent
	w.refund(id, freshKey(), `{"amountCents":1}`).expect(t, http.StatusConflict, "refund_exceeds_payment")
	gate.open()
	done := <-first
	done.expect(t, http.StatusCreated, "")
	w.refund(id, key, `{}`).same(t, done)
	if n := w.pspRequests("acme", key); n != 1 {
		t.Fatalf("PSP asked %d times", n)
	}
}

func TestRefundRequestsThatAreNotValid(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id, key := w.paid(), freshKey()
	for body, place := range map[string]string{
		`{"amountCents":0}`: "/amountCents", `{"AmountCents":1}`: "/AmountCents",
		`{"reason":"4242 4242 4242 4242"}`: "/reason",
	} {
		r := w.refund(id, key, body)
		r.expect(t, http.StatusBadRequest, "invalid_request")
		if diff := cmp.Diff([]string{place}, r.reasons(t)); diff != "" {
			t.Errorf("%s: places (-want +got):\n%s", body, diff)
		}
	}
	w.wantUnused(key)
	w.do(refundOf(id, "", `{}`)).expect(t, http.StatusBadRequest, "idempotency_key_missing")
}

func long(n int) string { return strings.Repeat("x", n) }

func TestRefundsOfAPaymentAreListed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id, other := w.paid(), w.paid()
	path := "/payments/" + id + "/refunds"
	empty := w.do(call{method: "GET", path: path})
	if strings.TrimSpace(string(empty.body)) != `{"data":[],"hasMore":false}` {
		t.Errorf("no refunds: %s", empty.body)
	}
	w.refund(other, freshKey(), `{"amountCents":1}`).expect(t, http.StatusCreated, "")
	for cents, status := range map[int]int{
		100: http.StatusCreated, 200: http.StatusCreated, 300: http.StatusPaymentRequired,
	} {
		reason := map[bool]string{true: "sold out", false: "pm_declined"}[status == http.StatusCreated]
		w.refund(id, freshKey(), fmt.Sprintf(`{"amountCents":%d,"reason":%q}`, cents, reason)).expect(t, status, "")
	}
	all := w.listOf(acmeKey, path, "")
	var ids []string
	for _, r := range all.Data {
		ids = append(ids, r.RefundID)
	}
	newestFirst := slices.IsSortedFunc(ids, func(a, b string) int { return strings.Compare(b, a) })
	if len(ids) != 3 || all.HasMore || !newestFirst {
		t.Fatalf("%+v", all)
	}
	for _, r := range all.Data {
		want := map[int]string{100: "succeeded", 200: "succeeded", 300: "declined"}[r.AmountCents]
		if r.PaymentID != id || r.Status != want {
			t.Errorf("%+v", r)
		}
	}
	for _, limit := range []int{1, 2, 3} {
		got, query := listed{HasMore: true}, fmt.Sprintf("limit=%d", limit)
		for cursor := ""; got.HasMore; {
			page := w.listOf(acmeKey, path, query+cursor)
			got.Data, got.HasMore, cursor = append(got.Data, page.Data...), page.HasMore, "&cursor="+page.NextCursor
		}
		if diff := cmp.Diff(all.Data, got.Data); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
	w.do(call{method: "GET", path: path, as: globexKey}).expect(t, http.StatusNotFound, "not_found")
}
