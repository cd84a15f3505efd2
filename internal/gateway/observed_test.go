package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
)

// answering is a provider that gives one answer to everything.
type answering struct {
	gateway.PSP

	twoSteps bool
	outcome  gateway.Outcome
	lookup   gateway.Lookup
	err      error
}

func (a answering) Traits() gateway.Traits { return gateway.Traits{TwoSteps: a.twoSteps} }

func (a answering) Prepare(context.Context, gateway.Charge) (string, gateway.Outcome) {
	return "pi_1", a.outcome
}
func (a answering) Charge(context.Context, gateway.Charge) gateway.Outcome { return a.outcome }
func (a answering) Refund(context.Context, gateway.Refund) gateway.Outcome { return a.outcome }

func (a answering) Lookup(context.Context, gateway.Request, gateway.End) gateway.Lookup {
	return a.lookup
}

func (a answering) List(context.Context, gateway.Object, string, time.Time, string) (gateway.Page, error) {
	return gateway.Page{Next: "there"}, a.err
}

// The answers are the provider's own. A provider of one step sends nothing to prepare, so nothing is measured then.
func TestObserverHearsOfEachOperationOnce(t *testing.T) {
	t.Parallel()
	now := noon
	var heard []string
	failed := errors.New("cut off")
	for _, psp := range []answering{
		{twoSteps: true, lookup: gateway.NotFound{Final: true}},
		{outcome: gateway.Declined{Code: "x"}, lookup: gateway.Waiting{}, err: failed},
		{twoSteps: true, outcome: gateway.Pending{}, lookup: gateway.LookupFailed{}},
	} {
		o := gateway.Observed(psp, func() time.Time { now = now.Add(time.Second); return now },
			func(outcome string, took time.Duration) { heard = append(heard, fmt.Sprint(outcome, " ", took)) })
		if id, refused := o.Prepare(t.Context(), aCharge()); id != "pi_1" || refused != psp.outcome {
			t.Errorf("prepared %q, %v", id, refused)
		}
		if psp.outcome != nil {
			if c, r := o.Charge(t.Context(), aCharge()), o.Refund(t.Context(), aRefund()); c != psp.outcome || r != c {
				t.Errorf("charge %v, refund %v", c, r)
			}
		}
		if l := o.Lookup(t.Context(), aCharge(), gateway.EndNothing); l != psp.lookup {
			t.Errorf("lookup %v", l)
		}
		page, listErr := o.List(t.Context(), gateway.ChargeObject, "acct", noon, "")
		if page.Next != "there" || !errors.Is(listErr, psp.err) {
			t.Errorf("page %+v, %v", page, listErr)
		}
	}
	want := []string{
		"prepared 1s", "lookup_ended 1s", "list_ok 1s",
		"declined 1s", "declined 1s", "lookup_waiting 1s", "list_failed 1s",
		"pending 1s", "pending 1s", "pending 1s", "lookup_failed 1s", "list_ok 1s",
	}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Fatalf("observed (-want +got):\n%s", diff)
	}
}
