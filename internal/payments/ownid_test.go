package payments

import (
	"testing"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
)

// Ids with this prefix are our own: any id of the PSP's takes the place of such an id. If the PSP gave one, a second
// charge of the same payment would pass for the id that was missing.
func TestPSPCannotGiveAnIDThatIsOurs(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	psp.onPost(executes(OperatorPSPID + "1"))
	is[Pending](t, s.create("order-0000000001", order()))

	g := s.charging("order-0000000002")
	if o, is := g.movement.asked(g.lease.Execution()).Judge(as(OperatorPSPID+"2", g.record)).(gateway.Succeeded); is {
		t.Errorf("a record is a success as %s", o.ID)
	}
	if _, err := as(OperatorPSPID+"2", g.record).Accept(); err == nil {
		t.Error("a record of the PSP has an id of ours")
	}
	deadLetter := deadletters.DeadLetter{
		About: &deadletters.About{
			Tenant: "acme", Operation: CreateOperation, Key: g.key.Key.String(), Generation: 1,
		},
		Evidence: []byte(`{"record":{"id":"operator:3","status":"succeeded"}}`),
	}
	if id := deadLetterSeen(deadLetter).PSPID; id != "" {
		t.Errorf("a dead letter offers %s", id)
	}
}
