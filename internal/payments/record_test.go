package payments

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/test/pgproxy"
	"payonce/test/wait"
)

// cell is what is wanted: the dead letter, or that the key is completed by it, or else that it is confirmed.
type cell struct {
	deadLetter deadletters.Kind
	completes  bool
	comesBack  bool // the money of a refund
}

// outcomes is the table: what a key has become → what the evidence says → what comes of it.
func outcomes() map[string]map[said]cell {
	resolves := map[said]cell{
		executed: {completes: true}, executedTwice: {completes: true}, refusedSaid: {completes: true},
		otherAmount: {deadLetter: deadletters.PSPContradicts},
	}
	known := map[said]cell{
		executed: {}, executedTwice: {deadLetter: deadletters.DuplicateMovement},
		refusedSaid: {deadLetter: deadletters.ContradictsCompleted},
		otherAmount: {deadLetter: deadletters.ContradictsCompleted},
	}
	notExecuted := map[said]cell{
		executed: {deadLetter: deadletters.LateAfterExpiry}, executedTwice: {deadLetter: deadletters.LateAfterExpiry},
		refusedSaid: {}, otherAmount: {deadLetter: deadletters.LateAfterExpiry},
	}
	return map[string]map[said]cell{
		"in_progress": resolves, "unknown": resolves, "failed_retryable": resolves,
		"succeeded": known, "expired succeeded": known, "renewed succeeded": known, "deleted succeeded": known,
		"expired failed": notExecuted, "renewed failed": notExecuted, "deleted failed": notExecuted,
		"declined": {
			executed:      {deadLetter: deadletters.ContradictsCompleted},
			executedTwice: {deadLetter: deadletters.ContradictsCompleted},
			refusedSaid:   {}, otherAmount: {deadLetter: deadletters.ContradictsCompleted},
		},
	}
}

// bring brings the key to where the table says.
func (s *stage) bring(to string) {
	switch to {
	case "in_progress":
	case "unknown":
		s.lost().windowPasses() // the scan leaves it alone before
	case "failed_retryable":
		s.failed()
	case "succeeded":
		s.succeeded()
	case "declined":
		s.declined()
	case "expired succeeded":
		s.succeeded().expired()
	case "expired failed":
		s.failed().expired()
	case "renewed succeeded":
		s.succeeded().renewed()
	case "renewed failed":
		s.failed().renewed()
	case "deleted succeeded":
		s.succeeded().deleted()
	case "deleted failed":
		s.failed().deleted()
	default:
		s.t.Fatalf("no way to %s", to)
	}
}

func TestEvidenceComesToWhatTheTableSays(t *testing.T) {
	t.Parallel()
	for _, source := range []judge.Source{judge.SourceWebhook, judge.SourceLookup, judge.SourceScan} {
		for _, what := range []gateway.Object{gateway.ChargeObject, gateway.RefundObject} {
			t.Run(string(source)+" of a "+string(what), func(t *testing.T) {
				t.Parallel()
				s := setupOn(t, &actor{})
				p := s.charging("paid-00000000001").paidFor()
				n := 0
				for status, row := range outcomes() {
					for says, want := range row {
						n++
						key := fmt.Sprintf("cell-%08d-%s", n, what)
						g := s.charging
						if what == gateway.RefundObject {
							if says == refusedSaid && strings.HasSuffix(status, "succeeded") {
								want = cell{comesBack: true}
							}
							g = func(key string) *stage { return s.refunding(key, p, 1) }
						}
						if source == judge.SourceScan && status == "in_progress" {
							continue // TestScanLeavesAloneWhatOthersAreAtWorkOn
						}
						stage := g(key)
						stage.bring(status)
						stage.wantCell(status+", "+string(says), source, says.record(stage), want)
					}
				}
			})
		}
	}
}

// wantCell brings one piece of evidence and holds what comes of it against the table.
func (s *stage) wantCell(name string, source judge.Source, r gateway.Record, want cell) {
	s.t.Helper()
	before, deadLetters, lines := s.everything(), s.count("SELECT count(*) FROM dead_letters"), len(s.timeline())
	finding := s.evidenceBy(source, r)
	deadLetters = s.count("SELECT count(*) FROM dead_letters") - deadLetters
	switch {
	case want.completes:
		_, ok := finding.(Completed)
		row := s.row()
		if !ok || row.Status != idempotency.CompletedStatus || deadLetters != 0 || len(s.timeline()) != lines+1 {
			s.t.Fatalf("%s: %T, the key is %s with %d more lines and %d dead letters", name, finding, row.Status,
				len(s.timeline())-lines, deadLetters)
		}
		s.wantMoved(payment.Status(r.Status), r.ID)
	case want.comesBack:
		if _, ok := finding.(Confirmed); !ok || deadLetters != 0 {
			s.t.Fatalf("%s: %T, and %d dead letters", name, finding, deadLetters)
		}
		s.wantMoved(payment.Reversed, r.ID)
	case want.deadLetter != "":
		kind, moved := finding.(DeadLettered).Kind, s.everything() != before
		// A lookup writes with it when the PSP is asked next.
		if asksAgain := source == judge.SourceLookup && strings.HasPrefix(name, "unknown, "); asksAgain && moved {
			s.wantStatus(idempotency.UnknownStatus, 1)
			s.wantMoved(payment.Processing, "")
			moved = false
		}
		if kind != want.deadLetter || deadLetters != 1 || moved {
			s.t.Fatalf("%s: dead letter %s, %d in all, moved: %v", name, kind, deadLetters, moved)
		}
	default:
		if _, ok := finding.(Confirmed); !ok || deadLetters != 0 {
			s.t.Fatalf("%s: %T, and %d dead letters", name, finding, deadLetters)
		}
		// A webhook leaves its trace in the timeline of a key that stands for the same still. Nothing else does.
		if traced := s.everything() != before; traced != (source == judge.SourceWebhook &&
			(name == "succeeded, executed" || name == "declined, refused")) {
			s.t.Fatalf("%s: traced %v:\n%s", name, traced, s.timeline())
		}
	}
}

// What is in other hands comes to them: the owner has the PSP's answer soon, the resolver asks for it. A scan that
// stepped in would only fence the owner.
func TestScanLeavesAloneWhatOthersAreAtWorkOn(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001")
	for _, r := range []gateway.Record{g.record, otherAmount.record(g)} {
		before := s.everything()
		is[Confirmed](t, s.evidenceBy(judge.SourceScan, r))
		if s.everything() != before {
			t.Fatal("the scan has moved a key that is in progress")
		}
	}
	g.lost()
	is[Confirmed](t, s.evidenceBy(judge.SourceScan, g.record))
	g.wantStatus(idempotency.UnknownStatus, 1)
	s.wantDeadLetters()
	g.windowPasses()
	is[Completed](t, s.evidenceBy(judge.SourceScan, g.record))
}

// A lookup asks for the key that was sent, and for the object that was made for it. Another record is found by nobody
// else: a later walk may begin behind it.
func TestScanLeavesNothingAloneThatNoLookupFinds(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001")
	r := g.record
	r.Key = "another-order-0001"
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, r))
	s.wantDeadLetters(contradicts(g, r.ID))
	g.wantStatus(idempotency.InProgressStatus, 1)
}

// The owner of the next generation of a key is at work on another payment.
func TestScanDoesNotLeaveAnEarlierGenerationAlone(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").failed().renewed()
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, g.record))
	s.wantDeadLetters("late_after_expiry record acme " + g.record.ID)
}

func TestEvidenceOfARefundKeepsTheTotals(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	lost := s.refunding("refund-000000001", p, 1000).lost()
	refused := s.refunding("refund-000000002", p, 2000).lost()
	released := s.refunding("refund-000000003", p, 4000).failed()
	s.wantTotals(p, 3000, 0)
	s.evidenceBy(judge.SourceWebhook, lost.record)
	s.wantTotals(p, 3000, 1000)
	s.evidenceBy(judge.SourceLookup, declinedAs(refused.record, "too_late"))
	s.wantTotals(p, 1000, 1000)
	s.evidenceBy(judge.SourceScan, released.record)
	s.wantTotals(p, 5000, 5000)
	retried := s.refunding("refund-000000004", p, 500).failed()
	s.wantTotals(p, 5000, 5000)
	retried.reserve(retried.again())
	s.wantTotals(p, 5500, 5000)
	s.evidenceBy(judge.SourceWebhook, retried.record)
	s.wantTotals(p, 5500, 5500)
	lost.wantMoved(payment.Succeeded, lost.record.ID)
	refused.wantMoved(payment.Declined, refused.record.ID)
	released.wantMoved(payment.Succeeded, released.record.ID)
}

// A refund that was given up has freed its share, and another one has taken it. Then the first turns out to have
// happened: there is no room for it in the payment, and nobody but an operator can make some.
func TestRefundThatComesToLightWhenItsShareIsGoneIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	g := s.refunding("refund-000000001", p, 8000).failed()
	rival := s.refunding("refund-000000002", p, 8000)
	before := s.everything()
	for range 2 {
		if l := is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, g.record)); l.Kind != deadletters.RefundExceeds ||
			s.everything() != before {
			t.Fatalf("dead letter %s, moved %v", l.Kind, s.everything() != before)
		}
	}
	s.wantDeadLetters("refund_exceeds_payment refund record acme " + g.record.ID)
	s.wantTotals(p, 8000, 8000) // It has moved money.
	// What makes room lets it in.
	rival.failed()
	is[Completed](t, s.evidenceBy(judge.SourceOperator, g.record))
	g.wantStatus(idempotency.CompletedStatus, 1)
	s.wantTotals(p, 8000, 8000)
}

// Of several records of a lookup, the next one is judged by what the last step leaves. That must be what the database
// has by then.
func TestSeenAfterAStepIsWhatTheDatabaseHas(t *testing.T) {
	if testing.Short() {
		t.Skip("long: every step that the judge knows")
	}
	t.Parallel()
	s := setupOn(t, &actor{})
	n := 0
	for status, records := range outcomes() {
		for says := range records {
			for _, e := range []func(g *stage) judge.Evidence{
				func(g *stage) judge.Evidence {
					return judge.Record{Source: judge.SourceWebhook, Record: says.record(g)}
				},
				func(g *stage) judge.Evidence {
					return judge.Record{Source: judge.SourceLookup, Record: says.record(g), Policy: patient()}
				},
				func(g *stage) judge.Evidence { return judge.Reply{Attempt: 1, Outcome: g.success()} },
				func(g *stage) judge.Evidence {
					return judge.Reply{Attempt: 1, Outcome: gateway.NotExecuted{Reason: "no connection"}}
				},
				func(*stage) judge.Evidence { return judge.Nothing{Policy: patient()} },
				func(*stage) judge.Evidence {
					return judge.NoAnswer{Reason: "PSP answered 500", Policy: patient()}
				},
			} {
				n++
				g := s.charging(fmt.Sprintf("after-%012d", n))
				g.bring(status)
				before := g.gathers()
				before.lease = g.lease
				evidence := e(g)
				step := judge.Judge(before.Seen, evidence)
				if _, err := s.service.Apply(t.Context(), before, step); err != nil {
					t.Fatal(err)
				}
				want, got := before.Seen.After(step), g.gathers().Seen
				if diff := cmp.Diff(facts(want), facts(got)); diff != "" {
					t.Errorf("%s, %s, %T (-after +database):\n%s", status, says, evidence, diff)
				}
			}
		}
	}
}

// facts are what a step can change.
func facts(s judge.Seen) map[string]any {
	return map[string]any{
		"status": s.Status, "row": fmt.Sprintf("%+v", s.Row), "held": s.Held, "charged": s.Charged,
		"failures": s.Failures,
	}
}

// A PSP may count its charges and its refunds apart, so a charge and a refund can have the same id. They are two
// records, and each needs its own dead letter.
func TestChargeAndRefundWithOneIDAreTwoFindings(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	charge := s.charging("order-0000000001").record
	charge.ID, charge.Reference, charge.Key = "1001", "", ""
	refund := s.refunding("refund-000000001", p, 100).record
	refund.ID, refund.Reference, refund.Key, refund.ChargeID = "1001", "", "", "ch_of_nobody"
	for _, r := range []gateway.Record{charge, refund} {
		if found := is[DeadLettered](t, s.evidenceBy(judge.SourceScan, r)); !found.New {
			t.Errorf("the %s has no dead letter of its own", r.Object)
		}
	}
	for _, r := range []gateway.Record{charge, refund} {
		if found := is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, r)); found.New {
			t.Errorf("the %s has two", r.Object)
		}
	}
}

func TestManyPiecesOfEvidenceAtOnceAreOneTransition(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	for name, g := range map[string]*stage{
		"in progress": s.charging("order-0000000001"), "unknown": s.charging("order-0000000002").lost(),
		"failed_retryable": s.charging("order-0000000003").failed(),
		"refund":           s.refunding("refund-000000001", p, 4500).lost(),
	} {
		lines := len(g.timeline())
		var completed, confirmed atomic.Int32
		wait.AtOnce(8, func(int) {
			finding, err := s.service.ApplyRecord(t.Context(),
				judge.Record{Source: judge.SourceLookup, Record: g.record})
			switch finding.(type) {
			case Completed:
				completed.Add(1)
			case Confirmed:
				confirmed.Add(1)
			case DeadLettered, Foreign, nil:
				t.Errorf("%s: %T, %v", name, finding, err)
			}
		})
		if completed.Load() != 1 || confirmed.Load() != 7 || len(g.timeline()) != lines+1 {
			t.Errorf("%s: resolved %d times, confirmed %d times: %s", name, completed.Load(), confirmed.Load(),
				g.timeline())
		}
		g.wantStatus(idempotency.CompletedStatus, 1)
		g.wantMoved(payment.Succeeded, g.record.ID)
	}
	if n := s.count("SELECT refunded_minor FROM payments WHERE id = $1", p.ID); n != 4500 {
		t.Errorf("%d are refunded", n)
	}
	s.wantDeadLetters()
}

// Two that say different things at once: one of them is the result, the other one a dead letter.
func TestContradictingEvidenceAtOnceIsOneResultAndOneDeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost()
	wait.AtOnce(8, func(i int) {
		r := g.record
		if i%2 == 1 {
			r = executedTwice.record(g)
		}
		if _, err := s.service.ApplyRecord(t.Context(), judge.Record{Source: judge.SourceLookup,
			Record: r}); err != nil {
			t.Error(err)
		}
	})
	g.wantStatus(idempotency.CompletedStatus, 1)
	g.wantTimeline("owner in_progress>unknown", "lookup unknown>completed")
	if n := s.count("SELECT count(*) FROM dead_letters WHERE kind = 'duplicate_movement'"); n != 1 {
		t.Errorf("%d dead letters", n)
	}
}

// A webhook and a page of a list tell what was so when they were made, and may be judged after what has come of it
// since: a bank takes a refund back that has succeeded. Nobody is called before the PSP has said how it is now. If the
// PSP does not say it, or says the same, an operator has the case.
func TestRefundThatContradictsIsReadAtThePSPFirst(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		source judge.Source
		now    func(stale gateway.Record) http.HandlerFunc
		called bool
	}{
		"was overtaken": {judge.SourceWebhook, func(stale gateway.Record) http.HandlerFunc {
			return finds(declinedAs(stale, "no_money"))
		}, false},
		"is so": {judge.SourceWebhook, func(stale gateway.Record) http.HandlerFunc { return finds(stale) }, true},
		"is of another refund": {judge.SourceWebhook, func(stale gateway.Record) http.HandlerFunc {
			return finds(as("psp_other", declinedAs(stale, "no_money")))
		}, true},
		"is not found": {judge.SourceWebhook, func(gateway.Record) http.HandlerFunc { return finds() }, true},
		"has no answer": {judge.SourceWebhook, func(gateway.Record) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
		}, true},
		"is judged again for an operator": {judge.SourceOperator, func(stale gateway.Record) http.HandlerFunc {
			return finds(declinedAs(stale, "no_money"))
		}, false},
		"is of a page that was overtaken": {judge.SourceScan, func(stale gateway.Record) http.HandlerFunc {
			return finds(declinedAs(stale, "no_money"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stale gateway.Record
			s := setupOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { row.now(stale)(w, r) }))
			g := s.refunding("refund-0000000001", s.charging("order-0000000001").paidFor(), 100).declined()
			stale = g.record
			if _, called := s.evidenceBy(row.source, stale).(DeadLettered); called != row.called {
				t.Errorf("an operator is called: %t", called)
			}
			g.wantMoved(payment.Declined, stale.ID)
		})
	}
}

// No PSP takes back that a charge has succeeded. So a look that says otherwise is the older one: a replica of the PSP's
// may be behind.
func TestWebhookOfMoneyIsNotDroppedForAStaleLook(t *testing.T) {
	t.Parallel()
	var now gateway.Record
	s := setupOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { finds(now)(w, r) }))
	g := s.charging("order-0000000001").declined()
	now = declinedAs(g.record, "no_money") // what the PSP's replica still has
	effect := s.evidenceBy(judge.SourceWebhook, g.record)
	if _, called := effect.(DeadLettered); !called {
		t.Errorf("a webhook says that money has moved under a key that is answered declined, and it is taken as %T", effect)
	}
	g.wantMoved(payment.Declined, g.record.ID)
}

// A charge that is proven not to have happened, and then has: the client's retry hears of it and does not charge again.
func TestRetryAfterLateEvidenceIsAReplay(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000042").failed()
	is[Completed](t, s.evidenceBy(judge.SourceWebhook, g.record))
	stored := *g.row().Response
	answer := is[Final](t, s.create("order-0000000042", order()))
	if !answer.Replayed || !cmp.Equal(answer.Response, stored) {
		t.Fatalf("the retry was answered %+v, resolved was %+v", answer, stored)
	}
	if posts, _ := psp.seen(); posts != 0 {
		t.Fatalf("the PSP was asked %d times", posts)
	}
	g.wantTimeline("owner in_progress>failed_retryable", "webhook failed_retryable>completed")
}

// Refusals of nobody's are no case: no money has moved.
func TestDeclineOfNobodyIsNoCase(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").succeeded()
	strange, elsewhere := declinedAs(g.record, "no_money"), declinedAs(as("psp_2", g.record), "no_money")
	strange.Reference, elsewhere.Account = "order 42", "globex"
	for _, r := range []gateway.Record{strange, elsewhere} {
		is[Confirmed](t, s.evidenceBy(judge.SourceWebhook, r))
	}
	s.wantDeadLetters()
}

// The scan compares what a webhook compares: also the key, and the refunded charge.
func TestScanComparesTheKeyAndTheRefundedCharge(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	charge, refund := s.charging("order-0000000001").succeeded().record,
		s.refunding("refund-000000001", p, 100).succeeded().record
	otherKey, otherCharge := charge, refund
	otherKey.Key, otherCharge.ChargeID = "order-0000000002", "psp_other"
	for r, want := range map[gateway.Record]int{charge: 0, refund: 0, otherKey: 1, otherCharge: 1} {
		open, err := s.service.Unexplained(t.Context(), native.Name, r.Object, r.Account,
			gateway.Page{Records: []gateway.Record{r}})
		if err != nil || len(open.Records) != want {
			t.Errorf("%+v: %d unexplained, %v", r, len(open.Records), err)
		}
	}
}

// The key has moved, and cannot be read again. The error is that of the read, and the step is not sent again.
func TestStepIsNotRepeatedWhenTheKeyCannotBeReadAgain(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	g := s.charging("order-0000000001").lost().windowPasses()
	seen := g.gathers()
	is[Completed](t, s.evidenceBy(judge.SourceWebhook, g.record))
	before := proxy.Sent("ReleaseUnknownKey")
	proxy.OnNext(9, "FindKey", pgproxy.CutBefore)
	_, _, _, err := s.service.judgeAndApply(t.Context(), seen, judge.Nothing{Policy: patient()})
	if n := proxy.Sent("ReleaseUnknownKey") - before; !errors.Is(err, io.ErrUnexpectedEOF) || n != 1 {
		t.Errorf("sent %d times: %v", n, err)
	}
}

// A record that differs in any member from what was asked for resolves nothing, by whatever way it was found.
func TestRecordThatDiffersInOneMemberIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	payment := s.charging("order-0000000001").lost()
	refund := s.refunding("refund-000000001", p, 4500).lost()
	for what, c := range map[string]struct {
		of   *stage
		make func(*gateway.Record)
	}{
		"amount":                 {payment, func(r *gateway.Record) { r.AmountMinor-- }},
		"currency":               {payment, func(r *gateway.Record) { r.Currency = "EUR" }},
		"key":                    {payment, func(r *gateway.Record) { r.Key = "order-0000000002" }},
		"key of a generation":    {payment, func(r *gateway.Record) { r.Key += ".g2" }},
		"reference":              {payment, func(r *gateway.Record) { r.Reference = "" }},
		"charge":                 {payment, func(r *gateway.Record) { r.ChargeID = "ch_2" }},
		"amount of a refund":     {refund, func(r *gateway.Record) { r.AmountMinor++ }},
		"currency of a refund":   {refund, func(r *gateway.Record) { r.Currency = "EUR" }},
		"key of a refund":        {refund, func(r *gateway.Record) { r.Key = "refund-000000002" }},
		"reference of a refund":  {refund, func(r *gateway.Record) { r.Reference = "" }},
		"charge that it refunds": {refund, func(r *gateway.Record) { r.ChargeID = "ch_2" }},
	} {
		r := c.of.record
		c.make(&r)
		before := s.everything()
		if l := is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, r)); l.Kind != deadletters.PSPContradicts {
			t.Errorf("%s: dead letter %s", what, l.Kind)
		}
		if s.everything() != before {
			t.Errorf("%s: something has moved", what)
		}
	}
	// One case per key and record, whatever it is seen to differ in.
	finding := func(g *stage) string { return contradicts(g, g.record.ID) }
	if got := s.count("SELECT count(*) FROM dead_letters WHERE kind || ' ' || finding IN ($1, $2)", finding(payment),
		finding(refund)); got != 2 {
		t.Errorf("%d dead letters about the two keys", got)
	}
	if got := s.count("SELECT count(*) FROM dead_letters"); got != 2 {
		t.Errorf("%d dead letters in all", got)
	}
	is[Completed](t, s.evidenceBy(judge.SourceWebhook, payment.record))
	is[Completed](t, s.evidenceBy(judge.SourceWebhook, refund.record))
}

// A charge belongs to one account, and an account to one tenant. Each way of evidence brings acme's charge to a payment
// of globex that waits for one.
func TestTwoTenantsCannotBookOneCharge(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001")
	charge := g.record
	g.succeeded()
	globex := keyed(t, "order-0000000001")
	globex.Merchant = payment.Merchant{Tenant: "globex", PSP: native.Name, PSPAccount: "globex"}
	waiting := s.enter(globex, payment.CreateOperation, "/payments", order(), s.charge(globex)).lost()
	acmes := waiting.record
	acmes.ID, acmes.Account = charge.ID, charge.Account
	for _, source := range []judge.Source{judge.SourceWebhook, judge.SourceLookup, judge.SourceScan} {
		is[DeadLettered](t, s.evidenceBy(source, acmes))
	}
	if n := s.count("SELECT count(*) FROM payments WHERE psp_charge_id = $1", charge.ID); n != 1 {
		t.Errorf("%d payments have acme's charge", n)
	}
	for sql, want := range map[string]string{
		"INSERT INTO tenants (id, psp_account) VALUES ('initech', 'acme')": "tenants_psp_account_key",
		"UPDATE tenants SET psp_account = 'other' WHERE id = 'globex'":     "history_is_append_only",
	} {
		if _, err := s.pool.Exec(t.Context(), sql); !postgres.Violates(err, want) {
			t.Errorf("%s: refused by %v, want %s", sql, err, want)
		}
	}
	is[Completed](t, s.evidenceBy(judge.SourceWebhook, as("ch_of_globex", waiting.record)))
}

// Globex's account names acme's payment. That is neither acme's business nor, by the payment's fields, globex's.
func TestRecordUnderAnotherTenantsAccountTellsTheTenantNothing(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost()
	r := g.record
	r.Account = "globex"
	before := s.everything()
	for _, source := range []judge.Source{judge.SourceWebhook, judge.SourceScan} {
		if l := is[DeadLettered](t, s.evidenceBy(source, r)); l.Kind != deadletters.OtherAccount ||
			s.everything() != before {
			t.Fatalf("dead letter %s, something moved: %v", l.Kind, s.everything() != before)
		}
	}
	s.wantDeadLetters("other_account record globex " + r.ID)
	if n := s.count("SELECT num_nonnulls(tenant_id, operation, key, generation, subject) FROM dead_letters"); n != 0 {
		t.Fatalf("the dead letter names %d parts of a key", n)
	}
	is[Completed](t, s.evidenceBy(judge.SourceWebhook, g.record))
}

// Two keys whose answers name one charge are two cases: each key waits for a decision about itself.
func TestOneRecordThatContradictsTwoKeysIsTwoCases(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	paid := s.charging("order-0000000001").succeeded()
	var want []string
	for _, key := range []string{"order-0000000002", "order-0000000003"} {
		g := s.charging(key)
		is[Pending](t, g.live(g.lease, g.movement, paid.success()))
		if !g.gathers().Seen.Held {
			t.Errorf("%s waits for no operator", key)
		}
		want = append(want, contradicts(g, paid.record.ID))
	}
	s.wantDeadLetters(want...)
}

func TestScanIsNotHeldUpByALaterPaymentOfTheKey(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	old := s.charging("order-0000000001").failed()
	now := old.twin()
	if l := is[DeadLettered](t, s.evidenceBy(judge.SourceScan, old.record)); l.Kind != deadletters.LateAfterExpiry {
		t.Fatalf("dead letter %s", l.Kind)
	}
	is[Confirmed](t, s.evidenceBy(judge.SourceScan, now.record))
}
