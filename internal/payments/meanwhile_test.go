package payments

import (
	"testing"

	"payonce/internal/idempotency"
)

// Between the reading of the key and that of its row, evidence arrives. 202 with a payment that has succeeded would be two answers in one.
func TestKeyThatIsFinishedWhileItIsAnsweredForIsAnsweredAsFinished(t *testing.T) {
	t.Parallel()
	decisions := func(g *stage) map[string]idempotency.Decision {
		return map[string]idempotency.Decision{
			"unknown": idempotency.Unknown{Subject: g.row().Subject}, "in progress": idempotency.InProgress{Subject: g.row().Subject},
		}
	}
	s := setupOn(t, &actor{})
	settled := s.charging("order-0000000001").lost()
	settled.settle(SourceWebhook, settled.record)
	for name, decision := range decisions(settled) {
		answer, err := s.service.answer(t.Context(), settled.claim.Ref, decision, settled.again())
		if err != nil {
			t.Fatal(err)
		}
		if f := is[Final](t, answer); !f.Replayed || string(f.Response.Body) != string(settled.row().Response.Body) {
			t.Errorf("%s: answers %s", name, f.Response.Body)
		}
	}
	released := s.charging("order-0000000002").lost().proven()
	for _, decision := range decisions(released) {
		answer, err := s.service.answer(t.Context(), released.claim.Ref, decision, released.again())
		if err != nil {
			t.Fatal(err)
		}
		is[NotExecuted](t, answer)
	}
}
