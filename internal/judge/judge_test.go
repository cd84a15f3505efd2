package judge

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// What must hold of judge for every Seen that the database can show, and for every piece of evidence. No database: a
// row takes microseconds.

var (
	ownSubject   = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")
	otherSubject = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8058")
)

func asksAgain() LookupPolicy {
	return LookupPolicy{Budget: 4, Base: time.Second, Cap: time.Minute, Recheck: time.Hour}
}

// judged is the step of a reconciler with this policy.
func judged(s Seen, e Evidence) Step { return Judge(s, planned(asksAgain(), e)) }

// planned is evidence of a reconciler with this policy.
func planned(p LookupPolicy, e Evidence) Evidence {
	switch e := any(e).(type) {
	case Record:
		e.Policy = p
		return e
	case Nothing:
		p.Chance = e.Policy.Chance
		e.Policy = p
		return e
	case Waiting:
		p.Chance = e.Policy.Chance
		e.Policy = p
		return e
	case NoAnswer:
		p.Chance = e.Policy.Chance
		e.Policy = p
		return e
	case Reply, furtherEvidence:
	default:
		panic(unlisted(e))
	}
	return e
}

// unlisted is what a switch says of evidence that it does not list.
func unlisted(e any) string { return fmt.Sprintf("this switch has no case for %T", e) }

// own is the execution of the movement that all evidence here is about.
func own() idempotency.Execution {
	return idempotency.Execution{
		Ref:     idempotency.StoredRef("acme", "POST /payments", "order-0000000001"),
		Subject: ownSubject, Generation: 1, Attempt: 2,
	}
}

func askedForOwn() gateway.Charge {
	return gateway.Charge{
		Account: "acme", Key: own().PassThroughKey(), Reference: payment.ID(ownSubject).String(), AmountMinor: 12000,
		Currency: "USD", PaymentMethod: "pm_ok",
	}
}

// allSeen yields every Seen that the database can show of one movement, by its key's status, whose the key is, what its
// row says, and what else is known.
func allSeen() iter.Seq[Seen] {
	rows := map[idempotency.Status][]payment.Verdict{
		idempotency.InProgressStatus:      {{Status: payment.Processing}},
		idempotency.UnknownStatus:         {{Status: payment.Processing}},
		idempotency.FailedRetryableStatus: {{Status: payment.Failed}},
		idempotency.CompletedStatus:       finals(),
	}
	answerGone := append(finals(), payment.Verdict{Status: payment.Failed})
	return func(yield func(Seen) bool) {
		for _, status := range []idempotency.Status{
			"", idempotency.InProgressStatus, idempotency.UnknownStatus, idempotency.CompletedStatus,
			idempotency.FailedRetryableStatus, idempotency.ExpiredStatus,
		} {
			for _, mine := range []bool{true, false} {
				possible := rows[status]
				if !mine || status == "" || status == idempotency.ExpiredStatus {
					possible = answerGone
				}
				for _, row := range possible {
					for bits := range 1 << 7 {
						s := seenWith(status, mine, row, bits)
						if s.Charged && !s.Held || s.IDTaken && s.ShareGone {
							continue // a dead letter with a record holds the key; and a step is refused for one thing
						}
						if !yield(s) {
							return
						}
					}
				}
			}
		}
	}
}

func finals() []payment.Verdict {
	return []payment.Verdict{
		{Status: payment.Succeeded, PSPID: "psp_1"}, {Status: payment.Succeeded, PSPID: payment.OperatorPSPID + "42"},
		{Status: payment.Declined, PSPID: "psp_1", Code: "no_money"},
		{Status: payment.Declined, Code: "no_money"},
	}
}

func seenWith(status idempotency.Status, mine bool, row payment.Verdict, bits int) Seen {
	is := func(bit int) bool { return bits&(1<<bit) != 0 }
	s := Seen{
		Status: status, Own: own(), Tenant: "acme", Account: "acme", Request: askedForOwn(), Row: row,
		MemoryOver: is(0), Held: is(1), Charged: is(2), IDTaken: is(3), ShareGone: is(4),
		DeadLetter: &DeadLetter{DeadLetter: deadletters.DeadLetter{ID: otherSubject,
			Kind: deadletters.LookupsExhausted, Version: 1, About: &deadletters.About{}}},
	}
	if is(5) {
		s.GraceLeft = time.Second
	}
	if is(6) {
		s.Failures = 3
		s.OtherHeld = "another"
	}
	if status != "" {
		s.Key = s.Own
		if !mine {
			s.Key.Subject = otherSubject
		}
	}
	return s
}

func recordOfOwn(id, status string, amount int64) gateway.Record {
	r := gateway.Record{
		Object: gateway.ChargeObject, ID: id, Account: "acme", Key: own().PassThroughKey(),
		Reference:   payment.ID(ownSubject).String(),
		AmountMinor: amount, Currency: "USD", Status: status, Created: time.Date(2026, 11, 20, 9, 5, 0, 0, time.UTC),
	}
	if status == "declined" {
		r.DeclineCode = "no_money"
	}
	return r
}

func recordsOfOwn() []gateway.Record {
	var all []gateway.Record
	for _, id := range []string{"psp_1", "psp_2"} {
		for _, status := range []string{"succeeded", "declined"} {
			all = append(all, recordOfOwn(id, status, 12000), recordOfOwn(id, status, 1))
			elsewhere := recordOfOwn(id, status, 12000)
			elsewhere.Account = "globex"
			all = append(all, elsewhere)
		}
	}
	return all
}

// sources are all but SourceOperator, with which they are compared.
func sources() []Source { return []Source{SourceWebhook, SourceLookup, SourceScan, SourceStatement} }

func replies() []Reply {
	var all []Reply
	for _, attempt := range []int32{1, 2} {
		for _, o := range []gateway.Outcome{
			gateway.Succeeded{ID: "psp_1"}, gateway.Succeeded{ID: "psp_2"},
			gateway.Declined{ID: "psp_1", Code: "no_money"}, gateway.Declined{Code: "no_money"},
			gateway.NotExecuted{Reason: "no connection"}, gateway.Pending{Reason: "processing"},
			gateway.Indeterminate{Reason: "no answer"},
			gateway.Indeterminate{
				Reason: "another amount", Contradiction: true, ID: "psp_2",
				Evidence: []byte(`{"answer":{"id":"psp_2","status":"succeeded"}}`),
			},
		} {
			all = append(all, Reply{Attempt: attempt, Outcome: o})
		}
	}
	return all
}

func allEvidence() []Evidence {
	all := []Evidence{Nothing{}, Nothing{Policy: LookupPolicy{Chance: 0.9}}, Nothing{Final: true},
		Waiting{Reason: "processing"}, NoAnswer{Reason: "PSP answered 500"},
		NoAnswer{Reason: "no place", NotAsked: true}}
	for _, r := range replies() {
		all = append(all, r)
	}
	for _, r := range recordsOfOwn() { // the other sources: TestARecordGivesTheSameStepFromEverySource
		all = append(all, Record{Source: SourceWebhook, Record: r}, Record{Source: SourceLookup, Record: r})
	}
	if more, ok := any(evidence{}).(interface{ ofOperations() []Evidence }); ok {
		all = append(all, more.ofOperations()...)
	}
	return all
}

// evidence has a method if operators and statements bring evidence, too.
type evidence struct{}

// furtherEvidence is the evidence that operators and statements bring.
type furtherEvidence interface{ further() }

// operators is the evidence that an operator decides, if there are operators.
type operators interface {
	// releases says what is wrong with the release of an unknown key.
	releases(s Seen, step Step) (why string)
	// waits reports whether the PSP has said that it still waits.
	waits() bool
}

// TestWhatMustHoldOfEveryStep judges everything there is.
func TestWhatMustHoldOfEveryStep(t *testing.T) {
	t.Parallel()
	checks := map[string]func(s Seen, e Evidence, step Step) (why string){
		"every step is an edge of the state machine":                              everyStepIsAnEdge,
		"the release of an unknown key needs proof":                               releaseNeedsProof,
		"nothing releases a key that a dead letter holds":                         nothingReleasesAHeldKey,
		"the same evidence again moves nothing":                                   theSameAgainMovesNothing,
		"money that moved and completes nothing has a dead letter that names it":  movedMoneyIsNamed,
		"nobody is told of a decline beside moved money":                          noDeclineBesideMovedMoney,
		"a decline without a success is no case once the key is over":             noCaseWithoutMoney,
		"a refused decision does nothing":                                         aRefusalDoesNothing,
		"nothing succeeds while the PSP waits":                                    noSuccessWhileItWaits,
		"a step that moves or postpones the key does nothing that is not written": movesAlone,
	}
	evidence, pairs := allEvidence(), 0
	for s := range allSeen() {
		for _, e := range evidence {
			pairs++
			step := judged(s, e)
			for what, check := range checks {
				if why := check(s, e, step); why != "" {
					t.Fatalf("%s: %s\nseen: %+v\nevidence: %T %+v\nstep: %+v", what, why, s, e, e, step)
				}
			}
		}
	}
	t.Logf("%d pairs", pairs)
}

func everyStepIsAnEdge(s Seen, _ Evidence, step Step) string {
	switch {
	case step.to == "":
		return ""
	case !s.unfinished():
		return "it moves a key that is final, or another payment's"
	case !slices.ContainsFunc(idempotency.Edges(),
		func(e idempotency.Edge) bool { return e.From == s.Status && e.To == step.to }):
		return "there is no such edge"
	}
	return ""
}

func releaseNeedsProof(s Seen, e Evidence, step Step) string {
	if step.to != idempotency.FailedRetryableStatus || s.Status != idempotency.UnknownStatus {
		return ""
	}
	switch e := any(e).(type) {
	case Nothing:
		if s.Held || !e.Final && (s.GraceLeft > 0 || s.MemoryOver) {
			return "a lookup releases it without proof"
		}
		return finalIsSaid(e.Final, step)
	case operators:
		return e.releases(s, step)
	}
	return "it is released by something else"
}

// finalIsSaid checks that a step passes the guard in the database by the PSP's word only if the PSP has said so.
func finalIsSaid(final bool, step Step) string {
	if step.proof.Final != final {
		return "the database is told of another proof"
	}
	return ""
}

func nothingReleasesAHeldKey(s Seen, e Evidence, step Step) string {
	if _, decision := e.(operators); s.Held && !decision && step.to == idempotency.FailedRetryableStatus {
		return "it is released"
	}
	return ""
}

func theSameAgainMovesNothing(s Seen, e Evidence, step Step) string {
	switch any(e).(type) {
	case Reply, Record:
	case Nothing, Waiting, NoAnswer, furtherEvidence:
		return "" // a lookup says when it asks again, and a decision is about a dead letter that is closed by now
	default:
		return unlisted(e)
	}
	after := s.After(step)
	after.IDTaken, after.ShareGone = s.IDTaken, s.ShareGone
	again := judged(after, e)
	switch {
	case again.to != "":
		return fmt.Sprintf("it moves the key once more: %+v", again)
	case again.open != nil && (step.open == nil || step.open.Finding != again.open.Finding ||
		step.open.Kind != again.open.Kind):
		return fmt.Sprintf("it opens another dead letter: %+v", again.open)
	}
	return ""
}

func movedMoneyIsNamed(s Seen, e Evidence, step Step) string {
	id := ""
	switch e := any(e).(type) {
	case Reply:
		if o, ok := e.Outcome.(gateway.Succeeded); ok {
			id = o.ID
		}
	case Record:
		if e.Record.Executed() {
			id = e.Record.ID
		}
	case Nothing, Waiting, NoAnswer, furtherEvidence:
	default:
		return unlisted(e)
	}
	known := s.Row.Status == payment.Succeeded && (s.Row.PSPID == id ||
		strings.HasPrefix(s.Row.PSPID, payment.OperatorPSPID))
	switch {
	case id == "", step.leftAlone, step.to == idempotency.CompletedStatus, known && step.open == nil:
		return ""
	case step.open == nil || !strings.Contains(step.open.Finding, id):
		return "nobody hears of " + id
	}
	return ""
}

func noDeclineBesideMovedMoney(s Seen, _ Evidence, step Step) string {
	if s.Charged && step.to == idempotency.CompletedStatus && step.verdict.Status == payment.Declined {
		return "a client would be told that it was declined"
	}
	return ""
}

// movesAlone: package payments writes a name, an answered dead letter and what others have moved only for a step that
// leaves the key as it is, and only an owner has the lease that makes a key unknown.
func movesAlone(_ Seen, _ Evidence, step Step) (why string) {
	guarded := step.to != "" || step.askAgain != nil
	switch {
	case guarded && (step.named != "" || step.answer != nil || step.elsewhere != nil || step.reversal != nil):
		return "a part of the step is lost"
	case step.to != "" && step.askAgain != nil:
		return "the key is moved and postponed"
	case step.to == idempotency.UnknownStatus && !step.byOwner:
		return "somebody without a lease gives it up"
	}
	return ""
}

func noCaseWithoutMoney(s Seen, e Evidence, step Step) string {
	r, ok := e.(Record)
	if ok && !r.Record.Executed() && !s.unfinished() && s.Row.Status != payment.Succeeded && step.open != nil {
		return "a dead letter about money that nobody has moved"
	}
	return ""
}

func aRefusalDoesNothing(_ Seen, e Evidence, step Step) string {
	if _, decision := e.(operators); step.refuse != nil && !decision {
		return "only a decision can be refused"
	}
	if step.refuse != nil && !reflect.DeepEqual(step, Step{refuse: step.refuse}) {
		return "it is refused, and does something"
	}
	return ""
}

func noSuccessWhileItWaits(_ Seen, e Evidence, step Step) string {
	_, waits := e.(Waiting)
	if decision, ok := e.(operators); ok {
		waits = decision.waits()
	}
	if waits && step.to == idempotency.CompletedStatus && step.verdict.Status == payment.Succeeded {
		return "a client would be told of a success that may never come"
	}
	return ""
}

func TestARecordGivesTheSameStepFromEverySource(t *testing.T) {
	if testing.Short() {
		t.Skip("long: every record from every source")
	}
	t.Parallel()
	records := recordsOfOwn()
	for s := range allSeen() {
		for _, r := range records {
			want := comparable(judged(s, Record{Source: SourceOperator, Record: r}))
			for _, source := range sources() {
				step := judged(s, Record{Source: source, Record: r})
				if source == SourceScan && s.atWork() && step.leftAlone {
					continue
				}
				if got := comparable(step); !reflect.DeepEqual(got, want) {
					t.Fatalf("by %s: %+v\nby an operator: %+v\nseen: %+v\nrecord: %+v", source, got, want, s, r)
				}
			}
		}
	}
}

// comparable is a step without what names the source, and without when the PSP is asked next.
func comparable(step Step) Step {
	step.note, step.askAgain = idempotency.Note{}, nil
	if step.open != nil {
		c := *step.open
		c.Evidence = nil
		step.open = &c
	}
	return step
}

// A fact of one step is not one of the next.
func TestWhatAStepWasRefusedForIsForgottenAfterTheNext(t *testing.T) {
	t.Parallel()
	for s := range allSeen() {
		if after := s.After(Step{}); after.IDTaken || after.ShareGone {
			t.Fatalf("%+v", after)
		}
	}
}

// Evidence that agrees comes to one end in any order. Evidence that contradicts comes to an open dead letter in any
// order.
func TestOrderOfRecordsHidesNothing(t *testing.T) {
	t.Parallel()
	then := func(s Seen, r gateway.Record) (after Seen, opened bool) {
		step := judged(s, Record{Source: SourceWebhook, Record: r})
		return s.After(step), step.open != nil
	}
	records := recordsOfOwn()
	began, openedAtOnce := make([]Seen, len(records)), make([]bool, len(records))
	for s := range allSeen() {
		if s.IDTaken || s.ShareGone || s.Charged {
			continue // facts of one step, or of what came before
		}
		for i, r := range records {
			began[i], openedAtOnce[i] = then(s, r)
		}
		for j, b := range records {
			for i, a := range records[:j] { // each two once: a record twice has one order
				first, openedFirst := then(began[i], b)
				second, openedSecond := then(began[j], a)
				openedFirst, openedSecond = openedFirst || openedAtOnce[i], openedSecond || openedAtOnce[j]
				if money := a.Executed() || b.Executed(); money && openedFirst != openedSecond {
					t.Fatalf("a dead letter: %v or %v\nseen: %+v\n%+v\n%+v", openedFirst, openedSecond, s, a, b)
				}
				if !openedFirst && !openedSecond && (first.Status != second.Status ||
					first.Row.Status != second.Row.Status) {
					t.Fatalf("%s %+v, or %s %+v\nseen: %+v\n%+v\n%+v", first.Status, first.Row, second.Status,
						second.Row, s, a, b)
				}
			}
		}
	}
}
