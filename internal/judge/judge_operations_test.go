package judge

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/payment"
)

// ofOperations is the evidence that an operator decides, and that of a statement.
func (evidence) ofOperations() (all []Evidence) {
	for _, d := range decisions() {
		all = append(all, d)
	}
	for _, kind := range []BreakKind{BreakMissingHere, BreakMissingThere, BreakStatus, BreakDuplicate, BreakPSPID,
		"amount", "currency"} {
		for _, ours := range []payment.Status{payment.Succeeded, payment.Declined, payment.Failed, payment.Processing} {
			if kind != BreakStatus && ours != payment.Succeeded {
				continue // our status plays a part in this kind alone
			}
			all = append(all, Break{
				Kind: kind, Account: "acme", Object: gateway.ChargeObject, PSPID: "psp_1",
				Reference: payment.ID(ownSubject).String(),
				Theirs:    &Side{AmountMinor: 12000, Currency: "USD"},
				Ours:      &Side{AmountMinor: 12000, Currency: "USD", Status: string(ours)},
			})
		}
	}
	return all
}

func (OperatorDecision) further() {}
func (Break) further()            {}

// The rules are tried with evidence of every type. So a switch of judge_test.go that does not list a type fails. Those
// switches cannot name the types of the operations, so the linter does not hold them: it holds this one.
func TestThereIsEvidenceOfEveryType(t *testing.T) {
	t.Parallel()
	tried := make([]int, 7)
	for _, e := range allEvidence() {
		switch e.(type) {
		case Reply:
			tried[0]++
		case Record:
			tried[1]++
		case Nothing:
			tried[2]++
		case Waiting:
			tried[3]++
		case NoAnswer:
			tried[4]++
		case OperatorDecision:
			tried[5]++
		case Break:
			tried[6]++
		}
	}
	if slices.Contains(tried, 0) {
		t.Errorf("a type has no evidence: %v", tried)
	}
}

func (d OperatorDecision) releases(s Seen, step Step) string {
	nothing, _ := d.Answer.(gateway.NotFound)
	if _, asked := d.Answer.(gateway.LookupFailed); asked || d.Answer == nil || s.GraceLeft > 0 && !nothing.Final ||
		s.OtherHeld != "" || d.Action != deadletters.NotExecuted {
		return "an operator releases it without proof"
	}
	if d.waits() {
		return "an operator releases what the PSP may still execute"
	}
	if found, _ := d.Answer.(gateway.Found); slices.ContainsFunc(found.Records, gateway.Record.Executed) {
		return "an operator releases what the PSP has executed"
	}
	return finalIsSaid(nothing.Final, step)
}

func (d OperatorDecision) waits() bool {
	_, waits := d.Answer.(gateway.Waiting)
	return waits
}

// The id that an operator's decision takes from a dead letter's evidence is in the evidence, can be stored, and is not
// that of a refusal or of another key.
func FuzzIDInEvidence(f *testing.F) {
	const record = `{"id":"ch_1","status":"succeeded","idempotencyKey":"order-0000000042","reference":""}`
	f.Add([]byte(record))
	f.Add([]byte(`{"status":201,"answer":` + record + `}`))
	f.Add([]byte(`{"record":{"id":"ch_2","status":"declined"},"id":7}`))
	f.Fuzz(func(t *testing.T, evidence []byte) {
		deadLetter := deadletters.DeadLetter{
			Evidence: evidence, About: &deadletters.About{Tenant: "acme", Operation: "POST /payments",
				Key: "order-0000000042", Generation: 1},
		}
		id := DeadLetterOf(deadLetter).PSPID
		if id == "" {
			return
		}
		if !gateway.IsID(id) || len(id) > 255 || strings.ContainsAny(id, " \x00") {
			t.Fatalf("%q is taken for an id", id)
		}
		var whole map[string]json.RawMessage
		if err := json.Unmarshal(evidence, &whole); err != nil {
			t.Fatalf("%q is found in what is no JSON: %v", id, err)
		}
		for _, place := range []json.RawMessage{whole["answer"], whole["record"], evidence} {
			var says map[string]any
			if json.Unmarshal(place, &says) == nil && says["id"] == id && says["status"] != "declined" &&
				(says["idempotencyKey"] == nil || says["idempotencyKey"] == "" ||
					says["idempotencyKey"] == "order-0000000042") {
				return
			}
		}
		t.Fatalf("%q is found in %s", id, evidence)
	})
}

func decisions() []OperatorDecision {
	var all []OperatorDecision
	answers := []gateway.Lookup{nil, gateway.NotFound{}, gateway.NotFound{Final: true},
		gateway.Waiting{Reason: "processing"}, gateway.LookupFailed{Reason: "no answer"}}
	for _, r := range recordsOfOwn() {
		answers = append(answers, gateway.Found{Records: []gateway.Record{r}})
	}
	for _, action := range []deadletters.Action{deadletters.Retry, deadletters.Executed, deadletters.NotExecuted,
		deadletters.Dismiss} {
		for _, answer := range answers {
			d := OperatorDecision{Action: action, Version: 1, Answer: answer}
			if action == deadletters.Executed {
				all = append(all, OperatorDecision{Action: action, Version: 1, Answer: answer, PSPID: "psp_1"})
			} else if action != deadletters.NotExecuted && answer != nil {
				continue // nobody asks the PSP for it
			}
			all = append(all, d)
		}
	}
	return all
}

// A PSP that executes in two steps reads the object itself, so what it does not find was not executed. It makes another
// object for each attempt, so a success of an earlier one is not the later one's.
func TestPSPWithTwoStepsIsBelievedAboutItsObject(t *testing.T) {
	t.Parallel()
	all := decisions()
	for s := range allSeen() {
		inTwoSteps(&s)
		for _, d := range all {
			_, nothing := d.Answer.(gateway.NotFound)
			if step := judged(s, d); nothing && step.verdict.Status == payment.Succeeded {
				t.Fatalf("seen: %+v\ndecision: %+v\nstep: %+v", s, d, step)
			}
		}
		earlier := Reply{Attempt: own().Attempt - 1, Outcome: gateway.Succeeded{ID: "psp_2"}}
		if step := judged(s, earlier); step.leftAlone {
			t.Fatalf("seen: %+v\nstep: %+v", s, step)
		}
	}
}
