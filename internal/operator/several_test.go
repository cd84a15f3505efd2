package operator

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"payonce/internal/deadletters"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments"
)

// outage makes unknown keys, each with a dead letter: the PSP has done what the method says, and nobody knows.
func (f *fixture) outage(n int, method string) (deadLetters []deadletters.DeadLetter) {
	f.t.Helper()
	f.lossy.Store(true)
	defer f.lossy.Store(false)
	deadLetters = make([]deadletters.DeadLetter, n)
	var g errgroup.Group
	g.SetLimit(8)
	for i := range deadLetters {
		g.Go(func() error {
			key, err := idempotency.ParseKey(fmt.Sprintf("outage-%s-%010d", method, i))
			if err != nil {
				return err
			}
			answer, err := f.service.Create(f.t.Context(),
				payments.Keyed{
					Merchant: payment.Merchant{Tenant: "acme", PSP: native.Name, PSPAccount: "acme"}, Key: key,
				},
				payment.CreateRequest{CustomerID: "cus-1", AmountCents: 12000, Currency: "USD", PaymentMethod: method})
			if err != nil {
				return err
			}
			pending, ok := answer.(payments.Pending)
			if !ok {
				return fmt.Errorf("answer is %T", answer)
			}
			subject := uuid.UUID(pending.Resource.(payment.Payment).ID)
			about := deadletters.About{Tenant: "acme", Operation: payment.CreateOperation, Key: key.String(),
				Generation: 1}
			deadLetters[i] = deadletters.DeadLetter{ID: uuid.Must(uuid.NewV7()), Kind: deadletters.LookupsExhausted,
				Finding: about.KeyFinding(subject), About: &about, Subject: &subject, Reason: "the PSP says nothing",
				Evidence: []byte(`{}`)}
			return f.db.Pipeline(f.t.Context(),
				f.config.Keys.LockKey(idempotency.StoredRef("acme", payment.CreateOperation, key.String()), 1),
				deadletters.Open(deadLetters[i]))
		})
	}
	if err := g.Wait(); err != nil {
		f.t.Fatal(err)
	}
	return deadLetters
}

func (f *fixture) plan(action deadletters.Action, query string) Plan {
	f.t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		f.t.Fatal(err)
	}
	selection, bad := SelectionOf(string(action), values)
	if len(bad) > 0 {
		f.t.Fatalf("%s %s: %+v", action, query, bad)
	}
	p, err := f.ops.Plan(f.t.Context(), selection)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

const annActor = "ann (api key 01937b2e-7c41-7c3a-9d0e-5a1f0c9b2d44)"

func (f *fixture) run(p Plan) Ran {
	f.t.Helper()
	ran, err := f.ops.Run(f.t.Context(), p.Token, "the PSP was away from two to three", annActor)
	if err != nil {
		f.t.Fatal(err)
	}
	return ran
}

// runAll runs a plan, and then plans what was left, as an operator does on a busy machine: the time of a run may be
// over before its end.
func (f *fixture) runAll(p Plan, action deadletters.Action, query string) (done int) {
	f.t.Helper()
	for {
		ran := f.run(p)
		done += ran.Count(WasDone)
		if ran.Count(WasDone)+ran.Count(WasLeft) < len(ran.Outcomes) || ran.Count(WasDone) == 0 {
			f.t.Fatal(ran.Summary())
		}
		if ran.Count(WasLeft) == 0 {
			return done
		}
		p = f.plan(action, query)
	}
}

func TestThereIsNoBulkNotExecuted(t *testing.T) {
	t.Parallel()
	const look, others = "look at each of them alone", "must be retry, executed or dismiss"
	for action, want := range map[string]string{"retry": "", "dismiss": "", "executed": "", "not_executed": look,
		"": others, "answered": others} {
		_, bad := SelectionOf(action, url.Values{})
		if want == "" && len(bad) > 0 || want != "" && (len(bad) != 1 || !strings.Contains(bad[0].Detail, want)) {
			t.Errorf("%q: %+v", action, bad)
		}
	}
	until := time.Unix(1_795_000_000, 0).UTC()
	forged := token{Action: deadletters.NotExecuted, OpenedBefore: &until, Digest: digest(nil)}
	if _, err := parseToken(forged.String()); !errors.Is(err, ErrPlanMalformed) {
		t.Errorf("a plan that somebody has written is taken: %v", err)
	}
	forged.Action = deadletters.Retry
	if _, err := parseToken(forged.String()); err != nil {
		t.Error(err)
	}
	longest := forged
	for len(longest.String()) < maxToken {
		longest.Tenant += "a"
	}
	for name, row := range map[string]struct {
		change func(*token)
		ok     bool
	}{
		"as long as a plan can be":  {func(t *token) { t.Tenant = longest.Tenant }, true},
		"longer":                    {func(t *token) { t.Tenant = longest.Tenant + "a" }, false},
		"without an end":            {func(t *token) { t.OpenedBefore = nil }, false},
		"without its dead letters":  {func(t *token) { t.Digest = nil }, false},
		"a tenant with a zero byte": {func(t *token) { t.Tenant = "a\x00" }, false},
		"a kind with a zero byte":   {func(t *token) { t.Kind = "a\x00" }, false},
	} {
		changed := forged
		row.change(&changed)
		if _, err := parseToken(changed.String()); (err == nil) != row.ok {
			t.Errorf("a plan that is %s, of %d bytes: %v", name, len(changed.String()), err)
		}
	}
}

// The plan changes nothing, and says for each what would happen. Executed needs the PSP's record of what was asked.
func TestPlanSaysWhatWouldBecomeOfEach(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.outage(2, "pm_ok")
	o.outage(1, "pm_500_not_charged")
	o.outage(1, "pm_wrong_amount")
	o.put(alone(deadletters.UnknownMovement, `{}`))
	before := o.picture()
	p := o.plan(deadletters.Executed, "")
	if after := o.picture(); after != before {
		t.Fatalf("a plan has moved:\n%s\n%s", before, after)
	}
	if len(p.Steps) != 5 || p.Refused() != 3 || p.More {
		t.Fatalf("plan is %+v", p)
	}
	for _, s := range p.Steps {
		charged := s.About != nil && strings.HasPrefix(s.About.Key, "outage-pm_ok-")
		if (s.Refused == nil) != charged ||
			charged && !strings.HasPrefix(s.Does, "Complete the key as succeeded, as ch_") {
			t.Errorf("%+v: %q, %+v", s.About, s.Does, s.Refused)
		}
	}
	for query, want := range map[string]int{"kind=lookups_exhausted": 4, "tenant=acme": 4, "tenant=globex": 0,
		"kind=job_discarded": 0, "age=3600": 0, "openedAfter=2026-01-01T00:00:00Z": 5,
		"openedBefore=2026-01-01T00:00:00Z": 0} {
		if p := o.plan(deadletters.Retry, query); len(p.Steps) != want {
			t.Errorf("%s: %d dead letters, want %d", query, len(p.Steps), want)
		}
	}
	ran := o.run(p)
	if ran.Count(WasDone) != 2 || ran.Count(WasRefused) != 3 {
		t.Fatal(ran.Summary())
	}
	if n := scan[int](o, "SELECT count(*) FROM payments WHERE status = 'succeeded'"); n != 2 {
		t.Errorf("%d payments have succeeded", n)
	}
	// Alone, an operator who knows more than the PSP may still decide.
	for _, s := range ran.Outcomes {
		if s.About != nil && strings.HasPrefix(s.About.Key, "outage-pm_wrong_amount-") {
			o.done(decision(s.DeadLetter, deadletters.Executed))
		}
	}
}

func TestPlanIsRefusedIfItsDeadLettersHaveChanged(t *testing.T) {
	t.Parallel()
	o := setup(t)
	deadLetters := o.outage(3, "pm_ok")
	p := o.plan(deadletters.Retry, "kind=lookups_exhausted")
	o.put(alone(deadletters.UnknownMovement, `{}`)) // of another kind
	o.outage(1, "pm_declined")                      // later than the plan
	o.done(decision(deadLetters[1], deadletters.Retry))
	before := o.picture()
	if _, err := o.ops.Run(t.Context(), p.Token, "a reason", annActor); !errors.Is(err, ErrPlanOld) {
		t.Fatalf("an old plan: %v", err)
	}
	if after := o.picture(); after != before {
		t.Fatalf("an old plan has moved:\n%s\n%s", before, after)
	}
	p = o.plan(deadletters.Retry, "kind=lookups_exhausted")
	if len(p.Steps) != 3 {
		t.Fatalf("%d dead letters in the new plan", len(p.Steps))
	}
	later := o.put(alone(deadletters.LookupsExhausted, `{}`))
	if ran := o.run(p); ran.Count(WasDone) != 3 {
		t.Error(ran.Summary())
	}
	if o.show(later.ID).Resolution != nil {
		t.Error("a dead letter that is not in the plan was resolved")
	}
}

// Dead letters that are opened after the plan was made are not in it, whatever time the operator has given.
func TestPlanEndsNowEvenIfALaterTimeIsAskedFor(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.put(alone(deadletters.UnknownMovement, `{}`))
	p := o.plan(deadletters.Dismiss, "openedBefore=9999-01-01T00:00:00Z")
	o.put(alone(deadletters.UnknownMovement, `{}`))
	if ran := o.run(p); len(p.Steps) != 1 || len(ran.Outcomes) != 1 {
		t.Errorf("%d in the plan, of which %d are carried out", len(p.Steps), len(ran.Outcomes))
	}
}

// A plan of five hundred that waits for the PSP would not be shown at all.
func TestPlanSaysWhatWasNotFoundOutInTime(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.lost("pm_ok")
	answering := make(chan struct{})
	o.asked = func() { <-answering }
	selection, _ := SelectionOf(string(deadletters.Executed), url.Values{})
	p, err := o.ops.planWithin(t.Context(), 100*time.Millisecond, selection)
	close(answering)
	if err != nil || len(p.Steps) != 1 || p.Steps[0].Action != deadletters.Executed ||
		!strings.HasPrefix(p.Steps[0].Does, "It was not found out in time.") {
		t.Errorf("%+v, %v", p.Steps, err)
	}
}

func TestPlanThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	o := setup(t)
	good := o.plan(deadletters.Dismiss, "").Token
	for _, plan := range []string{"", "x", good + "A", good[1:], good + "\n", strings.Repeat("A", maxToken+4)} {
		if _, err := o.ops.Run(t.Context(), plan, "a reason", annActor); !errors.Is(err, ErrPlanMalformed) {
			t.Errorf("%.20q: %v", plan, err)
		}
	}
	if ran := o.run(o.plan(deadletters.Dismiss, "")); len(ran.Outcomes) != 0 {
		t.Errorf("without dead letters: %s", ran.Summary())
	}
}

// FuzzPlan: only what a plan has said is read as a plan.
func FuzzPlan(f *testing.F) {
	until := time.Unix(1_795_000_000, 0).UTC()
	f.Add(token{Action: deadletters.Retry, OpenedBefore: &until, Digest: digest(nil)}.String())
	f.Add(token{Action: deadletters.Executed, Kind: deadletters.JobDiscarded, Tenant: "acme", OpenedAfter: &until,
		OpenedBefore: &until, Digest: digest(nil)}.String())
	f.Add("e30")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseToken(s)
		if err != nil {
			return
		}
		if got.String() != s || !forSeveral(got.Action) || got.OpenedBefore == nil {
			t.Fatalf("%q is read as %+v", s, got)
		}
	})
}

// The morning after an outage of ten minutes: five hundred payments were charged, and nobody knows. They are closed by
// two requests, and each is audited under the operator's API key.
func TestFiveHundredDeadLettersAreClosed(t *testing.T) {
	if testing.Short() {
		t.Skip("long: five hundred payments")
	}
	t.Parallel()
	o := setup(t)
	o.outage(MaxSeveral, "pm_ok")
	o.put(alone(deadletters.UnknownMovement, `{}`))
	began := time.Now()
	const query = "kind=lookups_exhausted"
	p := o.plan(deadletters.Executed, query)
	planned := time.Since(began)
	if len(p.Steps) != MaxSeveral || p.Refused() != 0 || p.More {
		t.Fatalf("%d in the plan, %d refused, more is %t", len(p.Steps), p.Refused(), p.More)
	}
	began = time.Now()
	done := o.runAll(p, deadletters.Executed, query)
	t.Logf("%d dead letters: planned in %s, closed in %s", MaxSeveral, planned.Round(time.Millisecond),
		time.Since(began).Round(time.Millisecond))
	if done != MaxSeveral {
		t.Fatalf("%d are done", done)
	}
	if n := scan[int](o, `SELECT count(*) FROM operator_actions AS a JOIN dead_letters AS d ON d.id = a.dead_letter_id
		WHERE a.outcome = 'done' AND a.actor = $1 AND d.status = 'resolved' AND d.action = 'executed'`,
		annActor); n != MaxSeveral {
		t.Errorf("%d are audited", n)
	}
	if n := scan[int](o, "SELECT count(*) FROM payments WHERE status = 'succeeded'"); n != MaxSeveral {
		t.Errorf("%d payments have succeeded", n)
	}
	if n := scan[int](o, "SELECT count(*) FROM dead_letters WHERE status = 'open'"); n != 1 {
		t.Errorf("%d dead letters are open", n)
	}
}

// A plan has the newest 500. Another plan has the rest.
func TestPlanIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("long: more dead letters than a plan takes")
	}
	t.Parallel()
	o := setup(t)
	o.exec(`INSERT INTO dead_letters (id, kind, finding, reason, evidence)
		SELECT gen_random_uuid(), 'unknown_movement', 'f' || n, 'a reason', '{}' FROM generate_series(1, $1) AS n`,
		MaxSeveral+1)
	p := o.plan(deadletters.Dismiss, "")
	if len(p.Steps) != MaxSeveral || !p.More {
		t.Fatalf("%d in the plan, more is %t", len(p.Steps), p.More)
	}
	done := o.runAll(p, deadletters.Dismiss, "") // with another plan, if the machine is slow
	if p = o.plan(deadletters.Dismiss, ""); done < MaxSeveral || done+len(p.Steps) != MaxSeveral+1 || p.More {
		t.Fatalf("%d done, %d in the last plan, more is %t", done, len(p.Steps), p.More)
	}
}

// Two operators run the same plan at the same moment. Each dead letter is resolved by one of them.
func TestOneOfTwoOperatorsClosesEach(t *testing.T) {
	if testing.Short() {
		t.Skip("long: two operators, many times")
	}
	t.Parallel()
	o := setup(t)
	o.outage(20, "pm_ok")
	p := o.plan(deadletters.Executed, "")
	var g errgroup.Group
	var ran [2]Ran
	for i := range ran {
		g.Go(func() (err error) {
			ran[i], err = o.ops.Run(t.Context(), p.Token, "a reason", fmt.Sprintf("operator %d", i))
			if errors.Is(err, ErrPlanOld) {
				return nil // The other one had begun before.
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if done := ran[0].Count(WasDone) + ran[1].Count(WasDone); done != 20 {
		t.Errorf("%d are done: %s %s", done, ran[0].Summary(), ran[1].Summary())
	}
	if n := scan[int](o, "SELECT count(*) FROM operator_actions WHERE outcome = 'done'"); n != 20 {
		t.Errorf("%d are audited as done", n)
	}
}

// When the time is over, no further decision is begun, and those that were not begun are told apart.
func TestNoDecisionIsBegunAfterTheTimeIsOver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var begun atomic.Int32
	err := each(ctx, make([]Entry, 100), func(i int, _ Entry) error {
		switch begun.Add(1); {
		case i == 9:
			cancel()
		case i > 9:
			<-ctx.Done() // or all of them could be done before the one that cancels
		}
		return nil
	})
	if n := begun.Load(); err != nil || n > 10+severalAtOnce-1 {
		t.Errorf("%d are begun, %v", n, err)
	}
}

// The dead letter's own evidence names another charge than the PSP's ledger. Somebody has to look at it.
func TestBulkExecutedRefusesACaseThatNamesAnotherCharge(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.lossy.Store(true)
	o.pay("pm_ok")
	o.lossy.Store(false)
	l := o.put(o.about(deadletters.PSPContradicts, `{"answer":{"id":"ch_other","status":"succeeded"}}`))
	if p := o.plan(deadletters.Executed, ""); p.Refused() != 1 || p.Steps[0].Refused.Ground != judge.ContradictsPSP {
		t.Errorf("plan is %+v", p.Steps)
	}
	if ran := o.run(o.plan(deadletters.Executed, "")); ran.Count(WasRefused) != 1 || o.show(l.ID).Resolution != nil {
		t.Error(ran.Summary())
	}
}

// A panic ends the request, and not the process.
func TestPanicOfOneDecisionIsThatOfTheCaller(t *testing.T) {
	t.Parallel()
	defer func() {
		if p := recover(); p != "a bug" {
			t.Errorf("the caller has got %v", p)
		}
	}()
	_ = each(t.Context(), make([]Entry, 3), func(int, Entry) error { panic("a bug") })
	t.Error("the panic is lost")
}
