package judge

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// The table of docs/reconciliation.md is what judge says, row by row: -update writes it. A reader of the page reads the
// code.

// section is one table of the page.
type section struct {
	title string
	rows  []tableRow
}

// tables are the sections of the page.
func tables() []section {
	return []section{
		{"The request's own reply, while the key waits for it", ownReplies()},
		{"The request's own reply, when others have acted on its key", lateReplies()},
		{"A record, by webhook, lookup, scan, statement, or an operator's retry", recordRows()},
		{"A refund of a payment that others have made at the PSP", elsewhereRows()},
		{"A dispute", disputeRows()},
		{"A refund whose money comes back after it succeeded", reversalRows()},
		{"A lookup without a record", lookupRows()},
		{"An operator's decision about a dead letter", decisionRows()},
		{"A line of the PSP's statement", statementRows()},
	}
}

func decideOn(a deadletters.Action, answer gateway.Lookup) OperatorDecision {
	return OperatorDecision{Action: a, Version: 1, Answer: answer}
}

func named(id string, answer gateway.Lookup) OperatorDecision {
	d := decideOn(deadletters.Executed, answer)
	d.PSPID = id
	return d
}

// pspMovedElse is an answer by which money has moved under the key for another payment.
func pspMovedElse() gateway.Lookup {
	r := recordOfOwn("psp_8", "succeeded", 12000)
	r.Reference = payment.ID(otherSubject).String()
	return gateway.Found{Records: []gateway.Record{r}}
}

func pspHas(status string, amount int64) gateway.Lookup {
	return gateway.Found{Records: []gateway.Record{recordOfOwn("psp_1", status, amount)}}
}

func aLine(kind BreakKind, ours payment.Status) Break {
	return Break{
		Kind: kind, Account: "acme", Object: gateway.ChargeObject, PSPID: "psp_1",
		Reference: payment.ID(ownSubject).String(),
		Theirs:    &Side{AmountMinor: 12000, Currency: "USD"},
		Ours:      &Side{AmountMinor: 12000, Currency: "USD", Status: string(ours)},
	}
}

func lineOfOther() Break {
	b := aLine(BreakMissingHere, "")
	b.OtherTenant = true
	return b
}

func listed() Break {
	b := aLine(BreakMissingThere, "")
	b.Listed = true
	return b
}

func ownReplies() []tableRow {
	return []tableRow{
		{"charged", "in progress", mine(yes()), anInProgress()},
		{"declined", "in progress", mine(no()), anInProgress()},
		{"declined", "in progress, and an open dead letter says that money moved", mine(no()),
			keyIs(idempotency.InProgressStatus, processing(), isCharged)},
		{"declined, and the PSP names no id", "in progress", mine(noWithoutID()), anInProgress()},
		{"declined, and the PSP names no id", "in progress, and an open dead letter says that money moved",
			mine(noWithoutID()), keyIs(idempotency.InProgressStatus, processing(), isCharged)},
		{"never sent", "in progress", mine(gateway.NotExecuted{Reason: "no connection"}), anInProgress()},
		{"never sent", "in progress, and a dead letter holds the key",
			mine(gateway.NotExecuted{Reason: "no connection"}), keyIs(
				idempotency.InProgressStatus, processing(), isHeld)},
		{"no answer, a 500, garbage", "in progress", mine(gateway.Indeterminate{Reason: "no answer in time"}),
			anInProgress()},
		{"the PSP waits for the customer or a bank", "in progress", mine(gateway.Pending{Reason: "requires_action"}),
			anInProgress()},
		{"something else than was asked", "in progress", mine(contradicting()), anInProgress()},
		{"charged, under an id that another payment has", "in progress", mine(yes()),
			keyIs(idempotency.InProgressStatus, processing(), isTaken)},
		{"declined, under an id that another payment has", "in progress", mine(no()),
			keyIs(idempotency.InProgressStatus, processing(), isTaken)},
	}
}

func lateReplies() []tableRow {
	return []tableRow{
		{"charged", "unknown, of its attempt", mine(yes()), anUnknown()},
		{"charged", "released", earlier(yes()), keyIs(idempotency.FailedRetryableStatus, neverRun())},
		{"charged", "in progress or unknown, of a later attempt", earlier(yes()), anUnknown()},
		{"charged, by a PSP with two steps", "in progress or unknown, of a later attempt", earlier(yes()),
			keyIs(idempotency.UnknownStatus, processing(), inTwoSteps)},
		{"declined, never sent, or no answer", "any", mine(no()), anUnknown()},
		{"something else than was asked", "unknown", mine(contradicting()), anUnknown()},
		{"something else than was asked", "completed", mine(contradicting()), done(paidAs("psp_1"))},
		{"something else than was asked", "expired, taken again or deleted; the payment failed", mine(contradicting()),
			goneFrom(neverRun())},
	}
}

func recordRows() []tableRow {
	charged, other := sayRecord(SourceWebhook, "psp_1", "succeeded", 12000),
		sayRecord(SourceWebhook, "psp_1", "succeeded", 1)
	declined := sayRecord(SourceWebhook, "psp_1", "declined", 12000)
	return []tableRow{
		{"charged, and nothing of ours asked for it", "", charged, Seen{}},
		{"declined, and nothing of ours asked for it", "", declined, Seen{}},
		{"charged, under another tenant's account", "any", underAnotherAccount(), anInProgress()},
		{"charged as asked", "in progress", charged, anInProgress()},
		{"charged as asked", "unknown", charged, anUnknown()},
		{"charged as asked", "released", charged, keyIs(idempotency.FailedRetryableStatus, neverRun())},
		{"declined as asked", "in progress, unknown or released", declined, anUnknown()},
		{"declined as asked", "one of these, and an open dead letter says that money moved", declined,
			keyIs(idempotency.UnknownStatus, processing(), isCharged)},
		{"charged under an id that another payment has", "one of these", charged,
			keyIs(idempotency.UnknownStatus, processing(), isTaken)},
		{"declined under an id that another payment has", "one of these", declined,
			keyIs(idempotency.UnknownStatus, processing(), isTaken)},
		{"a refund whose share of the payment another one has", "released", charged,
			keyIs(idempotency.FailedRetryableStatus, neverRun(), isGone)},
		{"something else than was asked", "one of these", other, anUnknown()},
		{"found by a lookup: something else than was asked", "unknown",
			sayRecord(SourceLookup, "psp_1", "succeeded", 1), anUnknown()},
		{"found by a lookup: declined, and our books do not know the object that was made for this attempt", "unknown",
			sayRecord(SourceLookup, "psp_9", "declined", 12000),
			keyIs(idempotency.UnknownStatus, processing(), inTwoSteps)},
		{"by webhook: declined, under another object than that of this attempt", "unknown",
			sayRecord(SourceWebhook, "psp_9", "declined", 12000),
			keyIs(idempotency.UnknownStatus, processing(), inTwoSteps)},
		{"found by the scan", "in progress, or unknown within the grace period",
			sayRecord(SourceScan, "psp_1", "succeeded", 12000), keyIs(
				idempotency.UnknownStatus, processing(), inGrace)},
		{"as we know", "completed", sayRecord(SourceScan, "psp_1", "succeeded", 12000), done(paidAs("psp_1"))},
		{"as we know, by webhook", "completed", charged, done(paidAs("psp_1"))},
		{"charged", "completed, and an operator has vouched for it without an id",
			sayRecord(SourceScan, "psp_1", "succeeded", 12000), done(paidAs(payment.OperatorPSPID + "42"))},
		{"charged, by webhook", "completed, and an operator has vouched for it without an id", charged,
			done(paidAs(payment.OperatorPSPID + "42"))},
		{"charged under another id", "completed as a success", sayRecord(SourceWebhook, "psp_2", "succeeded", 12000),
			done(paidAs("psp_1"))},
		{"declined", "completed as a success", declined, done(paidAs("psp_1"))},
		{"charged", "completed as a decline", charged, done(refusedAs("psp_9"))},
		{"something else than was asked", "completed", other, done(paidAs("psp_1"))},
		{"declined under another id", "completed as a decline", sayRecord(SourceWebhook, "psp_2", "declined", 12000),
			done(refusedAs("psp_1"))},
		{"charged", "expired, taken again or deleted; the payment failed", charged, goneFrom(neverRun())},
		{"declined", "expired, taken again or deleted; the payment failed", declined, goneFrom(neverRun())},
		{"charged under another id", "expired, taken again or deleted; the payment succeeded",
			sayRecord(SourceWebhook, "psp_2", "succeeded", 12000), goneFrom(paidAs("psp_1"))},
	}
}

func lookupRows() []tableRow {
	return []tableRow{
		{"nothing", "unknown, within the grace period", Nothing{},
			keyIs(idempotency.UnknownStatus, processing(), inGrace)},
		{"nothing", "unknown, and a dead letter holds the key", Nothing{},
			keyIs(idempotency.UnknownStatus, processing(), isHeld)},
		{"nothing", "unknown, and older than the PSP's memory", Nothing{},
			keyIs(idempotency.UnknownStatus, processing(), isOld)},
		{"nothing, or the PSP has cancelled it", "unknown, as its 20th attempt", Nothing{Final: true},
			keyIs(idempotency.UnknownStatus, processing(), isWornOut)},
		{"nothing", "unknown, as its 20th attempt, and older than the PSP's memory", Nothing{},
			keyIs(idempotency.UnknownStatus, processing(), isWornOut, isOld)},
		{"nothing, and a PSP with two steps has not cancelled it", "unknown, as its 20th attempt",
			Nothing{}, keyIs(idempotency.UnknownStatus, processing(), isWornOut, inTwoSteps)},
		{"nothing", "unknown", Nothing{}, anUnknown()},
		{"nothing, and a PSP with two steps has not cancelled it", "unknown", Nothing{},
			keyIs(idempotency.UnknownStatus, processing(), inTwoSteps)},
		{"nothing, and the PSP has cancelled it", "unknown, within the grace period, and older than the PSP's memory",
			Nothing{Final: true}, keyIs(idempotency.UnknownStatus, processing(), inGrace, isOld)},
		{"nothing, and the PSP has cancelled it", "unknown, and a dead letter holds the key", Nothing{Final: true},
			keyIs(idempotency.UnknownStatus, processing(), isHeld)},
		{"the PSP waits for the customer or a bank", "unknown, within the grace period", Waiting{},
			keyIs(idempotency.UnknownStatus, processing(), inGrace)},
		{"the PSP waits for the customer or a bank", "unknown", Waiting{}, anUnknown()},
		{"not asked: we had no place", "unknown", NoAnswer{NotAsked: true}, anUnknown()},
		{"no answer", "unknown, and a dead letter holds the key", NoAnswer{},
			keyIs(idempotency.UnknownStatus, processing(), isHeld)},
		{"no answer", "unknown", NoAnswer{}, anUnknown()},
		{"no answer, and the budget is spent", "unknown", NoAnswer{},
			keyIs(idempotency.UnknownStatus, processing(), isSpent)},
		{"any of these", "not unknown any more", Nothing{}, done(paidAs("psp_1"))},
	}
}

func decisionRows() []tableRow {
	return []tableRow{
		{"`executed` or `not_executed`", "not unknown, or gone", decideOn(deadletters.Executed, nil),
			done(paidAs("psp_1"))},
		{"`executed`; the PSP has it as charged", "unknown", decideOn(deadletters.Executed, pspHas("succeeded", 1)),
			anUnknown()},
		{"`executed`; the PSP has declined it", "unknown", decideOn(deadletters.Executed, pspHas("declined", 12000)),
			anUnknown()},
		{"`executed`; the PSP does not answer", "unknown",
			decideOn(deadletters.Executed, gateway.LookupFailed{}), anUnknown()},
		{"`executed`, under an id that the operator names; the PSP does not answer", "unknown",
			named("psp_9", gateway.LookupFailed{}), anUnknown()},
		{"`executed`; the PSP does not answer, and executes in two steps", "unknown",
			decideOn(deadletters.Executed, gateway.LookupFailed{}),
			keyIs(idempotency.UnknownStatus, processing(), inTwoSteps)},
		{"`executed`, under another id than that of the PSP's object; the PSP does not answer", "unknown",
			named("psp_9", gateway.LookupFailed{}), keyIs(idempotency.UnknownStatus, processing(), inTwoSteps)},
		{"`executed`; the PSP has nothing", "unknown, within the grace period",
			decideOn(deadletters.Executed, gateway.NotFound{}),
			keyIs(idempotency.UnknownStatus, processing(), inGrace)},
		{"`executed`; the PSP has nothing", "unknown, and older than the PSP's memory",
			decideOn(deadletters.Executed, gateway.NotFound{}),
			keyIs(idempotency.UnknownStatus, processing(), isOld)},
		{"`executed`; the PSP has nothing", "unknown, and an open dead letter says that money moved",
			decideOn(deadletters.Executed, gateway.NotFound{}),
			keyIs(idempotency.UnknownStatus, processing(), isCharged)},
		{"`executed`; the PSP has nothing", "unknown", decideOn(deadletters.Executed, gateway.NotFound{}), anUnknown()},
		{"`executed`; the PSP lists only money that moved for something else", "unknown",
			decideOn(deadletters.Executed, pspMovedElse()), anUnknown()},
		{"`executed`; the PSP has nothing, and executes in two steps", "unknown",
			decideOn(deadletters.Executed, gateway.NotFound{}),
			keyIs(idempotency.UnknownStatus, processing(), inTwoSteps)},
		{"`executed`; the PSP has cancelled it", "unknown",
			decideOn(deadletters.Executed, gateway.NotFound{Final: true}), anUnknown()},
		{"`executed`; the PSP waits for the customer or a bank", "unknown",
			decideOn(deadletters.Executed, gateway.Waiting{}), anUnknown()},
		{"`executed`, under an id that another payment has", "unknown",
			named("psp_9", gateway.LookupFailed{}), keyIs(idempotency.UnknownStatus, processing(), isTaken)},
		{"`not_executed`; the PSP has a record of it", "unknown",
			decideOn(deadletters.NotExecuted, pspHas("declined", 12000)), anUnknown()},
		{"`not_executed`; the PSP has declined something else than was asked", "unknown",
			decideOn(deadletters.NotExecuted, pspHas("declined", 1)), anUnknown()},
		{"`not_executed`; the same, under an id that another payment has", "unknown",
			decideOn(deadletters.NotExecuted, pspHas("declined", 1)),
			keyIs(idempotency.UnknownStatus, processing(), isTaken)},
		{"`not_executed`; the PSP lists money that moved for something else", "unknown",
			decideOn(deadletters.NotExecuted, pspMovedElse()), anUnknown()},
		{"`not_executed`; the PSP has nothing", "unknown, and the dead letter's evidence says that it was executed",
			decideOn(deadletters.NotExecuted, gateway.NotFound{}),
			unknownKey(withDeadLetter(func(l *DeadLetter) { l.Executed = "psp_7" }))},
		{"`not_executed`; the PSP does not answer", "unknown",
			decideOn(deadletters.NotExecuted, gateway.LookupFailed{}), anUnknown()},
		{"`not_executed`; the PSP has nothing", "unknown, within the grace period",
			decideOn(deadletters.NotExecuted, gateway.NotFound{}), keyIs(
				idempotency.UnknownStatus, processing(), inGrace)},
		{"`not_executed`; the PSP has nothing", "unknown, and another dead letter holds the key",
			decideOn(deadletters.NotExecuted, gateway.NotFound{}), keyIs(
				idempotency.UnknownStatus, processing(), otherHolds)},
		{"`not_executed`; the PSP has nothing", "unknown", decideOn(deadletters.NotExecuted, gateway.NotFound{}),
			anUnknown()},
		{"`not_executed`; the PSP has nothing, and, with two steps, was not asked to cancel it", "unknown",
			decideOn(deadletters.NotExecuted, gateway.NotFound{}),
			keyIs(idempotency.UnknownStatus, processing(), inTwoSteps)},
		{"`not_executed`; the PSP has cancelled it", "unknown, within the grace period",
			decideOn(deadletters.NotExecuted, gateway.NotFound{Final: true}), keyIs(
				idempotency.UnknownStatus, processing(), inGrace)},
		{"`not_executed`; the PSP waits for the customer or a bank", "unknown",
			decideOn(deadletters.NotExecuted, gateway.Waiting{}), anUnknown()},
		{"`retry`", "unknown", decideOn(deadletters.Retry, nil), anUnknown()},
		{"`retry`", "in progress", decideOn(deadletters.Retry, nil), anInProgress()},
		{"`retry` of a dead letter with a record", "neither", decideOn(deadletters.Retry, nil),
			done(paidAs("psp_1"), func(s *Seen) { s.DeadLetter.Record = []byte(`{}`) })},
		{"`retry` of a dead letter about a job or a webhook", "any", decideOn(deadletters.Retry, nil),
			done(paidAs("psp_1"), func(s *Seen) {
				s.DeadLetter.Kind, s.DeadLetter.EventID = deadletters.WebhookUnmatched, "evt_1"
			})},
		{"`dismiss`", "in progress, or unknown and held by no other dead letter", decideOn(deadletters.Dismiss, nil),
			anUnknown()},
		{"`dismiss`", "else", decideOn(deadletters.Dismiss, nil), done(paidAs("psp_1"))},
	}
}

func statementRows() []tableRow {
	return []tableRow{
		{"charged, and nothing of ours asked for it", "", aLine(BreakMissingHere, ""), Seen{}},
		{"charged, for another tenant's payment", "", lineOfOther(), Seen{}},
		{"charged", "in progress, or unknown within the grace period", aLine(BreakStatus, payment.Processing),
			keyIs(idempotency.UnknownStatus, processing(), inGrace)},
		{"charged", "unknown", aLine(BreakStatus, payment.Processing), anUnknown()},
		{"charged", "the payment failed, and its key is released", aLine(BreakStatus, payment.Failed),
			keyIs(idempotency.FailedRetryableStatus, neverRun())},
		{"charged", "the payment failed, and its key is gone", aLine(BreakStatus, payment.Failed),
			goneFrom(neverRun())},
		{"charged", "declined", aLine(BreakStatus, payment.Declined), done(refusedAs("psp_9"))},
		{"declined", "succeeded", aLine(BreakStatus, payment.Succeeded), done(paidAs("psp_1"))},
		{"a further charge, or an id that is listed twice", "any", aLine(BreakDuplicate, payment.Succeeded),
			done(paidAs("psp_9"))},
		{"under another id or reference than we know", "succeeded", aLine(BreakPSPID, payment.Succeeded),
			done(paidAs("psp_9"))},
		{"not listed", "succeeded", aLine(BreakMissingThere, payment.Succeeded), done(paidAs("psp_1"))},
		{"listed after all, by a statement of any day", "any", listed(), done(paidAs("psp_1"))},
		{"another amount or currency", "any", aLine("amount", payment.Succeeded), done(paidAs("psp_1"))},
	}
}

// inWords tells a step as the table does.
func inWords(s Seen, step Step) string {
	var words []string
	switch {
	case step.refuse != nil:
		return "refused: `" + string(step.refuse.Ground) + "`"
	case step.to == idempotency.CompletedStatus && step.verdict.Status == payment.Declined:
		words = append(words, "→ `completed`, 402"+without(step.verdict.PSPID == "", ", without the id"))
	case step.to == idempotency.CompletedStatus:
		id, ours := strings.CutPrefix(step.verdict.PSPID, payment.OperatorPSPID)
		named := ours && id != s.DeadLetter.ID.String()
		words = append(words, "→ `completed`, 201"+without(named, ", as `operator:<the id>`")+
			without(ours && !named, ", as `operator:<dead letter>`"))
	case step.to != "":
		words = append(words, "→ `"+string(step.to)+"`")
	case step.leftAlone:
		words = append(words, "left alone")
	case step.named != "":
		words = append(words, "the row takes the PSP's id")
	}
	if step.answer != nil {
		words = append(words, "closes the dead letter `"+string(step.answer.Kind)+"`")
	}
	if step.open != nil {
		words = append(words, "dead letter `"+string(step.open.Kind)+"` "+names(s, *step.open))
	}
	if r := step.elsewhere; r != nil {
		bounds := r.Status != "declined" && (r.Object != gateway.DisputeObject || r.Dispute.Status.Takes())
		words = append(words, "stored; bounds "+map[bool]string{true: "its refunds", false: "nothing"}[bounds])
	}
	if step.reversal != nil {
		words = append(words, "the refund is `failed`, and its share is given back")
	}
	if step.note.Actor != "" && step.to == "" && step.askAgain == nil {
		words = append(words, "a line in the timeline")
	}
	if step.askAgain != nil {
		words = append(words, "asked again "+when(*step.askAgain))
	}
	switch {
	case step.again != nil && step.again.Record != nil:
		words = append(words, "the record is judged again")
	case step.again != nil:
		words = append(words, "it is processed again")
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, "; ")
}

// names says how a finding is named: one open dead letter for each name.
func names(s Seen, c Case) string {
	key := c.AboutKey && strings.HasPrefix(c.Finding, s.About().KeyFinding(s.Own.Subject))
	switch record := strings.Contains(c.Finding, "record "); {
	case key && record:
		return "per key and record"
	case key:
		return "per key"
	case record && c.AboutKey:
		return "per record, holds the key"
	case record:
		return "per record"
	}
	return "per payment, holds the key"
}

func when(wait Wait) string {
	p := asksAgain()
	switch wait.After {
	case 0:
		return "at once"
	case p.Recheck:
		return "after `LOOKUP_RECHECK`"
	case p.Base:
		if wait.Failures == 0 {
			return "after `LOOKUP_BASE`"
		}
		return "after a growing wait"
	case 30 * time.Second:
		return "when the grace period is over, and after `LOOKUP_CAP` at the latest"
	}
	return fmt.Sprintf("after %v", wait.After)
}

// A developer who adds a kind of evidence says in the tables what it does, and has it judged amid all that can be seen.
func TestEachKindOfEvidenceIsInTheTables(t *testing.T) {
	t.Parallel()
	shown, tried := map[string]bool{}, map[string]bool{}
	for _, table := range tables() {
		for _, r := range table.rows {
			shown[reflect.TypeOf(r.e).Name()] = true
		}
	}
	for _, e := range allEvidence() {
		tried[reflect.TypeOf(e).Name()] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range regexp.MustCompile(`(?m)^func \((?:\w+ )?\*?(\w+)\) judge\(`).FindAllSubmatch(source, -1) {
			kinds++
			if name := string(kind[1]); !shown[name] || !tried[name] {
				t.Errorf("%s: in the tables %t, judged amid everything %t", name, shown[name], tried[name])
			}
		}
	}
	if kinds != len(tried) {
		t.Errorf("%d kinds of evidence, and %d are tried", kinds, len(tried))
	}
}

func elsewhereRows() []tableRow {
	says := func(source Source, status string) Evidence {
		return Record{Source: source, Record: byOthers(gateway.RefundObject, "psp_1", "re_1", status, 500)}
	}
	line := aLine(BreakMissingHere, "")
	line.Object, line.PSPID, line.Reference, line.Theirs.Status = gateway.RefundObject, "re_1", "", "succeeded"
	line.ChargeID, line.Theirs.AmountMinor = "psp_1", 500
	back := line
	back.Theirs = &Side{AmountMinor: 500, Currency: "USD", Status: "declined"}
	ofAnother, backOfAnother := line, back
	ofAnother.ChargeID, backOfAnother.ChargeID = "psp_9", "psp_9"
	inEuros := byOthers(gateway.RefundObject, "psp_1", "re_1", "succeeded", 500)
	inEuros.Currency = "EUR"
	shared, lost := Seen{Shared: true}, done(paidAs("psp_1"))
	lost.Own.Subject = uuid.UUID{}
	refused, held := mine(gateway.Declined{Code: gateway.AlreadyMoved}), storedAs(payment.Succeeded, 500, "")
	held.Held = true
	return []tableRow{
		{"it has moved money, or is on its way", "completed as a success", says(SourceWebhook, "succeeded"),
			done(paidAs("psp_1"))},
		{"the same once more", "any", says(SourceScan, "succeeded"), storedAs(payment.Succeeded, 500, "")},
		{"it has come back, or was never moved", "any", says(SourceWebhook, "declined"), done(paidAs("psp_1"))},
		{"it has moved money, by an older webhook than the one by which it came back", "any",
			says(SourceWebhook, "succeeded"), storedAs(payment.Reversed, 500, "")},
		{"it came back, and the PSP's ledger has it as moved", "any", says(SourceScan, "succeeded"),
			storedAs(payment.Reversed, 500, "")},
		{"another amount than before", "any", says(SourceWebhook, "succeeded"), storedAs(payment.Succeeded, 400, "")},
		{"it is in another currency than the payment", "any", Record{Source: SourceWebhook, Record: inEuros},
			done(paidAs("psp_1"))},
		{"it has moved money", "in progress or unknown", says(SourceScan, "succeeded"), anInProgress()},
		{"it has moved money", "completed as a success, and held before", says(SourceScan, "succeeded"),
			held},
		{"a line of a statement", "completed as a success", line, done(paidAs("psp_1"))},
		{"a line of a statement", "completed as a success, and held before", line,
			done(paidAs("psp_1"), isHeld)},
		{"a line of a statement by which it has come back", "any", back, done(paidAs("psp_1"))},
		{"a line of a statement, and our books do not have the charge's id", "completed by an operator", ofAnother,
			done(paidAs(payment.OperatorPSPID + "1"))},
		{"a line of a statement by which it has come back, and our books do not have the charge's id",
			"completed by an operator", backOfAnother, done(paidAs(payment.OperatorPSPID + "1"))},
		{"a line of a statement, and our books do not have the charge's id yet", "in progress or unknown", ofAnother,
			anUnknown()},
		{"it has our marks, and we have lost it, as after a restore", "gone", says(SourceScan, "succeeded"), lost},
		{"it is about a charge of another program", "", says(SourceWebhook, "succeeded"), shared},
		{"the PSP refuses a refund of ours: returned or held already", "in progress", refused, anInProgress()},
	}
}

func disputeRows() []tableRow {
	says := func(status gateway.DisputeStatus) Evidence {
		r := byOthers(gateway.DisputeObject, "psp_1", "dp_1", status.Record(), 500)
		r.Dispute = gateway.Dispute{Status: status, Reason: "fraudulent"}
		return Record{Source: SourceWebhook, Record: r}
	}
	line := aLine(BreakMissingHere, "")
	line.Object, line.PSPID, line.Reference, line.Theirs.Status = gateway.DisputeObject, "dp_1", "", "declined"
	line.ChargeID = "psp_1"
	return []tableRow{
		{"the bank only asks (`inquiry`), or has ended its inquiry (`closed`)", "any", says(gateway.Inquiry),
			done(paidAs("psp_1"))},
		{"opened: `needs_response`, `under_review`", "completed as a success", says(gateway.NeedsResponse),
			done(paidAs("psp_1"))},
		{"the same once more", "any", says(gateway.NeedsResponse),
			storedAs(gateway.NeedsResponse, 500, "fraudulent")},
		{"`won`: the money is ours again", "any", says(gateway.Won), storedAs(gateway.UnderReview, 500, "fraudulent")},
		{"`lost`", "completed as a success", says(gateway.Lost), done(paidAs("psp_1"))},
		{"`lost`, and `won` was told before; or the reverse", "any", says(gateway.Lost),
			storedAs(gateway.Won, 500, "fraudulent")},
		{"opened or lost", "in progress or unknown", says(gateway.NeedsResponse), anUnknown()},
		{"a line of a statement by which the money is given back", "any", line, done(paidAs("psp_1"))},
	}
}

func reversalRows() []tableRow {
	says := func(source Source, id, status string) Evidence {
		return Record{Source: source, Record: refundOfOwn(id, status)}
	}
	gone := refundIs(paidAs("psp_2"))
	gone.Status = ""
	line := aLine(BreakStatus, payment.Succeeded)
	line.Object, line.PSPID = gateway.RefundObject, "psp_2"
	reversed := payment.Verdict{Status: payment.Reversed, PSPID: "psp_2", Code: "expired_card"}
	vouched := paidAs(payment.OperatorPSPID + "x")
	others := refundIs(refusedAs("psp_2"))
	others.Stored = Stored{Status: string(payment.Succeeded), AmountMinor: 500, Currency: "USD"}
	ended := others
	ended.Stored.Status = string(payment.Reversed)
	return []tableRow{
		{"it has failed", "completed as a success", says(SourceWebhook, "psp_2", "declined"),
			refundIs(paidAs("psp_2"))},
		{"it has failed, by the scan", "expired or deleted", says(SourceScan, "psp_2", "declined"), gone},
		{"a line of a statement by which it has come back", "completed as a success", line, refundIs(paidAs("psp_2"))},
		{"it has failed, once more", "any", says(SourceWebhook, "psp_2", "declined"), refundIs(reversed)},
		{"it has succeeded, by an older webhook", "any", says(SourceWebhook, "psp_2", "succeeded"), refundIs(reversed)},
		{"it came back, and the PSP's ledger has it as moved", "any", says(SourceScan, "psp_2", "succeeded"),
			refundIs(reversed)},
		{"another refund under the same marks has failed", "completed as a success",
			says(SourceWebhook, "psp_9", "declined"), refundIs(paidAs("psp_2"))},
		{"it has failed", "completed, and an operator has vouched for it without an id",
			says(SourceWebhook, "psp_2", "declined"), refundIs(vouched)},
		{"a second refund under the marks of one of ours", "completed as a success",
			says(SourceWebhook, "psp_2", "succeeded"), refundIs(paidAs("psp_1"))},
		{"a second refund under the marks of one that came back", "any", says(SourceWebhook, "psp_9", "succeeded"),
			refundIs(reversed)},
		{"a refund of ours that is declined or failed here", "completed as a decline",
			says(SourceWebhook, "psp_2", "succeeded"), refundIs(refusedAs("psp_9"))},
		{"one that is stored so has failed", "completed as a decline", says(SourceScan, "psp_2", "declined"), others},
		{"one that is stored so has failed, and the PSP's ledger has it as moved", "completed as a decline",
			says(SourceScan, "psp_2", "succeeded"), ended},
	}
}
