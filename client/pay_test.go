package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const reset = 0

func problem(status int, code string) reply { return reply{status: status, code: code} }

func TestKeyIsStoredBeforeTheFirstSend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reply{status: 201})
		result, err := b.client.Pay(t.Context(), order)
		if err != nil || !result.Paid || result.PaymentID != "pay_1" || result.Intent != order.ID {
			t.Fatalf("%+v, %v", result, err)
		}
		first := b.seen[0]
		if first.store.Key != first.key || first.key == "" || string(first.store.Body) != first.body ||
			first.store.State != Open || first.body != orderBody {
			t.Errorf("sent %+v while the store had %+v", first, first.store)
		}
	})
}

func TestNothingIsSentIfTheKeyCannotBeStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reply{status: 201})
		_ = b.journal.Close()
		if _, err := b.client.Pay(t.Context(), order); err == nil {
			t.Error("it paid without a store")
		}
		if b.attempts(t) != 0 {
			t.Error("it sent a key that no store has")
		}
	})
}

func TestEachAttemptHasTheSameKeyAndBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reply{status: reset}, problem(500, "internal_error"), problem(429, "rate_limited"),
			reply{status: 502, body: "<html>"}, reply{status: 400, body: "bad gateway of a proxy"},
			problem(402, "refund_declined"), problem(409, "idempotency_key_in_progress"),
			problem(503, "psp_unavailable"),
			reply{status: 302, header: map[string]string{"Location": "/elsewhere"}},
			reply{status: 202, body: "{}"}, reply{status: 201})
		result, err := b.client.Pay(t.Context(), order)
		if err != nil || !result.Paid {
			t.Fatalf("%+v, %v", result, err)
		}
		if n := b.attempts(t); n != 11 {
			t.Errorf("%d attempts", n)
		}
	})
}

func paidBody(status, customer string, amount int, currency string) string {
	return fmt.Sprintf(`{"paymentId":"pay_1","status":%q,"customerId":%q,"amountCents":%d,"currency":%q}`, status,
		customer, amount, currency)
}

// What ends an intent must be about this key and this payment, and whole.
func TestAnswerOfAnotherPaymentIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, odd := range map[string]reply{
		"another key":      {status: 201, header: map[string]string{"Idempotency-Key": "another"}},
		"decline, no key":  {status: 402, code: "payment_declined", header: map[string]string{"Idempotency-Key": ""}},
		"another amount":   {status: 201, body: paidBody("succeeded", "cus-1", 12, "USD")},
		"another customer": {status: 201, body: paidBody("succeeded", "cus-2", 12000, "USD")},
		"another currency": {status: 201, body: paidBody("succeeded", "cus-1", 12000, "KRW")},
		"no payment id":    {status: 201, body: `{"status":"succeeded","customerId":"cus-1","amountCents":12000,"currency":"USD"}`},
		"processing":       {status: 201, body: paidBody("processing", "cus-1", 12000, "USD")},
		"half an answer":   {status: 201, body: `{"paymentId":"pay_1","sta`},
		"too long": {status: 201,
			body: paidBody("succeeded", "cus-1", 12000, "USD") + strings.Repeat(" ", maxAnswer)},
		"decline as text": {status: 402, code: "payment_declined",
			header: map[string]string{"Content-Type": "text/plain"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, odd, reply{status: 201})
				result, err := b.client.Pay(t.Context(), order)
				if err != nil || !result.Paid || b.attempts(t) != 2 {
					t.Errorf("%+v, %v after %d attempts", result, err, len(b.seen))
				}
			})
		})
	}
}

func TestDeclineEndsTheIntent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, problem(402, "payment_declined"), reply{status: 201})
		for range 2 {
			result, err := b.client.Pay(t.Context(), order)
			if err != nil || result.Paid || result.DeclineCode != "lost_card" || result.PaymentID != "pay_1" {
				t.Errorf("%+v, %v", result, err)
			}
			b.restart(t)
		}
		if b.attempts(t) != 1 {
			t.Error("an intent that has ended was sent again")
		}
	})
}

func TestEndIsToldAgainAfterACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reply{status: 201})
		first, err := b.client.Pay(t.Context(), order)
		if err != nil {
			t.Fatal(err)
		}
		b.restart(t)
		again, err := b.client.Pay(t.Context(), order)
		if err != nil || !again.Paid || b.attempts(t) != 1 {
			t.Errorf("%+v, %v after %d attempts", again, err, len(b.seen))
		}
		sameBytes(t, first.Answer, again.Answer)
		if results, _ := b.resumed(t.Context(), t); len(results) != 0 {
			t.Errorf("an intent that has ended was resumed: %+v", results)
		}
	})
}

func TestDeadlineLeavesTheIntentOpenAndResumeGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reply{status: reset})
		began := time.Now()
		_, err := b.client.Pay(patiently(t, 30*time.Second), order)
		var unknown *UnknownError
		if !errors.As(err, &unknown) || unknown.Intent != order.ID || unknown.Attempts != len(b.seen) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v after %d attempts", err, len(b.seen))
		}
		if took := time.Since(began); took > 30*time.Second || len(b.seen) < 3 {
			t.Errorf("%d attempts in %s", len(b.seen), took)
		}
		b.restart(t)
		b.script = []reply{{status: 201}}
		results, errs := b.resumed(t.Context(), t)
		if len(results) != 1 || errs[0] != nil || !results[0].Paid || results[0].Intent != order.ID {
			t.Errorf("resumed %+v, %v", results, errs)
		}
		b.attempts(t)
	})
}

func TestCallWithoutADeadlineEndsWithPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reply{status: 202, body: "{}", header: map[string]string{"Retry-After": "2"}})
		began := time.Now()
		_, err := b.client.Pay(context.WithoutCancel(t.Context()), order)
		var unknown *UnknownError
		if took := time.Since(began); !errors.As(err, &unknown) || took > defaultPatience || took < defaultPatience/2 {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// The answer may come when the caller has given up. It is stored all the same.
func TestEndIsStoredAlsoWhenTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reply{status: 201})
		ctx, cancel := context.WithCancel(t.Context())
		b.onSend = cancel
		result, err := b.client.Pay(ctx, order)
		if stored := b.stored(t); err == nil && (!result.Paid || stored.State != Ended) {
			t.Errorf("%+v, %v; stored %+v", result, err, stored)
		} else if err != nil {
			t.Errorf("the answer was lost: %v", err)
		}
	})
}

func TestRefusedRequestMayBeCorrectedUnderItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, problem(429, "rate_limited"), problem(400, "invalid_request"), reply{status: 201})
		wrong := order
		wrong.Currency = "usd"
		_, err := b.client.Pay(t.Context(), wrong)
		var refused *RefusedError
		if !errors.As(err, &refused) || !refused.Untouched || refused.Status != 400 ||
			refused.Code != "invalid_request" {
			t.Fatalf("%v", err)
		}
		b.restart(t)
		if result, err := b.client.Pay(t.Context(), order); err != nil || !result.Paid {
			t.Fatalf("%+v, %v", result, err)
		}
		if b.seen[0].key != b.seen[2].key || b.seen[2].body != orderBody || b.seen[2].store.State != Open {
			t.Errorf("sent %+v, and then %+v", b.seen[0], b.seen[2])
		}
	})
}

// An attempt whose answer was lost may have charged. A refusal of the next attempt says nothing about it.
func TestRefusalAfterALostAnswerLeavesTheIntentOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reply{status: reset}, problem(401, "unauthenticated"), reply{status: 201})
		_, err := b.client.Pay(t.Context(), order)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Untouched {
			t.Fatalf("%v", err)
		}
		other := order
		other.AmountCents++
		if _, err := b.client.Pay(t.Context(), other); !errors.Is(err, ErrIntentChanged) {
			t.Errorf("%v", err)
		}
		b.restart(t)
		if results, errs := b.resumed(t.Context(), t); len(results) != 1 || errs[0] != nil || !results[0].Paid {
			t.Errorf("%+v, %v", results, errs)
		}
		if b.attempts(t) != 3 {
			t.Errorf("%d attempts", len(b.seen))
		}
	})
}

func TestStuckIntentSendsNothingMore(t *testing.T) {
	t.Parallel()
	for status, code := range map[int]string{
		http.StatusUnprocessableEntity: "idempotency_key_reused_with_different_payload",
		http.StatusGone:                "idempotency_key_expired",
	} {
		synctest.Test(t, func(t *testing.T) {
			b := setup(t, problem(status, code), reply{status: 201})
			for range 2 {
				_, err := b.client.Pay(t.Context(), order)
				var stuck *StuckError
				if !errors.As(err, &stuck) || stuck.Code != code || stuck.Status != status {
					t.Errorf("%v", err)
				}
				b.restart(t)
			}
			results, _ := b.resumed(t.Context(), t)
			if b.attempts(t) != 1 || len(results) != 0 {
				t.Errorf("%d attempts, resumed %v", len(b.seen), results)
			}
		})
	}
}

func TestOldKeyIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reply{status: reset})
		_, _ = b.client.Pay(patiently(t, time.Second), order)
		before := b.attempts(t)
		b.client.config.Now = func() time.Time { return time.Now().Add(defaultKeyLife) }
		_, err := b.client.Pay(t.Context(), order)
		_, errs := b.resumed(t.Context(), t)
		if !errors.Is(err, ErrKeyTooOld) || len(errs) != 1 || !errors.Is(errs[0], ErrKeyTooOld) ||
			b.attempts(t) != before || before == 0 {
			t.Errorf("%v, %v after %d and then %d attempts", err, errs, before, len(b.seen))
		}
	})
}

// A record that is younger than nothing was made by another clock, or the clock was set back: its key may be old.
func TestKeyFromTheFutureIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reply{status: reset})
		_, _ = b.client.Pay(patiently(t, time.Second), order)
		opened := b.stored(t).Opened
		for ahead, sends := range map[time.Duration]bool{
			maxClockError: true, maxClockError + time.Nanosecond: false, 365 * 24 * time.Hour: false,
		} {
			before := b.attempts(t)
			b.client.config.Now = func() time.Time { return opened.Add(-ahead) }
			_, err := b.client.Pay(patiently(t, time.Second), order)
			if sent := b.attempts(t) > before; sent != sends || errors.Is(err, ErrKeyTooOld) == sends {
				t.Errorf("%s ahead: sent %t, %v", ahead, sent, err)
			}
		}
	})
}

func TestIntentIsOneRequestForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reply{status: 201})
		if _, err := b.client.Pay(t.Context(), order); err != nil {
			t.Fatal(err)
		}
		other := order
		other.AmountCents++
		if _, err := b.client.Pay(t.Context(), other); !errors.Is(err, ErrIntentChanged) || b.attempts(t) != 1 {
			t.Errorf("%v after %d attempts", err, len(b.seen))
		}
		for _, id := range []string{"", string(make([]byte, maxIntentID+1))} {
			if _, err := b.client.Pay(t.Context(), Intent{ID: id}); err == nil {
				t.Errorf("an ID of %d bytes was taken", len(id))
			}
		}
		large := Intent{ID: "large", Description: string(make([]byte, maxBody))}
		if _, err := b.client.Pay(t.Context(), large); err == nil || b.attempts(t) != 1 {
			t.Error("a body was sent that the server does not take")
		}
	})
}

// Pay and Resume at the same time would both send, and both be right; one of them is enough.
func TestResumeLeavesOutWhatIsBeingPaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reply{status: 201})
		b.onSend = func() {
			b.onSend = nil
			if results, _ := b.resumed(t.Context(), t); len(results) != 0 {
				t.Errorf("resumed %+v", results)
			}
		}
		if _, err := b.client.Pay(t.Context(), order); err != nil || b.attempts(t) != 1 {
			t.Errorf("%v after %d attempts", err, len(b.seen))
		}
		if len(b.client.busy) != 0 {
			t.Errorf("still busy with %v", b.client.busy)
		}
	})
}

func TestResumeGoesOnWithEveryOpenIntent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reply{status: reset})
		const many = 3 * atOnce
		for n := range many {
			next := order
			next.ID += string(rune('a' + n))
			_, _ = b.client.Pay(patiently(t, 100*time.Millisecond), next)
		}
		keys := map[string]bool{}
		for _, s := range b.seen {
			keys[s.key] = true
		}
		if len(keys) != many {
			t.Fatalf("%d keys for %d intents", len(keys), many)
		}
		b.restart(t)
		b.script, b.seen = []reply{{status: 201}}, nil
		results, errs := b.resumed(t.Context(), t)
		if len(results) != many || errors.Join(errs...) != nil {
			t.Errorf("%d results, %v", len(results), errs)
		}
		for _, s := range b.seen {
			if !keys[s.key] {
				t.Errorf("resumed with the new key %s", s.key)
			}
		}
	})
}
