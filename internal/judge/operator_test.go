package judge

import (
	"fmt"
	"strings"
	"testing"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// inBrief is what a decision comes to, with the words that an operator reads.
func inBrief(step Step) string {
	switch {
	case step.refuse != nil:
		return string(step.refuse.Ground) + ": " + step.refuse.Detail
	case step.ask:
		return "the PSP is asked"
	case step.to != "":
		brief := string(step.to) + " " + step.verdict.PSPID
		if step.proof.Final {
			brief += ", final"
		}
		if step.cancels {
			brief += ", by a cancellation"
		}
		return brief
	case step.askAgain != nil:
		return "looked up"
	case step.again != nil:
		return fmt.Sprintf("again job %d, event %q, record %q", step.again.JobID, step.again.EventID, step.again.Record)
	case step.forget != "":
		return "closed, without " + step.forget
	}
	return "closed"
}

// The refusals that several cases end with.
const (
	moreThanOne  = "operator_contradicts_psp: The PSP has no record that it has executed exactly what was asked."
	idOfAnother  = "operator_contradicts_psp: That id of the PSP's belongs to another payment or refund."
	provenNot    = "operator_contradicts_psp: The PSP has no record of it after the grace period: it was not executed."
	isForAnother = "operator_contradicts_psp: The PSP says that psp_8 is for order 42, not for this payment or refund."
	keyIsGone    = "action_not_applicable: The dead letter's key is gone, or stands for something else by now."
	nothingInIt  = "action_not_applicable: There is nothing in this dead letter that could be tried again."
	mustDecide   = "so that something must be decided: retry, executed or not_executed."
	stillArrives = "grace_period_open: The PSP knows nothing of it yet, but what was sent may still arrive there."
)

// decisionCase is what an operator decides, and what it comes to. Of a refusal, it has the beginning.
type decisionCase struct {
	seen Seen
	d    OperatorDecision
	want string
}

func checkDecisions(t *testing.T, cases map[string]decisionCase) {
	t.Helper()
	for name, c := range cases {
		step := judged(c.seen, c.d)
		got := inBrief(step)
		if got != c.want && (step.refuse == nil || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// withDeadLetter changes the dead letter that a decision is about.
func withDeadLetter(edit func(*DeadLetter)) func(*Seen) {
	return func(s *Seen) {
		l := *s.DeadLetter
		edit(&l)
		s.DeadLetter = &l
	}
}

func unknownKey(more ...func(*Seen)) Seen {
	return keyIs(idempotency.UnknownStatus, processing(), more...)
}

func runningKey(more ...func(*Seen)) Seen {
	return keyIs(idempotency.InProgressStatus, processing(), more...)
}

func pspHasAll(all ...gateway.Record) gateway.Lookup { return gateway.Found{Records: all} }

// An operator decides about what is still open, as it was seen.
func TestDecisionNeedsTheDeadLetterAsItWasSeen(t *testing.T) {
	t.Parallel()
	later := func(s *Seen) { s.Key.Generation++ }
	gone := func(s *Seen) { s.Status, s.Key, s.Own = "", idempotency.Execution{}, idempotency.Execution{} }
	retry, executed := decideOn(deadletters.Retry, nil), decideOn(deadletters.Executed, nil)
	checkDecisions(t, map[string]decisionCase{
		"no dead letter": {Seen{}, retry, "action_not_applicable: There is no dead letter to decide about."},
		"a resolved one": {unknownKey(withDeadLetter(func(l *DeadLetter) {
			l.Resolution = &deadletters.Resolution{Actor: "ann", Action: deadletters.Dismiss}
		})), retry, "dead_letter_conflict: ann has resolved this dead letter before, as dismiss."},
		"a changed one": {unknownKey(withDeadLetter(func(l *DeadLetter) { l.Version = 2 })), retry,
			"dead_letter_conflict: The dead letter has version 2, not 1."},
		"one about no key": {unknownKey(gone, withDeadLetter(func(l *DeadLetter) { l.About = nil })), executed,
			"action_not_applicable: This dead letter is about no key of ours. Only retry or dismiss is possible."},
		"one about an earlier payment": {unknownKey(later), executed, keyIsGone},
		"one about a key that is gone": {unknownKey(gone), executed, keyIsGone},
		"one about what is unknown":    {unknownKey(), executed, "the PSP is asked"},
	})
	for _, c := range []struct {
		d    OperatorDecision
		s    Seen
		want gateway.End
	}{
		{OperatorDecision{Action: deadletters.NotExecuted}, Seen{}, gateway.EndDecided},
		{OperatorDecision{Action: deadletters.NotExecuted, Preview: true}, Seen{}, gateway.EndNothing},
		{OperatorDecision{Action: deadletters.NotExecuted}, Seen{OtherHeld: "another"}, gateway.EndNothing},
		{OperatorDecision{Action: deadletters.Executed}, Seen{}, gateway.EndNothing},
	} {
		if end := c.d.MayEnd(c.s); end != c.want {
			t.Errorf("for %+v, the PSP may end %s", c.d, end)
		}
	}
}

// Money that has moved is written under the id by which the PSP can be asked for it, and under no other payment's.
func TestExecutedIsWrittenUnderTheRightID(t *testing.T) {
	t.Parallel()
	as := func(id string, answer gateway.Lookup) OperatorDecision {
		d := decideOn(deadletters.Executed, answer)
		d.PSPID = id
		return d
	}
	bulk := func(answer gateway.Lookup) OperatorDecision {
		d := decideOn(deadletters.Executed, answer)
		d.PSPConfirms = true
		return d
	}
	first, second := recordOfOwn("psp_1", "succeeded", 12000), recordOfOwn("psp_2", "succeeded", 12000)
	bare, foreign := first, recordOfOwn("psp_8", "succeeded", 12000)
	bare.Reference, foreign.Reference = "", "order 42"
	foreignDecline, objectOfAnother := recordOfOwn("psp_8", "declined", 12000), foreign
	foreignDecline.Reference, objectOfAnother.ID = "order 42", "psp_1"
	earlier := func(d OperatorDecision) OperatorDecision {
		d.Others, d.Unbooked = []gateway.Record{foreign}, []gateway.Record{foreign}
		return d
	}
	inEvidence := func(byMark bool) func(*Seen) {
		return withDeadLetter(func(l *DeadLetter) { l.PSPID, l.ByMark = "psp_7", byMark })
	}
	silent := gateway.LookupFailed{}
	const vouched = "completed " + payment.OperatorPSPID
	declined, otherwise := recordOfOwn("psp_1", "declined", 12000), recordOfOwn("psp_1", "declined", 1)
	const ourOwn = "completed " + payment.OperatorPSPID + "01890a5d-ac96-774b-bcce-b302099a8058"
	checkDecisions(t, map[string]decisionCase{
		"as the PSP says":      {unknownKey(), as("", pspHasAll(first)), "completed psp_1"},
		"as both say":          {unknownKey(), as("psp_1", pspHasAll(first)), "completed psp_1"},
		"as the second record": {unknownKey(), as("psp_2", pspHasAll(first, second)), "completed psp_2"},
		"under another id": {unknownKey(), as("psp_9", pspHasAll(first)),
			"operator_contradicts_psp: The PSP knows it as psp_1, not as psp_9."},
		"as the operator says":       {unknownKey(), as("psp_9", silent), vouched + "psp_9"},
		"as the evidence says":       {unknownKey(inEvidence(false)), as("", silent), vouched + "psp_7"},
		"as both of them say":        {unknownKey(inEvidence(false)), as("psp_7", silent), vouched + "psp_7"},
		"against the evidence":       {unknownKey(inEvidence(true)), as("psp_9", silent), vouched + "psp_9"},
		"with our mark":              {unknownKey(inEvidence(true)), as("", silent), "completed psp_7"},
		"with our mark, and as both": {unknownKey(inEvidence(true)), as("psp_7", silent), "completed psp_7"},
		"as nobody says":             {unknownKey(), as("", silent), ourOwn},

		"in two steps":                       {unknownKey(inTwoSteps), as("", silent), "completed psp_1"},
		"in two steps, as the operator says": {unknownKey(inTwoSteps), as("psp_1", silent), "completed psp_1"},
		"in two steps, as the evidence says": {unknownKey(inTwoSteps, inEvidence(true)), as("", silent),
			"completed psp_1"},
		"in two steps, under another id": {unknownKey(inTwoSteps), as("ch_1", silent),
			"operator_contradicts_psp: The PSP has made psp_1 for this payment, and executes nothing else for it. Name that id"},
		"in two steps, and the object is another's": {unknownKey(inTwoSteps), as("", pspHasAll(objectOfAnother)),
			ourOwn},

		"found nothing":                {unknownKey(), as("psp_9", gateway.NotFound{}), provenNot},
		"found nothing, too early":     {unknownKey(inGrace), as("psp_9", gateway.NotFound{}), vouched + "psp_9"},
		"found nothing, beyond memory": {unknownKey(isOld), as("psp_9", gateway.NotFound{}), vouched + "psp_9"},
		"found nothing, but money moved": {unknownKey(isCharged), as("psp_9", gateway.NotFound{}),
			vouched + "psp_9"},
		"found another's decline":        {unknownKey(), as("psp_9", pspHasAll(foreignDecline)), provenNot},
		"found money for something else": {unknownKey(), as("psp_9", pspHasAll(foreign)), vouched + "psp_9"},
		"found an earlier payment's money": {unknownKey(), earlier(as("psp_9", gateway.NotFound{})),
			vouched + "psp_9"},
		"found an earlier payment's charge": {unknownKey(), earlier(as("psp_8", gateway.NotFound{})), isForAnother},
		"declined": {unknownKey(), as("", pspHasAll(declined)),
			"operator_contradicts_psp: The PSP says that it has declined it. Use retry, which resolves it as declined."},
		"declined, and executed for something else": {unknownKey(), as("", pspHasAll(declined, foreign)), ourOwn},

		"an id of another, with our reference":  {unknownKey(isTaken), as("", pspHasAll(first)), ourOwn},
		"an id of another, without a reference": {unknownKey(isTaken), as("", pspHasAll(bare)), idOfAnother},
		"an id of another, beside our reference": {unknownKey(isTaken), as("", pspHasAll(bare, second)),
			idOfAnother},
		"an id of another, of a decline": {unknownKey(isTaken, inTwoSteps), as("psp_1", pspHasAll(otherwise)),
			idOfAnother},

		"in two steps, and nothing was executed": {unknownKey(inTwoSteps), as("psp_1", gateway.NotFound{}),
			"operator_contradicts_psp: The PSP says that it has not executed it. Use not_executed."},
		"in two steps, and never made": {unknownKey(inTwoSteps, unmade), as("psp_1", gateway.NotFound{}),
			"operator_contradicts_psp: No id of the PSP's is stored for it: as far as we know, the PSP was never asked."},
		"in two steps, and made in vain": {unknownKey(inTwoSteps, unmade), as("psp_1", gateway.NotFound{Final: true}),
			"operator_contradicts_psp: The PSP says that it has not executed it. Use not_executed."},

		"one of several, confirmed": {unknownKey(), bulk(pspHasAll(first)), "completed psp_1"},
		"one of several, twice":     {unknownKey(), bulk(pspHasAll(first, second)), moreThanOne},
		"one of several, not found": {unknownKey(), bulk(gateway.NotFound{}), moreThanOne},
		"one of several, and no answer": {unknownKey(), bulk(gateway.LookupFailed{}),
			"psp_unavailable: The PSP does not say that it has executed it. Ask again later."},
	})
}

// A preview says what the decision would do: a PSP with two steps would be asked to cancel first.
func TestPreviewOfNotExecutedCancelsNothing(t *testing.T) {
	t.Parallel()
	preview := func(answer gateway.Lookup) OperatorDecision {
		d := decideOn(deadletters.NotExecuted, answer)
		d.Preview = true
		return d
	}
	decided := func(answer gateway.Lookup) OperatorDecision { return decideOn(deadletters.NotExecuted, answer) }
	const waits = "operator_contradicts_psp: The PSP has it, and may still execute it: 3DS. Wait for its outcome."
	const notCancelled = "dead_letter_conflict: The PSP was not asked to cancel it, because another dead letter was open then."
	const otherIsOpen = "action_not_applicable: Another dead letter about the same key is open: another."
	const released, cancelled = "failed_retryable ", "failed_retryable , by a cancellation"
	waiting, none, ended := gateway.Waiting{Reason: "3DS"}, gateway.NotFound{}, gateway.NotFound{Final: true}
	kept := gateway.Waiting{Reason: "3DS", Kept: true}
	checkDecisions(t, map[string]decisionCase{
		"waiting":                {unknownKey(), preview(waiting), waits},
		"waiting, in two steps":  {unknownKey(inTwoSteps), preview(waiting), cancelled},
		"waiting, and not ours":  {unknownKey(inTwoSteps), preview(kept), waits},
		"waiting, and decided":   {unknownKey(inTwoSteps), decided(waiting), waits},
		"too early":              {unknownKey(inGrace), preview(none), stillArrives},
		"early, in two steps":    {unknownKey(inGrace, inTwoSteps), preview(none), cancelled},
		"early, and decided":     {unknownKey(inGrace, inTwoSteps), decided(none), stillArrives},
		"nothing":                {unknownKey(), preview(none), released},
		"nothing, in two steps":  {unknownKey(inTwoSteps), preview(none), cancelled},
		"nothing, and decided":   {unknownKey(inTwoSteps), decided(none), notCancelled},
		"the same, in one step":  {unknownKey(), decided(none), released},
		"ended, and decided":     {unknownKey(inTwoSteps), decided(ended), released + ", final"},
		"ended":                  {unknownKey(inGrace, inTwoSteps), preview(ended), released + ", final"},
		"ended, in another case": {unknownKey(otherHolds, inTwoSteps), preview(ended), otherIsOpen},
	})
}

// What shows that money has moved refuses "not executed", wherever it is: under the key for something else, for an
// earlier payment that had the key, or in the evidence of the dead letter itself.
func TestNotExecutedIsRefusedWhereverMoneyHasMoved(t *testing.T) {
	t.Parallel()
	lost, declined := recordOfOwn("psp_8", "succeeded", 12000), recordOfOwn("psp_8", "declined", 12000)
	lost.Reference, declined.Reference = "pay_lost", "pay_lost"
	decided := func(answer gateway.Lookup, unbooked ...gateway.Record) OperatorDecision {
		d := decideOn(deadletters.NotExecuted, answer)
		d.Others, d.Unbooked = unbooked, unbooked
		return d
	}
	inEvidence := withDeadLetter(func(l *DeadLetter) { l.Executed = "psp_7" })
	const underTheKey = "operator_contradicts_psp: The PSP lists psp_8 under this key, for pay_lost: money has moved under the key."
	const told = "operator_contradicts_psp: In the dead letter's evidence, the PSP has executed it, as psp_7."
	none, ended := gateway.NotFound{}, gateway.NotFound{Final: true}
	otherwise := pspHasAll(recordOfOwn("psp_1", "declined", 1), lost)
	checkDecisions(t, map[string]decisionCase{
		"for something else":                {unknownKey(), decided(pspHasAll(lost)), underTheKey},
		"for something else, declined":      {unknownKey(), decided(pspHasAll(declined)), "failed_retryable "},
		"for an earlier payment":            {unknownKey(), decided(none, lost), underTheKey},
		"for an earlier payment, two steps": {unknownKey(inTwoSteps), decided(ended, lost), underTheKey},
		"beside a decline of something else": {unknownKey(), decided(otherwise),
			"operator_contradicts_psp: The PSP knows it, as psp_1 (declined)."},
		"in the evidence": {unknownKey(inEvidence), decided(none), told},
	})
}

// A retry does again what has failed. It does nothing that has no object any more.
func TestRetryDoesAgainWhatHasFailed(t *testing.T) {
	t.Parallel()
	about := func(kind deadletters.Kind, job int64, event, record string) func(*Seen) {
		return withDeadLetter(func(l *DeadLetter) {
			l.Kind, l.JobID, l.EventID = kind, job, event
			if record != "" {
				l.Record = []byte(record)
			}
		})
	}
	job, webhook, other := deadletters.JobDiscarded, deadletters.WebhookUnmatched, deadletters.ContradictsCompleted
	anothers := func(s *Seen) { s.Key.Subject = otherSubject }
	none := func(s *Seen) { *s = Seen{DeadLetter: s.DeadLetter} }
	retry := decideOn(deadletters.Retry, nil)
	const againJob, againEvent = `again job 7, event "", record ""`, `again job 0, event "evt_1", record ""`
	const againRecord = `again job 0, event "", record "{}"`
	const over = "action_not_applicable: The dead letter's key is completed: there is nothing left to find out."
	const running = "action_not_applicable: The dead letter's key is being executed at this moment. Wait until that is over."
	const ofAnother = "action_not_applicable: The record came from another account or PSP than the tenant's."
	paid := paidAs("psp_1")
	checkDecisions(t, map[string]decisionCase{
		"a job":                         {done(paid, about(job, 7, "", "")), retry, againJob},
		"a job without its id":          {done(paid, about(job, 0, "", "")), retry, over},
		"a job of a webhook":            {done(paid, about(job, 7, "evt_1", "")), retry, againEvent},
		"a lookup's job":                {unknownKey(about(job, 7, "", "")), retry, "looked up"},
		"a webhook's job":               {unknownKey(about(job, 7, "evt_1", "")), retry, "looked up"},
		"a webhook":                     {done(paid, about(webhook, 0, "evt_1", "")), retry, againEvent},
		"a webhook, of an unknown key":  {unknownKey(about(webhook, 0, "evt_1", "")), retry, againEvent},
		"a webhook without its id":      {done(paid, about(webhook, 0, "", "")), retry, over},
		"a case that names an event":    {done(paid, about(other, 0, "evt_1", "")), retry, over},
		"a case that names a job":       {done(paid, about(other, 7, "", "")), retry, over},
		"a record":                      {done(paid, about(other, 0, "", "{}")), retry, againRecord},
		"a record of another account":   {done(paid, about(deadletters.OtherAccount, 0, "", "{}")), retry, ofAnother},
		"a key that is executed":        {runningKey(about(other, 0, "", "{}")), retry, running},
		"a key of another, executed":    {runningKey(anothers), retry, nothingInIt},
		"a key of another, unknown":     {unknownKey(anothers), retry, nothingInIt},
		"a key of another, job":         {unknownKey(anothers, about(job, 7, "", "")), retry, againJob},
		"no key":                        {unknownKey(none), retry, nothingInIt},
		"a record, and nothing of ours": {unknownKey(about(other, 0, "", "{}"), none), retry, againRecord},
	})
}

// A case is not closed if nobody would take care of its key any more.
func TestDismissalLeavesNoKeyAlone(t *testing.T) {
	t.Parallel()
	dismiss := decideOn(deadletters.Dismiss, nil)
	anothers := func(s *Seen) { s.Key.Subject = otherSubject }
	withEvent := func(kind deadletters.Kind) func(*Seen) {
		return withDeadLetter(func(l *DeadLetter) { l.Kind, l.EventID = kind, "evt_1" })
	}
	paid := paidAs("psp_1")
	const needs = "dead_letter_needs_decision: The dead letter's key is "
	checkDecisions(t, map[string]decisionCase{
		"unknown":              {unknownKey(), dismiss, needs + "unknown, " + mustDecide},
		"unknown, and held":    {unknownKey(otherHolds), dismiss, "closed"},
		"in progress":          {anInProgress(), dismiss, needs + "in_progress, " + mustDecide},
		"in progress and held": {runningKey(otherHolds), dismiss, needs + "in_progress, " + mustDecide},
		"completed":            {done(paidAs("psp_1")), dismiss, "closed"},
		"of another":           {unknownKey(anothers), dismiss, "closed"},
		"a webhook's job":      {done(paid, withEvent(deadletters.JobDiscarded)), dismiss, "closed, without evt_1"},
		"a webhook":            {done(paid, withEvent(deadletters.WebhookUnmatched)), dismiss, "closed"},
	})
}

const recordAsEvidence = `{"object":"charge","id":"psp_1","account":"acme","idempotencyKey":"order-0000000001",` +
	`"reference":"","amountCents":12000,"currency":"USD","status":"succeeded",` +
	`"createdAt":"2026-11-20T09:05:00.000000Z"}`

// aboutOwn is a dead letter about the key that all evidence here is about.
func aboutOwn(evidence string) deadletters.DeadLetter {
	subject := ownSubject
	return deadletters.DeadLetter{Subject: &subject, Evidence: []byte(evidence), About: &deadletters.About{
		Tenant: "acme", Operation: payment.CreateOperation, Key: "order-0000000001", Generation: 1}}
}

// An operator who says that a payment was executed need not type the PSP's id, if the evidence has it. An id of another
// payment, or of a decline, would be stored as this payment's.
func TestIDOfTheMovementIsFoundInItsEvidence(t *testing.T) {
	t.Parallel()
	own, other := payment.ID(ownSubject).String(), payment.ID(otherSubject).String()
	refund := aboutOwn(`{"id":"psp_1","reference":"` + payment.RefundID(ownSubject).String() + `"}`)
	refund.About.Operation = payment.RefundOperation
	nameless := aboutOwn(`{"id":"psp_1","reference":"` + other + `"}`)
	nameless.Subject = nil
	nobodys := aboutOwn(recordAsEvidence)
	nobodys.About = nil
	for name, c := range map[string]struct {
		deadLetter deadletters.DeadLetter
		want       string
	}{
		"the evidence":                 {aboutOwn(recordAsEvidence), "psp_1"},
		"its record":                   {aboutOwn(`{"record":` + recordAsEvidence + `}`), "psp_1"},
		"its answer":                   {aboutOwn(`{"answer":{"id":"psp_1"}}`), "psp_1"},
		"its answer before its record": {aboutOwn(`{"answer":{"id":"psp_1"},"record":{"id":"psp_2"}}`), "psp_1"},
		"its record, the answer is declined": {
			aboutOwn(`{"answer":{"id":"psp_1","status":"declined"},"record":{"id":"psp_2"}}`), "psp_2"},
		"an answer of another form":       {aboutOwn(`{"id":"psp_1","answer":7}`), "psp_1"},
		"evidence of another form":        {aboutOwn(`{"id":7,"answer":{"id":"psp_1"}}`), "psp_1"},
		"an answer that is half readable": {aboutOwn(`{"answer":{"id":"psp_1","status":7}}`), ""},
		"no id":                           {aboutOwn(`{"answer":{"status":"succeeded"}}`), ""},
		"no JSON":                         {aboutOwn(`{`), ""},
		"a decline":                       {aboutOwn(`{"id":"psp_1","status":"declined"}`), ""},
		"its reference":                   {aboutOwn(`{"id":"psp_1","reference":"` + own + `"}`), "psp_1"},
		"another reference":               {aboutOwn(`{"id":"psp_1","reference":"` + other + `"}`), ""},
		"its key": {aboutOwn(`{"id":"psp_1","idempotencyKey":"order-0000000001"}`),
			"psp_1"},
		"another key":                         {aboutOwn(`{"id":"psp_1","idempotencyKey":"order-0000000002"}`), ""},
		"a refund by its reference":           {refund, "psp_1"},
		"a dead letter that names no payment": {nameless, "psp_1"},
		"about no key":                        {nobodys, ""},
	} {
		if got := DeadLetterOf(c.deadLetter).PSPID; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A retry does again what the evidence names: a job, a stored webhook, or the judgement of a record.
func TestDeadLetterNamesWhatARetryDoesAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind     deadletters.Kind
		evidence string
		want     DeadLetter
	}{
		"a webhook": {deadletters.WebhookUnmatched, `{"eventId":"evt_1"}`,
			DeadLetter{EventID: "evt_1"}},
		"a job": {deadletters.JobDiscarded, `{"jobId":7}`, DeadLetter{JobID: 7}},
		"a job of a webhook": {deadletters.JobDiscarded, `{"jobId":7,"args":{"eventId":"evt_1"}}`,
			DeadLetter{JobID: 7, EventID: "evt_1"}},
		"a webhook with args": {deadletters.WebhookUnmatched, `{"eventId":"evt_1","args":{"eventId":"evt_2"}}`,
			DeadLetter{EventID: "evt_1"}},
		"half of another form": {deadletters.JobDiscarded, `{"jobId":7,"args":{"eventId":8}}`, DeadLetter{}},
		"a record": {deadletters.LateAfterExpiry, recordAsEvidence,
			DeadLetter{Record: []byte(recordAsEvidence), PSPID: "psp_1"}},
		"a record in a member": {deadletters.LateAfterExpiry, `{"record":` + recordAsEvidence + `}`,
			DeadLetter{Record: []byte(recordAsEvidence), PSPID: "psp_1"}},
		"no record in a member": {deadletters.LateAfterExpiry, `{"record":{"id":"psp_1"}}`,
			DeadLetter{PSPID: "psp_1"}},
		"a null in a member": {deadletters.LateAfterExpiry, `{"record":null}`, DeadLetter{}},
		"nothing":            {deadletters.LateAfterExpiry, `{}`, DeadLetter{}},
		"no JSON":            {deadletters.LateAfterExpiry, `{`, DeadLetter{}},
	} {
		deadLetter := aboutOwn(c.evidence)
		deadLetter.Kind, deadLetter.ID, deadLetter.Version = c.kind, otherSubject, 3
		got := DeadLetterOf(deadLetter)
		if got.JobID != c.want.JobID || got.EventID != c.want.EventID || string(got.Record) != string(c.want.Record) ||
			got.PSPID != c.want.PSPID || got.Kind != c.kind || got.ID != otherSubject || got.Version != 3 ||
			got.About == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := DeadLetterOf(deadletters.DeadLetter{Evidence: []byte(`{}`)}); got.About != nil {
		t.Errorf("about no key: %+v", got)
	}
}

// What an operator is told before the decision is what the decision does.
func TestOperatorIsToldWhatADecisionDoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step Step
		want string
	}{
		"a decline": {Step{to: idempotency.CompletedStatus, verdict: refusedAs("psp_1")},
			"Complete the key as declined."},
		"a success": {Step{to: idempotency.CompletedStatus, verdict: paidAs("psp_1")},
			"Complete the key as succeeded, as psp_1."},
		"a release": {Step{to: idempotency.FailedRetryableStatus, verdict: neverRun()},
			"Release the key, so that the client may try again."},
		"a verdict": {Step{to: idempotency.FailedRetryableStatus, verdict: refusedAs("")},
			"Release the key, so that the client may try again."},
		"a cancel": {Step{to: idempotency.FailedRetryableStatus, cancels: true},
			"Have the PSP cancel it, if it still can. Then release the key, so that the client may try again."},
		"a lookup":    {Step{askAgain: &Wait{}}, "Ask the PSP about the key again, at once."},
		"a webhook":   {Step{again: &Again{EventID: "evt_1"}}, "Process the webhook evt_1 again."},
		"a job":       {Step{again: &Again{JobID: 7}}, "Run the job 7 again."},
		"a record":    {Step{again: &Again{Record: []byte(`{}`)}}, "Judge the PSP's record again."},
		"a giving up": {Step{forget: "evt_1"}, "Close the dead letter, and give up the webhook evt_1."},
		"no more":     {Step{}, "Close the dead letter. Nothing else is changed."},
	} {
		if got := c.step.Does(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
