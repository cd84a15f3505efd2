package stripe

import (
	"testing"

	"payonce/internal/gateway"
)

// After a restore, the books know no intent of the key. Stripe has one that was executed, and one that waits for the
// customer. The executed one is found.
func TestExecutedIntentIsFoundBesideOneThatWaitsForTheCustomer(t *testing.T) {
	t.Parallel()
	executed := replace(intentIs("succeeded"), `"pi_1"`, `"pi_0"`)
	waits := replace(intentIs("requires_action"), `"pi_1"`, `"pi_2"`)
	for _, end := range []gateway.End{gateway.EndUnsent, gateway.EndWaiting, gateway.EndDecided} {
		s := scripted(t, map[string][]answer{searchLine: {searchOf(executed, waits)},
			createLine: {ok(intentIs("requires_confirmation"))}, readLine: {ok(intentIs("requires_confirmation"))},
			cancelLine: {ok(intentIs("canceled"))}})
		ch := aCharge()
		ch.ObjectID = ""
		l := newClient(t, s.URL).Lookup(t.Context(), ch, end)
		if found, _ := l.(gateway.Found); len(found.Records) != 1 {
			t.Errorf("end %s: an executed intent is not told of: %T %+v", end, l, l)
		}
	}
}

// Our own intent contradicts our charge. The executed one under the same key is told of all the same.
func TestExecutedOtherIsToldBesideAMismatch(t *testing.T) {
	t.Parallel()
	lost := replace(replace(intentIs("succeeded"), "pi_1", "pi_lost"), "pay_canary", "pay_lost")
	mismatch := replace(intentIs("requires_confirmation"), "pay_canary", "pay_else")
	for _, end := range []gateway.End{gateway.EndNothing, gateway.EndDecided} {
		s := scripted(t, map[string][]answer{readLine: {ok(mismatch)}, searchLine: {searchOf(lost)}})
		l := newClient(t, s.URL).Lookup(t.Context(), aCharge(), end)
		if found, _ := l.(gateway.Found); len(found.Records) != 1 {
			t.Errorf("end %s: an executed intent is not told of: %T %+v", end, l, l)
		}
	}
}
