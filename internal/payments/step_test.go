package payments

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/telemetry"
)

// seenAs is a completed key of ownSubject, whose payment has succeeded under this id of the PSP's.
func seenAs(pspID string) judge.Seen {
	own := idempotency.Execution{Ref: idempotency.StoredRef("acme", payment.CreateOperation, "order-0000000001"),
		Subject: ownSubject, Generation: 1, Attempt: 1}
	return judge.Seen{Status: idempotency.CompletedStatus, Key: own, Own: own,
		Request: gateway.Charge{Key: own.PassThroughKey(), Reference: payment.ID(ownSubject).String(), AmountMinor: 1},
		Row:     payment.Verdict{Status: payment.Succeeded, PSPID: pspID}}
}

// chargedBy is the PSP's record of the payment of seenAs, as psp_1.
func chargedBy(s judge.Source) judge.Record {
	return judge.Record{Source: s, Record: gateway.Record{Object: gateway.ChargeObject, ID: "psp_1", AmountMinor: 1,
		Key: seenAs("").Own.PassThroughKey(), Reference: payment.ID(ownSubject).String(), Status: "succeeded"}}
}

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
		"nothing":           {paid, judge.Nothing{}, 0},
		"a note":            {paid, chargedBy(judge.SourceWebhook), 1},
		"an id":             {vouched, chargedBy(judge.SourceScan), 1},
		"an id and a note":  {vouched, chargedBy(judge.SourceWebhook), 2},
		"a case":            {nobodys, chargedBy(judge.SourceScan), 0},
		"a case of the key": {seenAs("psp_2"), chargedBy(judge.SourceScan), 1},
		"an answered case":  {nobodys, listed, 1},
		// The lock of the key, the answer, and the two calls that write what holds the key now.
		"an answered case of the key": {paid, listed, 4},
	} {
		g := gathered{movement: &movement{payment: &payment.Payment{ID: payment.ID(ownSubject)}}}
		if got := len((&Service{}).unguardedCalls(g, judge.Judge(c.seen, c.e))); got != c.calls {
			t.Errorf("%s: %d calls, want %d", name, got, c.calls)
		}
	}
}

// The log tells an operator what each step came to. A completion by the owner is in the log line of its request, and
// what has changed nothing is no news.
func TestEachStepThatIsWrittenIsLogged(t *testing.T) {
	t.Parallel()
	ofOurs := gathered{movement: &movement{payment: &payment.Payment{ID: payment.ID(ownSubject)}}}
	resource := "resource=/payments/" + payment.ID(ownSubject).String()
	executing := seenAs("")
	executing.Status = idempotency.InProgressStatus
	replied := func(o gateway.Outcome) judge.Step {
		return judge.Judge(executing, judge.Reply{Attempt: 1, Outcome: o})
	}
	for name, c := range map[string]struct {
		seen gathered
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
		"a case of nothing of ours": {gathered{}, judge.Judge(judge.Seen{}, chargedBy(judge.SourceScan)),
			`to="" attempt=0 generation=0 dead_letter_kind=unknown_movement`},
		"an answered case": {gathered{}, judge.Judge(judge.Seen{}, listed),
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

// A key that moved without its payment is a fault of ours, and must not go unseen.
func TestRowThatDidNotMoveWithItsKeyIsReported(t *testing.T) {
	t.Parallel()
	for _, written := range []bool{true, false} {
		registry := prometheus.NewRegistry()
		var log bytes.Buffer
		s := &Service{log: slog.New(slog.NewTextHandler(&log, nil)), metrics: telemetry.NewMetrics(registry)}
		s.checkRow(t.Context(), &movement{payment: &payment.Payment{ID: payment.ID(ownSubject)}}, written)
		if reported := log.Len() > 0 && counted(t, registry) != ""; reported == written {
			t.Errorf("written %v: reported %v", written, reported)
		}
	}
}

// A charge that waits for its customer is left to the customer as long as the grace period lasts.
func TestLookupEndsWhatWaitsAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	for left, want := range map[time.Duration]gateway.End{
		time.Second: gateway.EndUnsent, 0: gateway.EndWaiting, -time.Second: gateway.EndWaiting,
	} {
		if got := judge.MayEnd(judge.Seen{GraceLeft: left}); got != want {
			t.Errorf("with %v left: %v", left, got)
		}
	}
}

// Money that has moved is judged before a decline, and otherwise in the PSP's order.
func TestExecutedRecordsAreJudgedFirst(t *testing.T) {
	t.Parallel()
	var ids []string
	for _, r := range executedFirst([]gateway.Record{
		{ID: "a", Status: "declined"}, {ID: "b", Status: "succeeded"}, {ID: "c", Status: "declined"},
		{ID: "d", Status: "succeeded"},
	}) {
		ids = append(ids, r.ID)
	}
	if got := strings.Join(ids, " "); got != "b d a c" {
		t.Errorf("judged in the order %s", got)
	}
}

// What a request waits for depends on what it was answered.
func TestRequestWaitsForWhatItsAnswerLeavesOpen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer Answer
		want   until
	}{
		"it is executed":          {InFlight{}, executionEnd},
		"its outcome is unknown":  {Pending{Recalled: true}, outcome},
		"its own outcome is lost": {Pending{}, nothing},
		"it is answered":          {Final{}, nothing},
		"nobody has executed it":  {NotExecuted{}, nothing},
		"it has failed":           {nil, nothing},
	} {
		if got := awaitedBy(c.answer); got != c.want {
			t.Errorf("%s: it waits for %d", name, got)
		}
	}
	for _, s := range payment.Statuses() {
		if waits := awaitedIn(s) == outcome; waits != (s == payment.Processing) {
			t.Errorf("a payment that is %s is waited for: %v", s, waits)
		}
	}
}

// A constraint that says something about the evidence is judged. Any other failure is an error.
func TestRefusalOfAConstraintIsJudged(t *testing.T) {
	t.Parallel()
	for constraint, c := range map[string]struct{ taken, gone bool }{
		"payments_psp_charge_unique":     {taken: true},
		"refunds_psp_refund_unique":      {taken: true},
		"payments_refunds_within_amount": {gone: true},
		"payments_amount_positive":       {},
	} {
		err := &pgconn.PgError{Code: "23505", ConstraintName: constraint}
		if BelongsToAnother(err) != c.taken || shareGone(err) != c.gone || judgeable(err) != (c.taken || c.gone) {
			t.Errorf("%s: taken %v, gone %v, judgeable %v", constraint, BelongsToAnother(err), shareGone(err),
				judgeable(err))
		}
	}
	for constraint, refused := range map[string]bool{
		"payments_refunds_within_amount": true, "refunds_amount_positive": true, "refunds_psp_refund_unique": false,
	} {
		if got := exceedsPayment(&pgconn.PgError{Code: "23514", ConstraintName: constraint}); got != refused {
			t.Errorf("%s: %v", constraint, got)
		}
	}
}

// A reference of a record is an id of ours only if it has the form of its kind.
func TestReferenceIsReadByTheKindOfTheRecord(t *testing.T) {
	t.Parallel()
	charge, refund := payment.ID(ownSubject).String(), payment.RefundID(ownSubject).String()
	for name, c := range map[string]struct {
		object    gateway.Object
		reference string
		is        bool
	}{
		"a payment": {gateway.ChargeObject, charge, true}, "a refund": {gateway.RefundObject, refund, true},
		"a payment's id on a refund": {gateway.RefundObject, charge, false},
		"a refund's id on a charge":  {gateway.ChargeObject, refund, false},
		"nothing":                    {gateway.ChargeObject, "", false},
	} {
		id, ours := payment.SubjectOf(c.object, c.reference)
		if ours != c.is || c.is != (id == ownSubject) {
			t.Errorf("%s: %s, %v", name, id, ours)
		}
	}
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
				step := judge.Judge(before.seen, evidence)
				if _, err := s.service.apply(t.Context(), before, step); err != nil {
					t.Fatal(err)
				}
				want, got := before.seen.After(step), g.gathers().seen
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
	refund.ID, refund.Reference, refund.Key = "1001", "", ""
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

// Ids with this prefix are our own: any id of the PSP's takes the place of such an id. If the PSP gave one, a second
// charge of the same payment would pass for the id that was missing.
func TestPSPCannotGiveAnIDThatIsOurs(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	psp.onPost(executes(payment.OperatorPSPID + "1"))
	is[Pending](t, s.create("order-0000000001", order()))

	g := s.charging("order-0000000002")
	if o, is := g.movement.request(g.lease.Execution()).Judge(as(payment.OperatorPSPID+"2",
		g.record)).(gateway.Succeeded); is {
		t.Errorf("a record is a success as %s", o.ID)
	}
	if _, err := as(payment.OperatorPSPID+"2", g.record).Accept(); err == nil {
		t.Error("a record of the PSP has an id of ours")
	}
	deadLetter := deadletters.DeadLetter{
		About: &deadletters.About{
			Tenant: "acme", Operation: payment.CreateOperation, Key: g.key.Key.String(), Generation: 1,
		},
		Evidence: []byte(`{"record":{"id":"operator:3","status":"succeeded"}}`),
	}
	if id := judge.DeadLetterOf(deadLetter).PSPID; id != "" {
		t.Errorf("a dead letter offers %s", id)
	}
}
