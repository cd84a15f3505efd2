package judge

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// Cases that differ from a row of the page's tables in one part of what is known, and come to something else for it.

func ofAnother(part string) func(*Seen) {
	return func(s *Seen) {
		switch part {
		case "subject":
			s.Key.Subject = otherSubject
		case "generation":
			s.Key.Generation++
		case "attempt":
			s.Key.Attempt++
		}
	}
}

func byAnotherPSP(e Evidence) Evidence {
	r := e.(Record)
	r.PSP = "stripe"
	return r
}

func atStripe(s *Seen) { s.PSP = "stripe" }
func isWoken(s *Seen)  { s.Woken = true }

// The operator reads the reason of a dead letter, and decides by it.
func TestReasonOfADeadLetterIsWhatThePSPSays(t *testing.T) {
	t.Parallel()
	other := sayRecord(SourceWebhook, "psp_1", "succeeded", 1)
	declined := sayRecord(SourceScan, "psp_1", "declined", 12000)
	taken := keyIs(idempotency.UnknownStatus, processing(), isTaken)
	for name, c := range map[string]struct {
		seen Seen
		e    Evidence
		want string
	}{
		"another amount":                      {anUnknown(), other, "amount"},
		"another amount, and another's id":    {taken, other, "amount"},
		"another's id":                        {taken, mine(yes()), "for another request"},
		"a decline of what has succeeded":     {done(paidAs("psp_1")), declined, "it says declined"},
		"another amount of what is completed": {done(paidAs("psp_1")), other, "amount"},
	} {
		step := judged(c.seen, c.e)
		if step.open == nil || !strings.Contains(step.open.Reason, c.want) {
			t.Errorf("%s: %+v", name, step.open)
		}
	}
}

// A later record is judged by what an earlier one of the same lookup has written.
func TestSeenAfterAStepHasWhatTheStepHasWritten(t *testing.T) {
	t.Parallel()
	began := keyIs(idempotency.UnknownStatus, processing(), isSpent)
	holds := func(aboutKey bool, evidence string) Step {
		return Step{open: &Case{AboutKey: aboutKey, Evidence: []byte(evidence)}}
	}
	for name, c := range map[string]struct {
		seen Seen
		step Step
		edit func(*Seen)
	}{
		"nothing": {began, Step{}, func(*Seen) {}},
		"it is completed": {began, Step{to: idempotency.CompletedStatus, verdict: paidAs("psp_1")}, func(s *Seen) {
			s.Status, s.Failures, s.Row = idempotency.CompletedStatus, 0, paidAs("psp_1")
		}},
		"it is released": {began, Step{to: idempotency.FailedRetryableStatus, verdict: neverRun()}, func(s *Seen) {
			s.Status, s.Failures, s.Row = idempotency.FailedRetryableStatus, 0, neverRun()
		}},
		"it is unknown": {anInProgress(), Step{to: idempotency.UnknownStatus}, func(s *Seen) {
			s.Status = idempotency.UnknownStatus
		}},
		"its row takes the PSP's id": {done(paidAs(payment.OperatorPSPID + "42")), Step{named: "psp_1"}, func(s *Seen) {
			s.Row.PSPID = "psp_1"
		}},
		"it is asked for again": {began, Step{askAgain: &Wait{Failures: 1}}, func(s *Seen) { s.Failures = 1 }},
		"a dead letter holds it": {began, holds(true, `{"record":{"status":"declined"}}`), func(s *Seen) {
			s.Held = true
		}},
		"a dead letter has a charge": {began, holds(true, `{"record":{"status":"succeeded"}}`), isCharged},
		"a dead letter has an answer with a charge": {began, holds(true, `{"answer":{"status":"succeeded"}}`),
			isCharged},
		"one dead letter has a charge, and then another has none": {
			keyIs(idempotency.UnknownStatus, processing(), isCharged), holds(true, `{}`), func(*Seen) {}},
		"a dead letter is not about the key": {began, holds(false, `{"record":{"status":"succeeded"}}`),
			func(*Seen) {}},
		"a dead letter is about what the key was": {
			keyIs(idempotency.UnknownStatus, neverRun(), ofAnother("subject")), holds(true, `{}`), func(*Seen) {}},
	} {
		want := c.seen
		c.edit(&want)
		if got := c.seen.After(c.step); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// A dead letter is opened with what there is: evidence that cannot be kept must not keep it from being opened.
func TestEvidenceOfADeadLetterIsWholeOrNothing(t *testing.T) {
	t.Parallel()
	late := contradicting()
	late.Evidence = []byte(`{"answer":{"status":"succeeded"}}`)
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"a record": {evidenceOf(SourceScan, []byte(`{"id":"psp_1"}`)),
			`{"source":"scan","record":{"id":"psp_1"}}`},
		"no record":               {evidenceOf(SourceScan, nil), `{"source":"scan"}`},
		"a record that is broken": {evidenceOf(SourceScan, []byte(`{"id":`)), `{}`},
		"an id that is no text":   {ownerRecord(paidAs("\xff")), ""},
		"a record of a webhook": {
			judged(done(paidAs("psp_9")), sayRecord(SourceWebhook, "psp_1", "succeeded",
				12000)).open.Evidence,
			string(evidenceOf(SourceWebhook, recordOfOwn("psp_1", "succeeded", 12000).Evidence()))},
		"a late answer": {judged(anUnknown(), mine(late)).open.Evidence, string(late.Evidence)},
		"of a contradiction, for the tenant": {forTimeline(gateway.Indeterminate{Contradiction: true,
			Evidence: []byte(`{"status":500}`)}), ""},
	} {
		if string(c.got) != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
}

// Two cases are one dead letter only if they have one finding. A record without an id is a case about its key, and a
// refund is another case than the charge with the same id.
func TestFindingTellsCasesApart(t *testing.T) {
	t.Parallel()
	s, refund := anUnknown(), anUnknown()
	refund.Own.Ref.Operation = payment.RefundOperation
	found := func(s Seen, id string, o gateway.Object) string {
		return s.foundRecord(deadletters.LateAfterExpiry, report{account: "acme", id: id, object: o}, "").Finding
	}
	key := s.About().KeyFinding(s.Own.Subject)
	for name, c := range map[string]struct{ got, want string }{
		"a charge":                   {found(s, "psp_1", ""), "record acme psp_1"},
		"a charge of nobody":         {found(Seen{}, "psp_1", gateway.ChargeObject), "record acme psp_1"},
		"a refund":                   {found(refund, "psp_1", ""), "refund record acme psp_1"},
		"a refund of nobody":         {found(Seen{}, "psp_1", gateway.RefundObject), "refund record acme psp_1"},
		"no id":                      {found(s, "", ""), key},
		"a contradiction":            {s.contradiction("psp_1", "", nil).Finding, key + " record psp_1"},
		"a contradiction, and no id": {s.contradiction("", "", nil).Finding, key},
		"a late answer without an id": {
			judged(goneFrom(neverRun()),
				mine(gateway.Indeterminate{Contradiction: true})).open.Finding, key,
		},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
}

// A row whose PSP id an operator did not know is confirmed by any id, and by no other verdict.
func TestVerdictIsConfirmedByTheSameVerdictAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		row, other payment.Verdict
		want       bool
	}{
		"the same":                     {paidAs("psp_1"), paidAs("psp_1"), true},
		"another id":                   {paidAs("psp_1"), paidAs("psp_2"), false},
		"another verdict with this id": {paidAs("psp_1"), refusedAs("psp_1"), false},
		"vouched for":                  {paidAs(payment.OperatorPSPID + "42"), paidAs("psp_2"), true},
		"vouched for, and declined":    {paidAs(payment.OperatorPSPID + "42"), refusedAs("psp_2"), false},
	} {
		if got := c.row.ConfirmedBy(c.other); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A lookup waits as long as the policy says, and never longer than the grace period lasts.
func TestWaitUntilTheNextLookup(t *testing.T) {
	t.Parallel()
	p, half := asksAgain(), LookupPolicy{Chance: 0.5}
	in := func(left time.Duration) Seen {
		return keyIs(idempotency.UnknownStatus, processing(), func(s *Seen) { s.GraceLeft = left })
	}
	failed := func(n int32) Seen {
		return keyIs(idempotency.UnknownStatus, processing(), func(s *Seen) { s.Failures = n })
	}
	for name, c := range map[string]struct {
		seen Seen
		e    Evidence
		want Wait
	}{
		"nothing, long before":            {in(time.Hour), Nothing{}, Wait{After: p.Cap}},
		"nothing, long before, by chance": {in(time.Hour), Nothing{Policy: half}, Wait{After: p.Cap * 3 / 4}},
		"nothing, soon":                   {in(time.Second), Nothing{}, Wait{After: time.Second}},
		"nothing, at once":                {in(1), Nothing{}, Wait{After: time.Millisecond}},
		"waiting, soon":                   {in(time.Second), Waiting{}, Wait{After: time.Second}},
		"waiting, long before":            {in(time.Hour), Waiting{Policy: half}, Wait{After: p.Cap * 3 / 4}},
		"waiting, at once":                {in(1), Waiting{}, Wait{After: time.Millisecond}},
		"waiting, at the end":             {in(0), Waiting{}, Wait{After: p.Recheck}},
		"no answer":                       {failed(0), NoAnswer{}, Wait{After: p.Base, Failures: 1}},
		"no answer, by chance":            {failed(0), NoAnswer{Policy: half}, Wait{p.Base * 3 / 4, 1}},
		"no answer, twice":                {failed(1), NoAnswer{}, Wait{After: 2 * p.Base, Failures: 2}},
		"the last of the budget":          {failed(2), NoAnswer{}, Wait{After: 4 * p.Base, Failures: 3}},
		"the budget is spent":             {failed(3), NoAnswer{}, Wait{After: p.Recheck, Failures: 4}},
		"not asked":                       {failed(2), NoAnswer{NotAsked: true}, Wait{After: p.Base, Failures: 2}},
	} {
		step := Judge(c.seen, planned(p, c.e))
		if step.askAgain == nil || *step.askAgain != c.want || (step.open != nil) != (name == "the budget is spent") {
			t.Errorf("%s: %+v, %+v", name, step.askAgain, step.open)
		}
	}
	p.Cap = 5 * time.Second
	for failures, want := range []time.Duration{p.Base, 2 * p.Base, 4 * p.Base, p.Cap, p.Cap} {
		if got := p.backoff(int32(failures)); got != want {
			t.Errorf("after %d failures: %v, want %v", failures, got, want)
		}
	}
}
