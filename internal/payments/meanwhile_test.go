package payments

import (
	"testing"

	"payonce/internal/idempotency"
)

// Between the reading of the key and that of its row, evidence arrives. 202 with a payment that has succeeded would be
// two answers in one.
func TestKeyThatIsFinishedWhileItIsAnsweredForIsAnsweredAsFinished(t *testing.T) {
	t.Parallel()
	decisions := func(g *stage) map[string]idempotency.Decision {
		return map[string]idempotency.Decision{
			"unknown":     idempotency.Unknown{Subject: g.row().Subject},
			"in progress": idempotency.InProgress{Subject: g.row().Subject},
		}
	}
	s := setupOn(t, &actor{})
	completed := s.charging("order-0000000001").lost()
	completed.evidenceBy(SourceWebhook, completed.record)
	for name, decision := range decisions(completed) {
		answer, err := s.service.answerDecision(t.Context(), completed.reservation.Ref, decision, completed.again())
		if err != nil {
			t.Fatal(err)
		}
		if f := is[Final](t, answer); !f.Replayed || string(f.Response.Body) != string(completed.row().Response.Body) {
			t.Errorf("%s: answers %s", name, f.Response.Body)
		}
	}
	released := s.charging("order-0000000002").lost().proven()
	for _, decision := range decisions(released) {
		answer, err := s.service.answerDecision(t.Context(), released.reservation.Ref, decision, released.again())
		if err != nil {
			t.Fatal(err)
		}
		is[NotExecuted](t, answer)
	}
}
