package judge

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/test/golden"
)

// modelJudge is judge, as the models of lab/model ask it.
var modelJudge = filepath.Join("..", "..", "lab", "model", "judge.pml")

// modelFact is something that a model knows when evidence comes, and the values that it can have. m is the model's name
// of the payment or refund.
type modelFact struct{ name, is string }

var modelFacts = []struct {
	name   string
	values []modelFact
}{
	{"ours", []modelFact{{"yes", "OURS(m)"}, {"no", "!OURS(m)"}}},
	{"status", []modelFact{
		{string(idempotency.InProgressStatus), "STATUS(m) == in_progress"},
		{string(idempotency.UnknownStatus), "STATUS(m) == unknown"},
		{string(idempotency.FailedRetryableStatus), "STATUS(m) == failed_retryable"},
		{string(idempotency.CompletedStatus), "STATUS(m) == completed"},
	}},
	{"row", []modelFact{{"none", "RESULT(m) == none"}, {"success", "RESULT(m) == success"},
		{"declined", "RESULT(m) == declined"}}},
	{"attempt", []modelFact{{"same", "SAME_ATTEMPT"}, {"earlier", "!SAME_ATTEMPT"}}},
	{"held", []modelFact{{"yes", "HELD(m)"}, {"no", "!HELD(m)"}}},
	{"grace", []modelFact{{"over", "GRACE_OVER"}, {"open", "!GRACE_OVER"}}},
	{"memory", []modelFact{{"over", "MEMORY_OVER"}, {"lasts", "!MEMORY_OVER"}}},
	{"share", []modelFact{{"gone", "SHARE_GONE(m)"}, {"there", "!SHARE_GONE(m)"}}},
}

// modelQuestion is one question that a model asks judge: the evidence, and which facts can have which values.
type modelQuestion struct {
	name, about string
	evidence    []modelFact
	facts       []string
	bring       func(evidence string, fact map[string]string) Evidence
}

func modelQuestions() []modelQuestion {
	outcome := []modelFact{{"success", "v == success"}, {"declined", "v == declined"}}
	reply := append(slices.Clone(outcome), modelFact{"not_executed", "v == not_executed"},
		modelFact{"unknown", "v == unknown"})
	says := func(evidence string) gateway.Outcome {
		switch evidence {
		case "success":
			return gateway.Succeeded{ID: "psp_1"}
		case "declined":
			return gateway.Declined{ID: "psp_1", Code: "no_money"}
		case "not_executed":
			return gateway.NotExecuted{Reason: "no connection"}
		}
		return gateway.Indeterminate{Reason: "no answer in time"}
	}
	return []modelQuestion{
		{"judge_reply", "the request's own reply, while the key waits for it", reply, []string{"held"},
			func(evidence string, _ map[string]string) Evidence { return mine(says(evidence)) }},
		{"judge_late_reply", "the request's own reply, when others have acted on its key", reply,
			[]string{"ours", "status", "row", "attempt", "share"},
			func(evidence string, fact map[string]string) Evidence {
				if fact["attempt"] == "earlier" {
					return earlier(says(evidence))
				}
				return mine(says(evidence))
			}},
		{"judge_record", "a record, by webhook, lookup, scan, or an operator's retry", outcome,
			[]string{"ours", "status", "row", "share"},
			func(evidence string, _ map[string]string) Evidence {
				return sayRecord(SourceWebhook, "psp_1", map[string]string{"success": "succeeded",
					"declined": "declined"}[evidence], 12000)
			}},
		{"judge_nothing", "a lookup that finds nothing, or a PSP that has ended the request", []modelFact{
			{"not_executed", "v == not_executed"}, {"cancelled", "v == cancelled"},
		}, []string{"ours", "status", "held", "grace", "memory"},
			func(evidence string, _ map[string]string) Evidence { return Nothing{Final: evidence == "cancelled"} }},
	}
}

// seenBy is what judge is shown for the facts of a model; ok is false if there is no such state.
func seenBy(question modelQuestion, evidence string, fact map[string]string) (s Seen, ok bool) {
	row := map[string]payment.Verdict{"": processing(), "none": processing(), "success": paidAs("psp_1"),
		"declined": refusedAs("psp_1")}[fact["row"]]
	status := idempotency.Status(fact["status"])
	switch {
	case question.name == "judge_reply":
		status = idempotency.InProgressStatus
	case fact["ours"] == "no":
		// The execution is over, so its row is final; what the key is now does not matter.
		if status != idempotency.InProgressStatus {
			return Seen{}, false
		}
		if fact["row"] == "none" {
			row = neverRun()
		}
	case (status == idempotency.CompletedStatus) == (fact["row"] == "none") && fact["row"] != "":
		return Seen{}, false
	case status == idempotency.FailedRetryableStatus:
		row = neverRun()
	}
	if question.name == "judge_late_reply" && fact["ours"] == "yes" && fact["attempt"] == "same" &&
		status == idempotency.InProgressStatus {
		return Seen{}, false // It is not late.
	}
	if question.name == "judge_nothing" && (fact["ours"] != "yes" || status != idempotency.UnknownStatus) {
		return Seen{}, false // The resolver asks for unknown keys.
	}
	// Only a released refund has given its share back, and a decline does not take the share again.
	if fact["share"] == "gone" && (fact["ours"] != "yes" || status != idempotency.FailedRetryableStatus ||
		evidence == "declined") {
		return Seen{}, false
	}
	s = seenWith(status, fact["ours"] != "no", row, 0)
	s.Held, s.MemoryOver, s.ShareGone = fact["held"] == "yes", fact["memory"] == "over", fact["share"] == "gone"
	if fact["grace"] == "open" {
		s.GraceLeft = 30 * time.Second
	}
	return s, true
}

// decision is what judge says, as the models understand it.
func decision(step Step) string {
	var does []string
	if step.to != "" {
		does = append(does, "step = "+string(step.to))
	}
	if step.open != nil {
		does = append(does, "opens = true")
	}
	return strings.Join(does, "; ")
}

// rowsOf splits by the facts, one after the other, and leaves out those that don't matter. A row is a condition and
// what judge says then.
func (question modelQuestion) rowsOf(evidence string, facts []string, fact map[string]string) []modelFact {
	if len(facts) == 0 {
		s, ok := seenBy(question, evidence, fact)
		if !ok {
			return nil
		}
		return []modelFact{{decision(judged(s, question.bring(evidence, fact))), ""}}
	}
	type group struct {
		is   []string
		rows []modelFact
	}
	var groups []group
	for _, f := range modelFacts {
		if f.name != facts[0] {
			continue
		}
		for _, value := range f.values {
			fact[f.name] = value.name
			rows := question.rowsOf(evidence, facts[1:], fact)
			if rows == nil {
				continue
			}
			i := slices.IndexFunc(groups, func(g group) bool { return slices.Equal(g.rows, rows) })
			if i < 0 {
				groups = append(groups, group{rows: rows})
				i = len(groups) - 1
			}
			groups[i].is = append(groups[i].is, value.is)
		}
		delete(fact, f.name)
	}
	if len(groups) == 1 {
		return groups[0].rows
	}
	var rows []modelFact
	for _, g := range groups {
		is := strings.Join(g.is, " || ")
		if len(g.is) > 1 {
			is = "(" + is + ")"
		}
		for _, r := range g.rows {
			rows = append(rows, modelFact{r.name, strings.TrimSuffix(is+" && "+r.is, " && ")})
		}
	}
	return rows
}

// The models ask judge what evidence does to a key. So what a model does with evidence is what the code does.
//
// There is one exception: judge is not asked about an OperatorDecision. The operators of key.pml and generations.pml
// know whether the PSP has executed the payment, and say so. They say "not executed" only after the grace period. That
// judge refuses a decision before that, or one that the PSP contradicts, is tested in operator_test.go alone.
func TestModelsAskJudge(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`/*
 * What evidence v does to the key of a payment or refund m. This is package internal/judge, asked for every state that a model
 * knows: go test ./internal/judge -run TestModels -update writes it. step is the key's next status, and none if it stays;
 * opens says that a dead letter is opened. Each model says in its guards what STATUS, OURS, RESULT and the others are.
 */
`)
	for _, question := range modelQuestions() {
		fmt.Fprintf(&b, "\ninline %s(m, v) { /* %s */\n    step = none; opens = false;\n    if\n", question.name,
			question.about)
		for _, e := range question.evidence {
			for _, r := range question.rowsOf(e.name, question.facts, map[string]string{}) {
				if r.name != "" {
					fmt.Fprintf(&b, "    :: %s -> %s\n", strings.TrimSuffix(e.is+" && "+r.is, " && "), r.name)
				}
			}
		}
		b.WriteString("    :: else\n    fi\n}\n")
	}
	golden.File(t, modelJudge, b.String())
}

// What judge does to keys, and what the page of the state machine says that evidence does to them, is the same. The
// writers are those of stepCalls.
func TestJudgeTakesTheEdgesOfThePageAndEachOfThem(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "state_machine.md"))
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]bool{}
	for s := range allSeen() {
		for _, e := range allEvidence() {
			if step := judged(s, e); step.to != "" {
				taken[writerOf(step)+": "+string(s.Status)+" -> "+string(step.to)] = true
			}
		}
	}
	listed := map[string]bool{}
	edge := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `(\\w+)` \\|.*\\| `(\\w+)` \\|$")
	for _, row := range edge.FindAllStringSubmatch(string(page), -1) {
		switch row[3] {
		case "CompleteKeys", "ReleaseKey", "LoseKey", "ResolveKeys", "ReleaseUnknownKey":
			listed[row[3]+": "+row[1]+" -> "+row[2]] = true
		}
	}
	if diff := cmp.Diff(listed, taken); diff != "" {
		t.Errorf("-page +judge:\n%s", diff)
	}
}

func writerOf(step Step) string {
	switch {
	case step.to == idempotency.CompletedStatus && step.byOwner:
		return "CompleteKeys"
	case step.to == idempotency.CompletedStatus:
		return "ResolveKeys"
	case step.to == idempotency.FailedRetryableStatus && step.byOwner:
		return "ReleaseKey"
	case step.to == idempotency.FailedRetryableStatus:
		return "ReleaseUnknownKey"
	}
	return "LoseKey"
}

// The tables of docs/reconciliation.md show one Seen for each row. Nothing that judge does to any other Seen is missing
// there.
func TestTablesShowEachKindOfStep(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	for _, table := range tables() {
		for _, r := range table.rows {
			shown[tablesOf(r.e)[0]+": "+inWords(r.seen, judged(r.seen, r.e))] = true
		}
	}
	missing := map[string]string{}
	for s := range allSeen() {
		if s.GraceLeft > 0 {
			s.GraceLeft = 30 * time.Second // as in the rows: when tells a wait by its length
		}
		for _, e := range allEvidence() {
			if s.ShareGone && !takesAShare(s, e) {
				continue
			}
			words := inWords(s, judged(s, e))
			if !slices.ContainsFunc(tablesOf(e), func(table string) bool { return shown[table+": "+words] }) {
				missing[tablesOf(e)[0]+": "+words] = fmt.Sprintf("seen: %+v\nevidence: %+v", s, e)
			}
		}
	}
	for words, example := range missing {
		t.Errorf("no row says %q\n%s", words, example)
	}
}

// tablesOf are the tables that may have a row for the evidence, its own first. A late reply and a line of the statement
// are judged like a record.
func tablesOf(e Evidence) []string {
	switch e.(type) {
	case Record:
		return []string{"record"}
	case Nothing, Waiting, NoAnswer:
		return []string{"lookup"}
	case OperatorDecision:
		return []string{"decision"}
	case Break:
		return []string{"statement", "record"}
	case Reply:
	}
	return []string{"reply", "record"}
}

// takesAShare reports whether a refund may be refused because its share of the payment is gone: it was released, and is
// executed after all.
func takesAShare(s Seen, e Evidence) bool {
	r, record := e.(Record)
	return s.Status == idempotency.FailedRetryableStatus && (!record || r.Record.Executed())
}
