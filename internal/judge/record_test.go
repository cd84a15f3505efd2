package judge

import (
	"testing"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

func TestScanLeavesToALookupWhatItFindsAlone(t *testing.T) {
	t.Parallel()
	seen := keyIs(idempotency.UnknownStatus, processing(), inGrace, inTwoSteps)
	charge, _ := seen.Request.(gateway.Charge)
	charge.ObjectID = "psp_2"
	seen.Request = charge
	for id, alone := range map[string]bool{"psp_2": true, "psp_1": false} {
		e := Record{Source: SourceScan, Record: recordOfOwn(id, "succeeded", 12000)}
		if step := judged(seen, e); step.leftAlone != alone {
			t.Errorf("%s: %+v", id, step)
		}
	}
}

// After a restore, our books may not know the object that a creation has made, and that the PSP has declined. A lookup
// sends the creation of this attempt again. So what it names is this attempt's, and its decline is the answer.
func TestDeclineOfAnObjectThatOnlyALookupKnowsIsTheAnswer(t *testing.T) {
	t.Parallel()
	s := seenWith(idempotency.UnknownStatus, true, processing(), 0)
	charge := askedForOwn()
	charge.TwoSteps = true
	s.Request = charge
	for source, to := range map[Source]idempotency.Status{
		SourceLookup: idempotency.CompletedStatus, SourceWebhook: "",
	} {
		step := judged(s, Record{Source: source, Record: recordOfOwn("psp_9", "declined", 12000)})
		if step.to != to || to != "" && step.verdict.Status != payment.Declined {
			t.Errorf("%s: %+v", source, step)
		}
	}
}
