package payments

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
)

// Of several records of a lookup, the next one is judged by what the last step leaves. That must be what the database
// has by then.
func TestSeenAfterAStepIsWhatTheDatabaseHas(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	n := 0
	for status, records := range outcomes() {
		for says := range records {
			for _, e := range []func(g *stage) Evidence{
				func(g *stage) Evidence { return Record{Source: SourceWebhook, Record: says.record(g)} },
				func(g *stage) Evidence { return Record{Source: SourceLookup, Record: says.record(g)} },
				func(g *stage) Evidence { return Reply{Attempt: 1, Outcome: g.success()} },
				func(g *stage) Evidence {
					return Reply{Attempt: 1, Outcome: gateway.NotExecuted{Reason: "no connection"}}
				},
				func(*stage) Evidence { return Nothing{} },
				func(*stage) Evidence { return NoAnswer{Reason: "PSP answered 500"} },
			} {
				n++
				g := s.charging(fmt.Sprintf("after-%012d", n))
				g.bring(status)
				before := g.gathers()
				before.lease = g.lease
				evidence := e(g)
				step := judge(patient(), before.seen, evidence)
				if _, err := s.service.apply(t.Context(), before, step, false); err != nil {
					t.Fatal(err)
				}
				want, got := before.seen.after(step), g.gathers().seen
				if diff := cmp.Diff(facts(want), facts(got)); diff != "" {
					t.Errorf("%s, %s, %T (-after +database):\n%s", status, says, evidence, diff)
				}
			}
		}
	}
}

// facts are what a step can change.
func facts(s Seen) map[string]any {
	return map[string]any{
		"status": s.Status, "row": fmt.Sprintf("%+v", s.Row), "held": s.Held, "charged": s.Charged,
		"failures": s.Failures,
	}
}
