package judge

import (
	"testing"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// A step is sent to the database if it has anything to write, and passes a guard if it moves the key or its next
// lookup.
func TestStepSaysHowItIsWritten(t *testing.T) {
	t.Parallel()
	unknown, note := idempotency.UnknownStatus, idempotency.Note{Actor: "webhook"}
	for want, steps := range map[string][]Step{
		"writes nothing, confirmed":  {{}},
		"writes nothing, left_alone": {{leftAlone: true}},
		"confirmed": {{note: note}, {named: "psp_1"}, {elsewhere: &gateway.Record{}},
			{reversal: &payment.Verdict{}}},
		"dead_letter":          {{open: &Case{}}},
		"answered":             {{answer: &Case{}}},
		"guarded, unknown":     {{to: unknown}, {open: &Case{}, to: unknown}},
		"guarded, ask_again":   {{askAgain: &Wait{}}},
		"guarded, dead_letter": {{open: &Case{}, askAgain: &Wait{}}},
	} {
		for _, s := range steps {
			got := without(s.Guarded(), "guarded, ") + without(s.WritesNothing(), "writes nothing, ") + s.Label()
			if got != want {
				t.Errorf("%+v: %s, want %s", s, got, want)
			}
		}
	}
}
