package payments

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// contradicting is a reply that says that money has moved, and of which no verdict can be made.
func (s *stage) contradicting() gateway.Outcome {
	return gateway.Indeterminate{Reason: "another amount", Contradiction: true, ID: s.record.ID}
}

// ownersSteps are the steps that an owner's reply can lead to.
var ownersSteps = map[string]struct {
	query       string
	reply       func(*stage) gateway.Outcome
	to          idempotency.Status
	deadLetters int
}{
	"success": {query: "CompleteKeys", to: idempotency.CompletedStatus,
		reply: func(g *stage) gateway.Outcome { return g.success() }},
	"decline": {query: "CompleteKeys", to: idempotency.CompletedStatus,
		reply: func(g *stage) gateway.Outcome { return gateway.Declined{ID: g.record.ID, Code: "no_money"} }},
	"nothing executed": {query: "ReleaseKey", to: idempotency.FailedRetryableStatus,
		reply: func(*stage) gateway.Outcome { return gateway.NotExecuted{Reason: "no connection"} }},
	"no answer": {query: "LoseKey", to: idempotency.UnknownStatus,
		reply: func(*stage) gateway.Outcome { return gateway.Indeterminate{Reason: "no answer in time"} }},
	"contradiction": {query: "LoseKey", to: idempotency.UnknownStatus, deadLetters: 1, reply: (*stage).contradicting},
}

// wantAnswer checks that an answer says what the key's status says.
func (s *stage) wantAnswer(name string, a Answer, status idempotency.Status) {
	s.t.Helper()
	var fits bool
	switch a := a.(type) {
	case Final:
		fits = status == idempotency.CompletedStatus && !a.Replayed &&
			bytes.Equal(a.Response.Body, s.row().Response.Body)
	case NotExecuted:
		fits = status == idempotency.FailedRetryableStatus
	case Pending:
		fits = status == idempotency.UnknownStatus || status == idempotency.InProgressStatus
	case InFlight, Mismatch, Forgotten, Held:
	}
	if !fits {
		s.t.Errorf("%s: answered %T %+v for a key that is %s", name, a, a, status)
	}
}

// The statement is either lost on its way, or its acknowledgement is. The client is told the outcome all the same, and
// the step is written once.
func TestOwnerFindsOutWhetherItsStepIsWritten(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	for name, c := range ownersSteps {
		for what, action := range map[string]pgproxy.Action{
			"cut": pgproxy.CutBefore, "lost": pgproxy.DropAcknowledgement,
		} {
			name := name + ", " + what
			g := s.charging(key("order", strings.ReplaceAll(name, ",", "")))
			events, deadLetters := len(g.timeline()), s.count("SELECT count(*) FROM dead_letters")
			event := proxy.On(c.query, action)
			g.wantAnswer(name, g.live(g.lease, g.movement, c.reply(g)), c.to)
			event.Await(t)
			g.wantStatus(c.to, 1)
			if n := len(g.timeline()) - events; n > 1 {
				t.Errorf("%s: the step is in the timeline %d times", name, n)
			}
			if n := s.count("SELECT count(*) FROM dead_letters") - deadLetters; n != c.deadLetters {
				t.Errorf("%s: %d dead letters", name, n)
			}
		}
	}
}

// No try gets through. The client must not be told an outcome that is not stored: the next request with the key would
// be told another one.
func TestOwnerWhoseStepNeverArrivesPromisesNothing(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	for name, c := range ownersSteps {
		g := s.charging(key("order", name))
		cut := proxy.OnNext(3, c.query, pgproxy.CutBefore)
		is[Pending](t, g.live(g.lease, g.movement, c.reply(g)))
		for range 3 {
			cut.Await(t)
		}
		g.wantStatus(idempotency.InProgressStatus, 1)
	}
	s.wantDeadLetters()
}

// delayed keeps an owner's step from the database, lets others act meanwhile, and has the step lost then.
func (s *stage) delayed(proxy *pgproxy.Proxy, query string, o gateway.Outcome, others func()) Answer {
	s.t.Helper()
	event := proxy.On(query, pgproxy.HoldBefore)
	answers := make(chan Answer, 1)
	go func() {
		answer, err := s.ends(s.lease, s.movement, o)
		if err != nil {
			s.t.Error(err)
		}
		answers <- answer
	}()
	event.Await(s.t)
	others()
	event.Cut()
	return <-answers
}

// What others have made of the key meanwhile is not the owner's step, even if it looks like it.
func TestStepOfAnotherIsNotTakenForTheOwners(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()

	g := s.charging("order-of-the-sweeper")
	is[Pending](t, g.delayed(proxy, "LoseKey", g.contradicting(), func() { g.swept() }))
	g.wantStatus(idempotency.UnknownStatus, 1)
	s.wantDeadLetters(contradicts(g, g.record.ID)) // The sweeper knows of no contradiction.

	// The key stands for another payment by now, which was not executed. This one was.
	g = s.charging("order-that-is-renewed")
	is[Pending](t, g.delayed(proxy, "ReleaseKey", gateway.NotExecuted{Reason: "no connection"}, func() {
		is[Completed](t, g.swept().evidenceBy(judge.SourceWebhook, g.record))
		m := g.again()
		g.live(g.expired().reserve(m), m, gateway.NotExecuted{Reason: "no connection"})
		g.wantStatus(idempotency.FailedRetryableStatus, 1)
	}))

	// The key stands for another payment, which was executed. Its response is not for this client.
	g = s.charging("order-that-is-renewed-and-paid")
	is[Pending](t, g.delayed(proxy, "CompleteKeys", g.success(), func() {
		m := g.swept().proven().again()
		g.live(g.expired().reserve(m), m, gateway.Succeeded{ID: "psp_of_another"})
		g.wantStatus(idempotency.CompletedStatus, 1)
	}))

	// The key is unknown, under the owner's own lease. The owner's reply ends that.
	g = s.charging("order-that-was-swept-only")
	f := is[Final](t, g.delayed(proxy, "CompleteKeys", g.success(), func() { g.swept() }))
	if f.Response.Status != http.StatusCreated || f.Replayed {
		t.Errorf("answered %+v", f)
	}
}

// A payment waits for the database twice. A step that writes nothing asks it for nothing, so it
// passes when there is no time left.
func TestPaymentTakesTwoRoundTrips(t *testing.T) {
	t.Parallel()
	s := setup(t)
	proxy := s.proxied()
	is[Final](t, s.create("order-0000000001", order())) // prepares the statements
	before := proxy.RoundTrips()
	is[Final](t, s.create("order-0000000002", order()))
	want := [][]string{{"ReserveKeys", "BeginPayments"}, {"CompleteKeys", "RecordPayments"}}
	got := slices.DeleteFunc(proxy.Rounds()[before:], func(r []string) bool { return len(r) == 0 })
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Fatalf("the rounds are %q", got)
	}
	g := s.charging("order-0000000003").succeeded()
	seen := g.gathers()
	ended, end := context.WithCancel(t.Context())
	end()
	step := judge.Judge(seen.Seen, judge.Record{Source: judge.SourceScan, Record: g.record})
	if applied, err := s.service.Apply(ended, seen, step); err != nil || !applied.Passed {
		t.Fatalf("confirmed %v: %v", applied.Passed, err)
	}
}

// A dead letter without an id cannot be opened. Then the step it belongs to is not written either: an operator would
// never hear of the contradiction.
func TestStepIsNotWrittenWithoutItsDeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001")
	makeID := s.service.newID
	s.service.newID = noID
	if answer, err := g.ends(g.lease, g.movement, g.contradicting()); err == nil {
		t.Errorf("answered %T", answer)
	}
	g.wantStatus(idempotency.InProgressStatus, 1)
	if answer, err := s.service.Create(t.Context(), keyed(t, "order-0000000002"), order()); err == nil {
		t.Errorf("a payment without the id of a lease is answered %T", answer)
	}
	s.service.newID = makeID
}

// No try gets through, and the row does not say that one has: such a step has not passed.
func TestStepThatIsInDoubtHasNotPassed(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	for name, c := range ownersSteps {
		g := s.charging(key("order", name))
		reserved := gatherReserved(g.lease, g.movement)
		step := judge.Judge(reserved.Seen,
			judge.Reply{Attempt: g.lease.Attempt, Outcome: c.reply(g)})
		proxy.OnNext(3, c.query, pgproxy.CutBefore)
		applied, err := s.service.Apply(t.Context(), reserved, step)
		if !errors.Is(err, errStepInDoubt) || applied.Passed {
			t.Errorf("%s: passed %v, %v", name, applied.Passed, err)
		}
	}
}

// successStep is the step of an owner that the PSP has told of the success.
func (s *stage) successStep() (Gathered, judge.Step) {
	c := gatherReserved(s.lease, s.movement)
	return c, judge.Judge(c.Seen, judge.Reply{Attempt: 1, Outcome: s.success()})
}

// A database that acknowledges nothing at present makes each further try wait as long. So the first is the last, and
// the client is told that the outcome is not known.
func TestOwnerStopsWhenItsStepIsNotReadInTime(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	g := s.charging("order-0000000001")
	limits := pgtest.Limits()
	limits.StatementTimeout = 250 * time.Millisecond // an answer may take twice as long
	impatient := pgtest.Open(t, proxy.URL(), limits)
	s.service.keys = idempotency.New(impatient, terms(), time.Now)
	if _, err := s.service.keys.FindDurably(t.Context(), g.reservation.Ref); err != nil { // connects and prepares
		t.Fatal(err)
	}
	proxy.On("CompleteKeys", pgproxy.DropAcknowledgement)
	held := proxy.OnNext(3, "FindKey", pgproxy.HoldBefore)
	seen, step := g.successStep()
	applied, err := s.service.Apply(t.Context(), seen, step)
	held.Release()
	if !errors.Is(err, errStepInDoubt) || applied.Passed {
		t.Errorf("passed is %t, %v", applied.Passed, err)
	}
	if n := proxy.Sent("CompleteKeys"); n != 1 {
		t.Errorf("the step was sent %d times", n)
	}
}

// The first try may have arrived, and the others were refused. The last error alone would say that nothing is written.
func TestStepThatMayHaveArrivedIsInDoubtWhateverComesAfter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	g := s.charging("order-0000000001")
	s.failing(1<<30, diskFull, "idempotency_keys", "UPDATE", "NEW.status = 'completed'")
	proxy.On("CompleteKeys", pgproxy.CutBefore)
	is[Pending](t, g.live(g.lease, g.movement, g.success()))
	if n := proxy.Sent("CompleteKeys"); n != 3 {
		t.Errorf("the step was sent %d times", n)
	}
}

// The outcome may not be what the database takes. The client is not told the outcome, and no other one either.
func TestOutcomeThatTheDatabaseRefusesIsAnError(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001")
	s.failing(1<<30, oddError, "payments", "UPDATE", "NEW.status = 'succeeded'")
	if answer, err := g.ends(g.lease, g.movement, g.success()); err == nil {
		t.Errorf("answered %T", answer)
	}
	g.wantStatus(idempotency.InProgressStatus, 1)
	if effect, err := s.service.ApplyRecord(t.Context(),
		judge.Record{Source: judge.SourceWebhook, Record: g.record}); err == nil {
		t.Errorf("the webhook came to %T", effect)
	}
	g.wantStatus(idempotency.InProgressStatus, 1)
	g.swept()
	is[Pending](t, g.live(g.lease, g.movement, g.success())) // The reply is late. Its webhook will come.
	g.wantStatus(idempotency.UnknownStatus, 1)
}

// A response that cannot be made is not stored, and neither is anything else of the step.
func TestStepWithoutAResponseIsNotWritten(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001")
	g.movement.payment.Description = "\xff"
	if answer, err := g.ends(g.lease, g.movement, g.success()); err == nil ||
		!strings.Contains(err.Error(), "build response") {
		t.Errorf("answered %T, %v", answer, err)
	}
	g.wantStatus(idempotency.InProgressStatus, 1)
}

// The transition of an owner is written by the owner's own statement, which asks for its lease.
func TestOwnersStepIsNoEvidence(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	p := s.charging("paid-00000000001").paidFor()
	g := s.refunding("refund-000000001", p, 100)
	before := proxy.RoundTrips()
	f := is[Final](t, g.live(g.lease, g.movement, g.success()))
	if f.Response.Status != http.StatusCreated || len(sentSince(proxy, before, "CompleteKeys")) != 1 ||
		len(sentSince(proxy, before, "ResolveKeys")) != 0 {
		t.Errorf("answered %d, sent %q", f.Response.Status, proxy.Rounds()[before:])
	}
}

// A dead letter that is opened between the look and the write keeps a decline back as well: the statement sees the hold
// in the key's row. The guard refuses a statement that does not look.
func TestDeclineDoesNotPassADeadLetterThatWasOpenedMeanwhile(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost()
	is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, as("psp_stray", otherAmount.record(g))))
	row := g.row()
	for _, c := range []struct {
		unlessCharged bool
		status        int
		passed        bool
		refusal       string
	}{{true, 402, false, ""}, {false, 402, false, "idempotency_keys_dead_lettered_stay"}, {false, 201, true, ""}} {
		tx := pgtest.Begin(t, s.pool)
		var out []idempotency.GuardResult
		err := postgres.PipelineTx(t.Context(), tx, s.keys.Resolve([]idempotency.Resolution{{
			Execution: row.Execution(), Seen: idempotency.UnknownStatus,
			Note:     idempotency.Note{Actor: "webhook", Reason: "declined"},
			Response: idempotency.Response{Status: c.status, Body: []byte("{}")}, UnlessCharged: c.unlessCharged,
		}}, &out))
		if (len(out) == 1 && out[0].Passed) != c.passed || (err != nil) != (c.refusal != "") || err != nil &&
			!postgres.Violates(err, c.refusal) {
			t.Errorf("%+v: through %v, %v", c, out, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// twins are two shops in which the same happens: equal ids, equal times of creation. What they store can be compared to
// the byte.
func twins(t *testing.T) (live, late *shop, livePSP, latePSP *actor) {
	t.Helper()
	livePSP, latePSP = &actor{}, &actor{}
	live, late = setupOn(t, livePSP), setupOn(t, latePSP)
	for _, s := range []*shop{live, late} {
		n := byte(0)
		s.service.newID = func() (uuid.UUID, error) {
			n++
			id := uuid.MustParse("01890a5d-ac96-774b-bcce-b30209900000")
			id[15] = n
			return id, nil
		}
		for _, table := range []string{"payments", "refunds"} {
			s.exec("ALTER TABLE " + table + " ALTER COLUMN created_at SET DEFAULT '2026-11-20 09:05:00.12+00'")
		}
	}
	return live, late, livePSP, latePSP
}

// verdictsOfPSP are what it may say of a request, at once or later.
func verdictsOfPSP() map[string]func(http.ResponseWriter, gateway.Record) {
	return map[string]func(http.ResponseWriter, gateway.Record){"success": executes("psp_1"),
		"decline": refuses("psp_1", "insufficient_funds")}
}

// remembering has a PSP note what it is asked for before it breaks.
func remembering(asked *gateway.Record) func(http.ResponseWriter, gateway.Record) {
	return func(w http.ResponseWriter, r gateway.Record) {
		*asked = r
		breaks(w, r)
	}
}

// payInFull takes a payment that has everything a payment can have.
func payInFull(ctx context.Context, s *shop) (Answer, error) {
	return s.service.Create(ctx, keyed(s.t, "order-0000000042"), payment.CreateRequest{
		CustomerID: "cus-1", AmountCents: 999999999999, Currency: "KRW", PaymentMethod: "pm_ok",
		Description: "caf\u00e9 \"42\" <b> \u2028 \U0001f4b3\n",
		Metadata:    map[string]string{"b": "2", "a": "1", "A": "</script>"},
	})
}

func refundInPart(ctx context.Context, s *shop, id payment.ID) (Answer, error) {
	return s.service.Refund(ctx, keyed(s.t, "refund-000000042"), id,
		payment.RefundRequest{AmountCents: 4500, Reason: "caf\u00e9 <b>"})
}

func (s *shop) stored(operation idempotency.Operation, key string) idempotency.Response {
	s.t.Helper()
	row, err := s.keys.Find(s.t.Context(), idempotency.Ref{Tenant: "acme", Operation: operation,
		Key: keyed(s.t, key).Key})
	if err != nil || row.Response == nil {
		s.t.Fatalf("no response is stored: %v", err)
	}
	return *row.Response
}

func TestEvidenceStoresTheBytesOfTheLiveAnswer(t *testing.T) {
	t.Parallel()
	for name, verdict := range verdictsOfPSP() {
		t.Run("payment/"+name, func(t *testing.T) {
			t.Parallel()
			live, late, livePSP, latePSP := twins(t)
			var asked gateway.Record
			livePSP.onPost(verdict)
			latePSP.onPost(remembering(&asked))
			answer, err := payInFull(t.Context(), live)
			if err != nil {
				t.Fatal(err)
			}
			if lost, err := payInFull(t.Context(), late); err != nil {
				t.Fatal(err)
			} else {
				is[Pending](t, lost)
			}
			late.wantTwin(live, payment.CreateOperation, "order-0000000042", is[Final](t, answer).Response, name, asked)
		})
		t.Run("refund/"+name, func(t *testing.T) {
			t.Parallel()
			live, late, livePSP, latePSP := twins(t)
			var asked gateway.Record
			var answers []Answer
			for _, c := range []struct {
				s    *shop
				psp  *actor
				then func(http.ResponseWriter, gateway.Record)
			}{{live, livePSP, verdict}, {late, latePSP, remembering(&asked)}} {
				c.psp.onPost(executes("ch_1"))
				p := c.s.paid("order-0000000042")
				c.psp.onPost(c.then)
				answer, err := refundInPart(t.Context(), c.s, p.ID)
				if err != nil {
					t.Fatal(err)
				}
				answers = append(answers, answer)
			}
			is[Pending](t, answers[1])
			late.wantTwin(live, payment.RefundOperation, "refund-000000042", is[Final](t, answers[0]).Response, name,
				asked)
		})
	}
}

// wantTwin brings the verdict as evidence to the shop that has lost it, and compares what is stored there with the live
// shop's.
func (s *shop) wantTwin(
	live *shop, operation idempotency.Operation, key string, answered idempotency.Response, name string,
	asked gateway.Record,
) {
	s.t.Helper()
	record := as("psp_1", asked)
	record.Status = "succeeded"
	if name == "decline" {
		record = declinedAs(record, "insufficient_funds")
	}
	is[Completed](s.t, s.evidenceBy(judge.SourceWebhook, record))
	for what, response := range map[string]idempotency.Response{
		"stored by evidence": s.stored(operation, key), "stored live": live.stored(operation, key),
	} {
		if diff := cmp.Diff(answered, response); diff != "" {
			s.t.Errorf("%s differs (-answered live +it):\n%s", what, diff)
		}
	}
	if diff := cmp.Diff(s.resource(operation), live.resource(operation)); diff != "" {
		s.t.Errorf("the rows differ:\n%s", diff)
	}
}

// resource is the payment, or the refund, that a shop has last made.
func (s *shop) resource(operation idempotency.Operation) payment.Resource {
	s.t.Helper()
	table := map[idempotency.Operation]string{payment.CreateOperation: "payments",
		payment.RefundOperation: "refunds"}[operation]
	id := pgtest.Value[uuid.UUID](s.t, s.pool, "SELECT id FROM "+table+" ORDER BY id DESC LIMIT 1")
	refund, err := s.service.RefundByID(s.t.Context(), "acme", payment.RefundID(id))
	if refund.Updated = refund.Created; operation == payment.RefundOperation && err == nil {
		return refund
	}
	paid, err := s.service.Payment(s.t.Context(), "acme", payment.ID(id))
	if err != nil {
		s.t.Fatal(err)
	}
	paid.Updated = paid.Created
	return paid
}
