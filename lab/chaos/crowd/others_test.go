package crowd

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"payonce/lab/invariants"
)

func TestOthersRefundWithoutAMarkOfOurs(t *testing.T) {
	t.Parallel()
	of := paid{tenant: "acme", ID: "pay_1", ChargeID: "ch_1", Amount: 100, Currency: "USD"}
	for name, row := range map[string]struct {
		stripe bool
		amount int64
		want   string
	}{
		"native": {false, 100,
			`POST /v1/charges/ch_1/refunds "others-1" {"amountCents":100,"currency":"USD","reason":"by hand"}`},
		"Stripe, a part":   {true, 60, `POST /v1/refunds "" amount=60&payment_intent=ch_1`},
		"Stripe, the rest": {true, 100, `POST /v1/refunds "" payment_intent=ch_1`},
	} {
		var asked []string
		b := setup(t, func(_ int, r *http.Request) (int, string) {
			body, _ := io.ReadAll(r.Body)
			asked = append(asked, r.Method+" "+r.URL.Path+` "`+r.Header.Get("Idempotency-Key")+`" `+string(body))
			return map[bool]int{true: http.StatusOK, false: http.StatusCreated}[row.stripe], `{"status":"succeeded"}`
		})
		b.o.PSP = b.o.APIs[0]
		if row.stripe {
			b.o.Stripe = invariants.Stripe{URL: "http://" + b.o.PSP, Secret: "s"}
		}
		if !b.refundElsewhere(t.Context(), of, "others-1", row.amount) || !slices.Equal(asked, []string{row.want}) {
			t.Errorf("%s: asked %q", name, asked)
		}
		if row.stripe != (len(b.Others()) == 0) {
			t.Errorf("%s: keys of others %v", name, b.Others())
		}
	}
}

// Others refund while a client is about to, and soon after the charge.
func TestOthersChooseWhatIsInMotion(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ int, r *http.Request) (int, string) {
		if r.URL.Path != "/_ledger" {
			return http.StatusCreated, paidBody
		}
		return http.StatusOK, `{"charges":[
			{"id":"ch_old","status":"succeeded","reference":"pay_1","amountCents":1,"currency":"USD"},
			{"id":"ch_new","status":"succeeded","reference":"pay_2","amountCents":2,"currency":"EUR"},
			{"id":"ch_declined","status":"declined","reference":"pay_3"}, {"id":"ch_theirs","status":"succeeded"}]}`
	})
	b.o.PSP = b.o.APIs[0]
	known := paid{tenant: "acme", ID: "pay_1", ChargeID: "ch_1", Amount: 100, Currency: "USD"}
	b.known[0].paid = []paid{known}
	luck := b.o.Plan.Carry(0, 0)
	chosen := make(chan paid)
	go func() {
		of, _ := b.victim(t.Context(), luck, 0)
		chosen <- of
	}()
	e := b.errand("refund")
	for deadline := time.Now().Add(othersEvery); time.Now().Before(deadline); {
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
	if of, _ := b.victim(t.Context(), luck, 1); of != known {
		t.Errorf("of a known payment: %+v", of)
	}
	if of, _ := b.victim(t.Context(), luck, 2); of.ChargeID != "ch_new" || of.Amount != 2 || of.Currency != "EUR" {
		t.Errorf("of the newest charge: %+v", of)
	}
	if !strings.HasPrefix(b.api.asked[0], "POST /payments/pay_1/refunds") {
		t.Errorf("asked %v", b.api.asked)
	}
}
