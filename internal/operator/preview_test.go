package operator

import (
	"strings"
	"testing"

	"payonce/internal/deadletters"
	"payonce/internal/judge"
)

// A page that is opened at that moment says that no action can be taken, and does not fail.
func TestPreviewOfAKeyThatMovesIsAConflict(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.show(o.lost("pm_ok").ID).DeadLetter
	o.asked = o.completeMeanwhile
	p, err := o.ops.preview(t.Context(), l, judge.OperatorDecision{Action: deadletters.Executed, Version: 1})
	if err != nil || p.Refused == nil || p.Refused.Ground != judge.Conflict || p.Does != "" ||
		!strings.HasPrefix(p.Refused.Detail, "The key is moving at this moment.") {
		t.Errorf("%+v, refused %+v, %v", p, p.Refused, err)
	}
}

// A look may end nothing: the customer could still pay.
func TestPreviewCancelsNothing(t *testing.T) {
	t.Parallel()
	o := setupWaiting(t)
	previews, err := o.ops.Preview(t.Context(), o.deadLetter.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range previews {
		does, refused := p.Does, p.Refused != nil && p.Refused.Ground == judge.ContradictsPSP
		if p.Action == deadletters.Executed && !refused ||
			p.Action == deadletters.NotExecuted && !strings.HasPrefix(does, "Have the PSP cancel it") {
			t.Errorf("%s would do %q, refused %+v", p.Action, does, p.Refused)
		}
	}
	if n := o.cancelled(); n != 0 {
		t.Fatalf("%d cancels", n)
	}
}
