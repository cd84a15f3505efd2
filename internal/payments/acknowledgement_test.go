package payments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// What an owner tells its client when the database does not tell the owner what has become of a statement.

// proxied has the shop's service reach its database through a proxy. What the test itself asks goes past the proxy,
// except for what it asks by a method of the service or of the keys.
func (s *shop) proxied() *pgproxy.Proxy {
	s.t.Helper()
	proxy := pgproxy.Start(s.t, s.pool.Config().ConnString())
	s.reaching(proxy.URL(), pgtest.Limits())
	return proxy
}

// logged is what the service writes to its log from now on.
func (s *shop) logged() *bytes.Buffer {
	var log bytes.Buffer
	s.service.log = slog.New(slog.NewTextHandler(&log, nil))
	return &log
}

// failing has the first n writes that fit fail, as if the disk was full for so long.
func (s *shop) failing(n int, sqlstate, table, write, when string) {
	s.t.Helper()
	s.exec(fmt.Sprintf(`CREATE SEQUENCE outage;
		CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('outage') <= %d THEN RAISE EXCEPTION 'of the test' USING ERRCODE = '%s'; END IF;
			RETURN NULL;
		END $$;
		CREATE CONSTRAINT TRIGGER outage AFTER %s ON %s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (%s)
			EXECUTE FUNCTION fail()`, n, sqlstate, write, table, when))
}

const (
	diskFull = "53100"
	oddError = "P0001" // an error that says nothing about the means of the server
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

// A payment of the group may be what the database refuses. An owner has an outcome to write, so it goes on alone.
// Evidence can wait: its source brings it again.
func TestOwnerGoesOnAloneAndEvidenceComesAgain(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	full := &postgres.UnavailableError{Op: "complete", Err: errors.New("the disk is full")}
	lost := &postgres.AmbiguousError{Err: errors.New("the connection is lost")}
	var fails error
	tries := 0
	s.service.groups.completions = postgres.NewGroup(s.service.db, func(completion) string { return "" },
		func(context.Context, []completion) ([]recorded, error) { tries++; return nil, fails })
	s.service.groups.resolutions = postgres.NewGroup(s.service.db, func(resolution) string { return "" },
		func(context.Context, []resolution) ([]recorded, error) { tries++; return nil, fails })

	for name, err := range map[string]error{"full": full, "lost": lost} {
		g := s.charging(key("order", name))
		fails, tries = err, 0
		is[Final](t, g.live(g.lease, g.movement, g.success()))
		if g.wantStatus(idempotency.CompletedStatus, 1); tries != 1 {
			t.Errorf("%s: the group was tried %d times", name, tries)
		}
	}

	g := s.charging("order-with-evidence").lost()
	fails, tries = full, 0
	if _, err := s.service.ApplyRecord(t.Context(), judge.Record{Source: judge.SourceWebhook,
		Record: g.record}); tries != 1 ||
		!postgres.Unavailable(err) {
		t.Errorf("%d tries: %v", tries, err)
	}
	g.wantStatus(idempotency.UnknownStatus, 1)
	fails, tries = lost, 0
	is[Completed](t, s.evidenceBy(judge.SourceWebhook, g.record))
	if g.wantStatus(idempotency.CompletedStatus, 1); tries != 1 {
		t.Errorf("after a lost acknowledgement: the group was tried %d times", tries)
	}
}

// A lookup whose acknowledgement is lost leaves it to the next one to say what has become of the key.
func TestLookupWhoseAcknowledgementIsLostClaimsNothing(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	psp.onLookup(finds())
	s := setupOn(t, psp)
	proxy := s.proxied()
	for name, action := range map[string]pgproxy.Action{
		"cut": pgproxy.CutBefore, "lost": pgproxy.DropAcknowledgement,
	} {
		g := s.charging(key("order", name)).lost().windowPasses()
		before := proxy.Sent("ReleaseUnknownKey")
		event := proxy.On("ReleaseUnknownKey", action)
		due := idempotency.Due{Ref: g.reservation.Ref, Generation: 1}
		result, err := s.service.LookUpDue(t.Context(), due, patient())
		if result != "" || err == nil {
			t.Errorf("%s: %q, %v", name, result, err)
		}
		event.Await(t)
		if n := proxy.Sent("ReleaseUnknownKey") - before; n != 1 {
			t.Errorf("%s: sent %d times", name, n)
		}
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
	step := judge.Judge(seen.seen, judge.Record{Source: judge.SourceScan, Record: g.record})
	if applied, err := s.service.apply(ended, seen, step); err != nil || !applied.Passed {
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

	reserved := gatherReserved(g.lease, g.movement)
	step := judge.Judge(reserved.seen, judge.Reply{Attempt: 1,
		Outcome: gateway.Declined{ID: "ch_1", Code: gateway.AlreadyMoved}})
	if applied, err := s.service.apply(t.Context(), reserved, step); err != nil || !applied.Passed {
		t.Fatal(applied, err)
	}
	s.wantDeadLetters("moved_outside " + reserved.seen.About().KeyFinding(g.lease.Subject))
}

// A step that somebody else has overtaken is no news: neither the log nor an alert may say that it was written, or that
// a payment's row is missing.
func TestStepThatDidNotPassIsNotLoggedAsWritten(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").swept()
	log := s.logged()
	reserved := gatherReserved(g.lease, g.movement)
	step := judge.Judge(reserved.seen, judge.Reply{Attempt: 1,
		Outcome: gateway.NotExecuted{Reason: "refused"}})
	if applied, err := s.service.apply(t.Context(), reserved, step); err != nil || applied.Passed {
		t.Fatal(applied, err)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", log)
	}
}

func noID() (uuid.UUID, error) { return uuid.UUID{}, errors.New("no random numbers") }

// Each alert has its cause: an acknowledgement that was lost, a reply that came late, or a statement that failed.
func TestOnlyWhatHasHappenedIsCounted(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	for name, c := range map[string]struct {
		do   func(g *stage)
		want string
	}{
		"a payment":  {func(g *stage) { g.succeeded() }, ""},
		"a lease":    {func(g *stage) { g.leaseEnds().asked() }, ""},
		"a late one": {func(g *stage) { g.swept().succeeded() }, "payonce_fenced_writes_total"},
		"an id that is taken": {func(g *stage) {
			g.live(g.lease, g.movement, s.charging("order-that-has-the-id").succeeded().success())
		}, ""},
		"a lost step": {func(g *stage) {
			proxy.On("CompleteKeys", pgproxy.DropAcknowledgement)
			g.succeeded()
		}, "payonce_commit_ambiguous_total"},
		"a lost release": {func(g *stage) {
			proxy.On("ReleaseKey", pgproxy.DropAcknowledgement)
			g.failed()
		}, "payonce_commit_ambiguous_total"},
		"a lost end of a lease": {func(g *stage) {
			proxy.On("ExpireLease", pgproxy.DropAcknowledgement)
			g.leaseEnds().asked()
		}, "payonce_commit_ambiguous_total"},
		"a read that fails": {func(g *stage) {
			proxy.On("Durable", pgproxy.CutBefore)
			g.swept().failed()
		}, "payonce_fenced_writes_total payonce_idempotency_store_errors_total"},
		"a key that is not read again": {func(g *stage) {
			proxy.On("FindKey", pgproxy.CutBefore)
			g.swept().succeeded()
		}, "payonce_idempotency_store_errors_total"},
	} {
		g := s.charging(key("order", name))
		registry := prometheus.NewRegistry()
		s.service.metrics = telemetry.NewMetrics(registry)
		c.do(g)
		if got := counted(t, registry); got != c.want {
			t.Errorf("%s: counted %q", name, got)
		}
	}
}

// No try gets through, and the row does not say that one has: such a step has not passed.
func TestStepThatIsInDoubtHasNotPassed(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	for name, c := range ownersSteps {
		g := s.charging(key("order", name))
		reserved := gatherReserved(g.lease, g.movement)
		step := judge.Judge(reserved.seen,
			judge.Reply{Attempt: g.lease.Attempt, Outcome: c.reply(g)})
		proxy.OnNext(3, c.query, pgproxy.CutBefore)
		applied, err := s.service.apply(t.Context(), reserved, step)
		if !errors.Is(err, errStepInDoubt) || applied.Passed {
			t.Errorf("%s: passed %v, %v", name, applied.Passed, err)
		}
	}
}

// asked has a new request ask for the stage's key.
func (s *stage) asked() {
	s.t.Helper()
	if _, err := s.ask(); err != nil {
		s.t.Fatal(err)
	}
}

// counted names the counters of what went wrong that are not zero.
func counted(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		switch f.GetName() {
		case "payonce_fenced_writes_total", "payonce_commit_ambiguous_total", "payonce_idempotency_store_errors_total":
			sum := 0.0
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
			if sum > 0 {
				names = append(names, f.GetName())
			}
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
