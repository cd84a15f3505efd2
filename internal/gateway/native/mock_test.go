package native_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/demo/mockpsp"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// practising is a client of the real mock PSP.
func practising(t *testing.T) *client {
	t.Helper()
	config := mockpsp.DefaultConfig()
	config.Secret, config.HangLimit, config.LateDelay = secret, time.Millisecond, time.Millisecond
	config.Now = func() time.Time { return noon } // no test begins on one day and ends on the next
	mock, err := mockpsp.New(config)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(mock)
	t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return newClient(t, s.URL)
}

// pay charges an amount under a key that no other test has seen.
func (c *client) pay(key, method string) (gateway.Charge, gateway.Outcome) {
	ch := aCharge()
	ch.Key, ch.Reference, ch.PaymentMethod = key, "pay_"+key, method
	return ch, c.Charge(c.t.Context(), ch)
}

// onlyRecord is what a lookup holds of a key, if it is one record.
func (c *client) onlyRecord(o gateway.Object, key string) gateway.Record {
	c.t.Helper()
	l := c.Lookup(c.t.Context(), asked(o, aCharge().Account, key), gateway.EndNothing)
	if f, ok := l.(gateway.Found); ok && len(f.Records) == 1 {
		return f.Records[0]
	}
	c.t.Fatalf("lookup %T %+v, want one record", l, l)
	panic("unreachable")
}

// asked is a request of which a lookup needs no more than these.
func asked(o gateway.Object, account, key string) gateway.Request {
	if o == gateway.RefundObject {
		return gateway.Refund{Account: account, Key: key}
	}
	return gateway.Charge{Account: account, Key: key}
}

func TestLookupTellsWhatAnAnswerWouldHave(t *testing.T) {
	t.Parallel()
	c := practising(t)
	for method, executed := range map[string]bool{"pm_ok": true, "pm_declined": false} {
		ch, o := c.pay("key-of-"+method, method)
		r := c.onlyRecord(gateway.ChargeObject, ch.Key)
		if verdict := ch.Judge(r); verdict != o || r.Executed() != executed {
			t.Errorf("%s: answered %+v, looked up %+v", method, o, verdict)
		}
	}
	ch, o := c.pay("key-of-refund", "pm_ok")
	refund := gateway.Refund{
		Account: ch.Account, Key: "key-of-refund", Reference: "re_1", ChargeID: o.(gateway.Succeeded).ID,
		AmountMinor: 1, Currency: "USD",
	}
	o = c.Refund(t.Context(), refund)
	if verdict := refund.Judge(c.onlyRecord(gateway.RefundObject, refund.Key)); verdict != o {
		t.Errorf("answered %+v, looked up %+v", o, verdict)
	}
}

func TestLookupResolvesWhatWasLost(t *testing.T) {
	t.Parallel()
	c := practising(t)
	for _, method := range []string{"pm_silent_charged", "pm_500_charged", "pm_reset_charged"} {
		ch, o := c.pay("key-of-"+method, method)
		if _, lost := o.(gateway.Indeterminate); !lost {
			t.Fatalf("%s: %T %+v", method, o, o)
		}
		if verdict, ok := ch.Judge(c.onlyRecord(gateway.ChargeObject, ch.Key)).(gateway.Succeeded); !ok {
			t.Errorf("%s: %+v", method, verdict)
		}
	}
	for _, method := range []string{"pm_timeout_not_charged", "pm_never", "pm_500_not_charged"} {
		ch, _ := c.pay("key-of-"+method, method)
		if l := c.Lookup(t.Context(), ch, gateway.EndNothing); l != (gateway.NotFound{}) {
			t.Errorf("%s: %T %+v", method, l, l)
		}
	}
	late, _ := c.pay("key-of-late", "pm_late_charge")
	eventually(t, "the late charge", func() bool {
		_, landed := c.Lookup(t.Context(), late, gateway.EndNothing).(gateway.Found)
		return landed
	})
	wrong, _ := c.pay("key-of-wrong", "pm_wrong_amount")
	contradiction(t, wrong.Judge(c.onlyRecord(gateway.ChargeObject, wrong.Key)), "record has another amount")
	stuck, _ := c.pay("key-of-stuck", "pm_stuck")
	lookupFailed(t, c.Lookup(t.Context(), stuck, gateway.EndNothing), "PSP answered 500")
}

// The longest of our keys is longer than a client's. If it were sent as another key, the answer would be about another
// request, and a lookup would find nothing of a charge that was executed.
func TestLongestKeyReachesThePSPAsItIs(t *testing.T) {
	t.Parallel()
	client, err := idempotency.ParseKey(strings.Repeat("keys.", 51))
	if err != nil {
		t.Fatal(err)
	}
	own := idempotency.Execution{Ref: idempotency.Ref{Key: client}, Generation: 1<<31 - 1}.PassThroughKey()
	c := practising(t)
	ch := aCharge()
	ch.Key, ch.PaymentMethod = own, "pm_ok"
	o := c.Charge(t.Context(), ch)
	if _, ok := o.(gateway.Succeeded); !ok || len(own) != 267 {
		t.Fatalf("a key of %d characters: %T %+v", len(own), o, o)
	}
	if verdict := ch.Judge(c.onlyRecord(gateway.ChargeObject, own)); verdict != o {
		t.Fatalf("answered %+v, looked up %+v", o, verdict)
	}
	if n := c.Traits().LongestKey; n < len(own) {
		t.Fatalf("the PSP takes %d characters", n)
	}
}

// Whatever a lookup may end, this PSP cannot end a request: the charge is there before and after.
func TestLookupEndsNothing(t *testing.T) {
	t.Parallel()
	c := practising(t)
	ch, o := c.pay("key-of-ended", "pm_ok")
	for _, end := range []gateway.End{gateway.EndNothing, gateway.EndUnsent, gateway.EndWaiting} {
		if _, ok := c.Lookup(t.Context(), ch, end).(gateway.Found); !ok {
			t.Errorf("%s: the charge %+v is not found", end, o)
		}
		unsent := asked(gateway.ChargeObject, ch.Account, "key-of-nothing")
		if l := c.Lookup(t.Context(), unsent, end); l != (gateway.NotFound{}) {
			t.Errorf("%s: lookup %+v of a charge that was never sent", end, l)
		}
	}
}

// Equal keys of two accounts, and of a charge and a refund, never meet.
func TestLookupSeesOneAccountAndOneObject(t *testing.T) {
	t.Parallel()
	c := practising(t)
	ch, _ := c.pay("key-of-one", "pm_ok")
	for _, l := range []gateway.Lookup{
		c.Lookup(t.Context(), asked(gateway.ChargeObject, "globex", ch.Key), gateway.EndNothing),
		c.Lookup(t.Context(), asked(gateway.RefundObject, ch.Account, ch.Key), gateway.EndNothing),
		c.Lookup(t.Context(), asked(gateway.ChargeObject, ch.Account, ch.Key+".g2"), gateway.EndNothing),
	} {
		if l != (gateway.NotFound{}) {
			t.Errorf("lookup %T %+v", l, l)
		}
	}
}

func TestPagesOfTheLedgerAreWholeAndInOrder(t *testing.T) {
	t.Parallel()
	c := practising(t)
	const n = gateway.MaxPage + 3
	for i := range n {
		c.pay(fmt.Sprintf("key-%d", i), "pm_ok")
	}
	read := func(after time.Time) (all []gateway.Record) {
		for cursor := ""; ; {
			page, err := c.List(t.Context(), gateway.ChargeObject, aCharge().Account, after, cursor)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, page.Records...)
			if cursor = page.Next; cursor == "" {
				return all
			}
		}
	}
	all := read(time.Time{})
	for i, r := range all {
		if r.Key != fmt.Sprintf("key-%d", i) {
			t.Fatalf("record %d has the key %s", i, r.Key)
		}
	}
	if rest := read(all[1].Created); len(all) != n || len(rest) != n-2 || rest[0] != all[2] {
		t.Fatalf("%d records in all, %d after the second", len(all), len(rest))
	}
}

// Two systems of the PSP write the list and the file. They name the same movements in the same words.
func TestStatementHoldsWhatMoved(t *testing.T) {
	t.Parallel()
	c := practising(t)
	ch, o := c.pay("key-1", "pm_ok")
	c.pay("key-2", "pm_declined")
	c.pay("key-3", "pm_500_charged")
	c.Refund(t.Context(), gateway.Refund{
		Account: ch.Account, Key: "key-4", Reference: "re_4", ChargeID: o.(gateway.Succeeded).ID, AmountMinor: 1,
		Currency: "USD",
	})
	want := []gateway.Record{
		c.onlyRecord(gateway.ChargeObject, "key-1"), c.onlyRecord(gateway.ChargeObject, "key-3"),
		c.onlyRecord(gateway.RefundObject, "key-4"),
	}
	var got []gateway.Record
	read := func(day time.Time) error {
		return c.Statement(t.Context(), ch.Account, day, func(r gateway.Record) error {
			got = append(got, r)
			return nil
		})
	}
	if err := read(noon); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("records differ (-want +got):\n%s", diff)
	}
	if err := read(noon.AddDate(0, 0, -1)); err != nil || len(got) != len(want) {
		t.Fatalf("the day before: %d records, error %v", len(got)-len(want), err)
	}
	if err := read(noon.AddDate(0, 0, 1)); !errors.Is(err, gateway.ErrNoStatement) {
		t.Fatalf("the day after: %v", err)
	}
}
