package payments

import (
	"testing"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

// What the first of two steps has come to is the outcome. The second one is not tried.
func TestOutcomeOfTheFirstStepIsKept(t *testing.T) {
	t.Parallel()
	s := setupTwoSteps(t)
	s.failing(1<<30, oddError, "payments", "UPDATE", "OLD.psp_object_id IS DISTINCT FROM NEW.psp_object_id")
	is[NotExecuted](t, s.pay(twoStepKey, "pm_ok"))
	if reasons := s.texts("SELECT reason FROM idempotency_key_events"); len(reasons) != 1 ||
		reasons[0] != "the PSP's object was not stored" {
		t.Errorf("the timeline says %q", reasons)
	}
}

// Ids with this prefix are our own: any id of the PSP's takes the place of such an id. If the PSP gave one, a second
// charge of the same payment would pass for the id that was missing.
func TestPSPCannotGiveAnIDThatIsOurs(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	psp.onPost(executes(payment.OperatorPSPID + "1"))
	is[Pending](t, s.create("order-0000000001", order()))

	g := s.charging("order-0000000002")
	if o, is := g.movement.request(g.lease.Execution()).Judge(as(payment.OperatorPSPID+"2",
		g.record)).(gateway.Succeeded); is {
		t.Errorf("a record is a success as %s", o.ID)
	}
	if _, err := as(payment.OperatorPSPID+"2", g.record).Accept(); err == nil {
		t.Error("a record of the PSP has an id of ours")
	}
	deadLetter := deadletters.DeadLetter{
		About: &deadletters.About{
			Tenant: "acme", Operation: payment.CreateOperation, Key: g.key.Key.String(), Generation: 1,
		},
		Evidence: []byte(`{"record":{"id":"operator:3","status":"succeeded"}}`),
	}
	if id := judge.DeadLetterOf(deadLetter).PSPID; id != "" {
		t.Errorf("a dead letter offers %s", id)
	}
}
