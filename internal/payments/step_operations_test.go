package payments

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

var listed = judge.Break{Kind: judge.BreakMissingThere, PSPID: "psp_1", Listed: true}

// Each part of a step that does not move the key is a call, except for the dead letter that it opens.
func TestEachPartOfAStepIsWritten(t *testing.T) {
	t.Parallel()
	paid, vouched, nobodys := seenAs("psp_1"), seenAs(payment.OperatorPSPID+"1"), judge.Seen{}
	for name, c := range map[string]struct {
		seen  judge.Seen
		e     judge.Evidence
		calls int
	}{
		"nothing": {paid, judge.Nothing{}, 0},
		"a note":  {paid, chargedBy(judge.SourceWebhook), 1},
		// With the lock of the payment, and its totals.
		"an id":             {vouched, chargedBy(judge.SourceScan), 3},
		"an id and a note":  {vouched, chargedBy(judge.SourceWebhook), 4},
		"a case":            {nobodys, chargedBy(judge.SourceScan), 0},
		"a case of the key": {seenAs("psp_2"), chargedBy(judge.SourceScan), 1},
		"an answered case":  {nobodys, listed, 1},
		// The lock of the key, the answer, and the two calls that write what holds the key now.
		"an answered case of the key": {paid, listed, 4},
	} {
		g := Gathered{movement: &movement{payment: &payment.Payment{ID: payment.ID(ownSubject)}}}
		if got := len((&Service{}).unguardedCalls(g, judge.Judge(c.seen, c.e))); got != c.calls {
			t.Errorf("%s: %d calls, want %d", name, got, c.calls)
		}
	}
}

// The log tells an operator what each step came to. A completion by the owner is in the log line of its request, and
// what has changed nothing is no news.
func TestEachStepThatIsWrittenIsLogged(t *testing.T) {
	t.Parallel()
	ofOurs := Gathered{movement: &movement{payment: &payment.Payment{ID: payment.ID(ownSubject)}}}
	resource := "resource=/payments/" + payment.ID(ownSubject).String()
	executing := seenAs("")
	executing.Status = idempotency.InProgressStatus
	replied := func(o gateway.Outcome) judge.Step {
		return judge.Judge(executing, judge.Reply{Attempt: 1, Outcome: o})
	}
	for name, c := range map[string]struct {
		seen Gathered
		step judge.Step
		want string // the attributes from the status on
	}{
		"nothing":             {ofOurs, judge.Step{}, ""},
		"the owner completes": {ofOurs, replied(gateway.Succeeded{ID: "psp_1"}), ""},
		"evidence completes": {ofOurs, judge.Judge(executing, chargedBy(judge.SourceWebhook)),
			"to=completed attempt=0 generation=0 " + resource + " actor=webhook"},
		"the owner loses": {ofOurs, replied(gateway.Indeterminate{}),
			"to=unknown attempt=0 generation=0 " + resource + " actor=owner"},
		"a note": {ofOurs, judge.Judge(seenAs("psp_1"), chargedBy(judge.SourceWebhook)),
			`to="" attempt=0 generation=0 ` + resource + " actor=webhook"},
		"a case of nothing of ours": {Gathered{}, judge.Judge(judge.Seen{}, chargedBy(judge.SourceScan)),
			`to="" attempt=0 generation=0 dead_letter_kind=unknown_movement`},
		"an answered case": {Gathered{}, judge.Judge(judge.Seen{}, listed),
			`to="" attempt=0 generation=0 answered_kind=missing_at_psp`},
	} {
		var log bytes.Buffer
		s := &Service{log: slog.New(slog.NewTextHandler(&log, nil))}
		s.logStep(t.Context(), c.seen, c.step)
		_, got, _ := strings.Cut(log.String(), "msg=step ")
		if strings.TrimSpace(got) != c.want {
			t.Errorf("%s: logged %s, want %s", name, got, c.want)
		}
	}
}
