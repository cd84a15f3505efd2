package stripe

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/demo/mockpsp"
)

// A form is an intent whose amount is one of Stripe's, or is refused.
func FuzzIntentForm(f *testing.F) {
	f.Add("amount=1000&currency=krw&payment_method=pm_ok&metadata[reference]=pay_1")
	f.Add("amount=1e3&currency=krw")
	f.Add("amount=%zz")
	f.Fuzz(func(t *testing.T, form string) {
		r := httptest.NewRequest(http.MethodPost, "/v1/payment_intents", strings.NewReader(form))
		w := httptest.NewRecorder()
		p, err := readParams(w, r)
		var made *intent
		if err == nil {
			err = endpoints()[0].check(p)
		}
		if err == nil {
			made, err = parseIntent(&call{w: w, r: r, params: p})
		}
		if err != nil {
			e, ok := errors.AsType[apiError](err)
			if !ok || e.status/100 != 4 || len(mockpsp.Render(e.shown())) == 0 {
				t.Fatalf("%q is refused with %v", form, err)
			}
			return
		}
		if made.Amount < 1 || made.Amount > maxAmount || len(made.Currency) != 3 || len(made.Metadata) > maxMetadata {
			t.Fatalf("%q is %+v", form, made)
		}
	})
}

// A note that is read shows what it says, whatever it says.
func FuzzNote(f *testing.F) {
	f.Add([]byte(`{"intent":{"id":"pi_1","account":"acct_1","amount":5,"currency":"usd","status":"succeeded","secret":"s",` +
		`"created":1},"events":[{"id":"evt_1","type":"payment_intent.created","account":"acct_1","created":1}],` +
		`"answer":{"key":{"account":"acct_1","key":"k"},"hash":"00","status":200,"body":"{}","request":"req_1",` +
		`"at":"2026-11-20T12:00:00Z"}}`))
	f.Add([]byte(`{"events":[{"id":"","type":"x","account":"","created":0}]}`))
	f.Add([]byte(`{"mark":"m","forgets":{}}`))
	f.Add([]byte(`{"dispute":{"id":"du_1","account":"acct_1","amount":5,"currency":"usd","status":"won","created":1,` +
		`"withdrawn":1,"reinstated":2},"events":[{"id":"evt_2","type":"charge.dispute.closed","account":"acct_1",` +
		`"created":2}]}`))
	f.Fuzz(func(t *testing.T, note []byte) {
		ch, err := readNote(note)
		if err != nil {
			return
		}
		s, k := newStore(), newKeys(time.Hour)
		k.publish(ch, s.publish(ch, timeOf(ch)))
		for _, e := range ch.Events {
			if len(mockpsp.Render(e.shown())) == 0 {
				t.Fatalf("%q shows nothing", note)
			}
		}
		if ch.Intent != nil {
			kept := s.intentSlot(ch.Intent.Account, ch.Intent.ID)
			if diff := cmp.Diff(ch.Intent, kept.newest); diff != "" {
				t.Fatalf("%q is kept as another intent: %s", note, diff)
			}
		}
	})
}
