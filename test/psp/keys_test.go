package psp

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
)

// Equal keys of two accounts are two charges, and no lookup finds that of the other.
func TestEqualKeysOfTwoAccountsNeverMeet(t *testing.T) {
	t.Parallel()
	for _, d := range dialects() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, d)
			first, second := aCharge(d), aCharge(d)
			second.Account, second.Reference = d.Account+"globex", "pay_of_globex"
			stored, _ := w.perform(first)
			if l := w.client.Lookup(t.Context(), second, gateway.EndUnsent); !isNotFound(l) {
				t.Errorf("before it was sent: %T %+v", l, l)
			}
			ch := stored.(gateway.Charge)
			ch.Account = second.Account
			if l, found := w.client.Lookup(t.Context(), ch, gateway.EndUnsent).(gateway.Found); found {
				t.Errorf("the lookup of another account has found %+v", l)
			}
			second.Attempt = 2 // the lookup has ended the first, where a lookup can
			w.charge(second)
			if w.moved() != 2 {
				t.Errorf("the ledger has %+v", w.ledger())
			}
		})
	}
}

func isNotFound(l gateway.Lookup) bool {
	_, ok := l.(gateway.NotFound)
	return ok
}

// A lookup by an id reads that charge, whosever it is, so that the caller can compare it with what was asked for.
func TestLookupByAnIDShowsWhoseChargeItIs(t *testing.T) {
	t.Parallel()
	for _, d := range dialects() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, d)
			first, second := numbered(d, 1), numbered(d, 2)
			own, others := w.charge(first), w.charge(second)
			for id, want := range map[string]gateway.Outcome{own: gateway.Succeeded{ID: own}, others: nil} {
				asked := first
				asked.ObjectID = id
				found, _ := w.client.Lookup(t.Context(), asked, gateway.EndNothing).(gateway.Found)
				if len(found.Records) != 1 || found.Records[0].ID != id {
					t.Fatalf("%s: found %+v", id, found)
				}
				_, shown := first.Judge(found.Records[0]).(gateway.Succeeded)
				if shown != (want != nil) {
					t.Errorf("%s is shown as the charge: %v", id, shown)
				}
			}
			asked := first
			asked.ObjectID = own + "x"
			if found, is := w.client.Lookup(t.Context(), asked, gateway.EndNothing).(gateway.Found); is {
				t.Errorf("an id that there is not: %+v", found)
			}
		})
	}
}

// After a restore of our database, the provider may have executed a payment that our books have lost. If an operator
// says "not executed" of the next payment under its key, the lookup finds it.
func TestOperatorsQuestionFindsWhatWasExecutedForSomethingElse(t *testing.T) {
	t.Parallel()
	for _, d := range dialects() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, d)
			lost, now := aCharge(d), aCharge(d)
			lost.Reference = "pay_that_a_restore_has_lost"
			id := w.charge(lost)
			w.clock.advance(time.Hour) // a search of the provider may lag behind
			found, _ := w.client.Lookup(t.Context(), now, gateway.EndDecided).(gateway.Found)
			if len(found.Records) != 1 || found.Records[0].ID != id {
				t.Errorf("found %+v, want %s", found, id)
			}
		})
	}
}

// A key is as long as our own may be with its generation, or longer than the provider takes. Two keys that differ only
// at the end are two charges.
func TestKeysThatDifferAtTheEndAreTwoCharges(t *testing.T) {
	t.Parallel()
	for _, d := range dialects() {
		for _, limit := range []int{0, 64, 40} {
			t.Run(d.Name+"/"+map[int]string{0: "as it is", 64: "64", 40: "40"}[limit], func(t *testing.T) {
				t.Parallel()
				w := setup(t, d)
				long := strings.Repeat("k", 255) + ".g" // MaxKeyLength of package idempotency, and a generation
				if limit > 0 {
					w.limitKeys(limit)
					long = strings.Repeat("k", limit)
				}
				keys := []string{long + "1234567890", long + "1234567891"}
				for i, key := range keys {
					ch := numbered(d, i)
					ch.Key = key
					stored, o := w.perform(ch)
					again, repeated := w.perform(ch)
					if _, ok := o.(gateway.Succeeded); !ok || o != repeated || again != stored {
						t.Fatalf("key %d: %T %+v, and again %T %+v", i, o, o, repeated, repeated)
					}
					found, ok := w.client.Lookup(t.Context(), stored, gateway.EndUnsent).(gateway.Found)
					if !ok || len(found.Records) != 1 {
						t.Errorf("key %d: the lookup has found %+v", i, found)
					}
				}
				if w.moved() != len(keys) {
					t.Errorf("%d keys have moved money %d times", len(keys), w.moved())
				}
			})
		}
	}
}

// limitKeys makes a provider that takes shorter keys, and a client that knows that.
func (w *world) limitKeys(limit int) {
	w.wire.refuses = func(r *http.Request) bool { return len(r.Header.Get("Idempotency-Key")) > limit }
	w.client = shortKeys{w.client, limit - len(w.dialect.Suffix)}
}

// shortKeys is a dialect whose provider takes shorter keys. It maps a key as a dialect must: before anything else.
type shortKeys struct {
	gateway.PSP

	longest int
}

func (p shortKeys) fit(r gateway.Request) gateway.Request {
	switch r := r.(type) {
	case gateway.Charge:
		r.Key = gateway.FitKey(r.Key, p.longest)
		return r
	case gateway.Refund:
		r.Key = gateway.FitKey(r.Key, p.longest)
		return r
	}
	panic("no such request")
}

func (p shortKeys) Prepare(ctx context.Context, ch gateway.Charge) (string, gateway.Outcome) {
	return p.PSP.Prepare(ctx, p.fit(ch).(gateway.Charge))
}

func (p shortKeys) Charge(ctx context.Context, ch gateway.Charge) gateway.Outcome {
	return p.PSP.Charge(ctx, p.fit(ch).(gateway.Charge))
}

func (p shortKeys) Lookup(ctx context.Context, r gateway.Request, end gateway.End) gateway.Lookup {
	return p.PSP.Lookup(ctx, p.fit(r), end)
}

// The provider takes keys as long as the trait says, and no longer ones.
func TestLongestKeyIsThatOfTheProvider(t *testing.T) {
	t.Parallel()
	for _, d := range dialects() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, d)
			longest := w.client.Traits().LongestKey
			for length, want := range map[int]bool{longest: true, longest + 1: false} {
				status, body := w.raw(d.RawCharge, strings.Repeat("k", length))
				if took := status < 300; took != want {
					t.Errorf("a key of %d characters: %d %s", length, status, body)
				}
			}
		})
	}
}

// raw sends a request to the provider without the client.
func (w *world) raw(r Raw, key string) (status int, body string) {
	w.t.Helper()
	target := w.wire.url() + r.Path
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, target, strings.NewReader(r.Body))
	if err != nil {
		w.t.Fatal(err)
	}
	for name, value := range r.Header {
		req.Header.Set(name, value)
	}
	req.Header.Set("Authorization", "Bearer "+apiSecret)
	req.Header.Set("Idempotency-Key", key)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

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
	theirs := Raw{"/v1/refunds", "payment_intent=" + charge, foreignIntent().Header}
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
