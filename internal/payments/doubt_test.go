package payments

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// sentSince are the rounds since some moment in which one of the queries was sent.
func sentSince(p *pgproxy.Proxy, before int, queries ...string) (rounds [][]string) {
	for _, r := range p.Rounds()[before:] {
		if slices.ContainsFunc(queries, func(q string) bool { return slices.Contains(r, q) }) {
			rounds = append(rounds, r)
		}
	}
	return rounds
}

// ask is the reservation of a new request with the stage's key, and what came of it.
func (s *stage) ask() (idempotency.Decision, error) {
	c := s.keys.NewReservation(s.reservation.Ref, s.reservation.Fingerprint, uuid.Must(uuid.NewV7()),
		uuid.Must(uuid.NewV7()))
	return s.service.reserve(s.t.Context(), c, s.again())
}

// After one lost acknowledgement, each statement that takes the key may find what this request itself has written, and
// that may not be durable yet. So from then on each of them waits for it.
func TestReservationInDoubtWaitsUntilItIsDurable(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	for name, c := range map[string]struct {
		bring  func(*stage)
		cut    []string
		sent   string // the statements that are sent, in order; those that must wait have a D
		decide func(idempotency.Decision) bool
	}{
		"nothing is lost": {bring: func(g *stage) { g.failed() }, sent: "ReserveKeys RetakeKey",
			decide: decided[idempotency.Execute]},
		"the reservation": {bring: func(g *stage) { g.failed() }, cut: []string{"ReserveKeys"},
			sent: "ReserveKeys RetakeKey+D", decide: decided[idempotency.Execute]},
		"the retake": {bring: func(g *stage) { g.failed() }, cut: []string{"RetakeKey"},
			sent: "ReserveKeys RetakeKey ReserveKeys+D RetakeKey+D", decide: decided[idempotency.Execute]},
		"both": {bring: func(g *stage) { g.failed() }, cut: []string{"ReserveKeys", "RetakeKey"},
			sent: "ReserveKeys RetakeKey+D ReserveKeys+D RetakeKey+D", decide: decided[idempotency.Execute]},
		"the reservation of what the PSP has forgotten": {cut: []string{"ReserveKeys"}, bring: func(g *stage) {
			g.failed().timePasses("UPDATE idempotency_keys SET reserved_at = reserved_at - $2::interval WHERE key = $1",
				g.key.Key.String(), terms().PSPMemory)
		}, sent: "ReserveKeys RetakeKey+D ReserveKeys+D", decide: decided[idempotency.Retake]},
		"the reservation of what is executed": {bring: func(*stage) {}, cut: []string{"ReserveKeys"},
			sent: "ReserveKeys", decide: decided[idempotency.InProgress]},
	} {
		g := s.charging(key("order", name))
		c.bring(g)
		for _, query := range c.cut {
			proxy.On(query, pgproxy.CutBefore)
		}
		before := proxy.RoundTrips()
		d, err := g.ask()
		if err != nil || !c.decide(d) {
			t.Errorf("%s: %T, %v", name, d, err)
		}
		var sent []string
		for _, r := range sentSince(proxy, before, "ReserveKeys", "RetakeKey") {
			if slices.Contains(r, "Durable") {
				r[0] += "+D"
			}
			sent = append(sent, r[0])
		}
		if got := strings.Join(sent, " "); got != c.sent {
			t.Errorf("%s: sent %s", name, got)
		}
		// What is read of another request's reservation needs no wait.
		if n := len(sentSince(proxy, before, "Durable")); n != strings.Count(c.sent, "+D") {
			t.Errorf("%s: %d rounds wait", name, n)
		}
	}
}

func decided[Case idempotency.Decision](d idempotency.Decision) bool {
	_, is := d.(Case)
	return is
}

// A reservation that was written, and whose acknowledgement was lost, is read: once without waiting, and once more
// durably if it is our own. What is read of another request's needs no wait.
func TestReservationThatWasWrittenIsReadDurably(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	for name, c := range map[string]struct {
		query string
		cut   int // reads that are cut off, too
		read  string
		ours  bool
	}{
		"ours":                          {query: "ReserveKeys", read: "FindKey FindKey+D", ours: true},
		"ours, at the second read":      {query: "ReserveKeys", cut: 1, read: "FindKey FindKey FindKey+D", ours: true},
		"not known, as it is not read":  {query: "ReserveKeys", cut: 3, read: "FindKey FindKey FindKey"},
		"known, but what it is for not": {query: "GetPayment", read: "FindKey FindKey+D"},
	} {
		k := keyed(t, key("order", strings.ReplaceAll(name, ",", "")))
		proxy.On("ReserveKeys", pgproxy.DropAcknowledgement)
		if c.query != "ReserveKeys" {
			proxy.On(c.query, pgproxy.CutBefore)
		}
		if c.cut > 0 {
			proxy.OnNext(c.cut, "FindKey", pgproxy.CutBefore)
		}
		before := proxy.RoundTrips()
		m := s.charge(k)
		d, err := s.service.reserve(t.Context(), s.reservation(payment.CreateOperation, k), m)
		if _, won := d.(idempotency.Execute); won != c.ours || (err == nil) != c.ours || c.ours && m.resource() == nil {
			t.Errorf("%s: %T, %v", name, d, err)
		}
		var read []string
		for _, r := range sentSince(proxy, before, "FindKey") {
			if slices.Contains(r, "Durable") {
				r[0] += "+D"
			}
			read = append(read, r[0])
		}
		if got := strings.Join(read, " "); got != c.read {
			t.Errorf("%s: read %s", name, got)
		}
	}
}

// The client of a key whose lease is over is told that its outcome is unknown, also if the acknowledgement of that is
// lost.
func TestEndOfTheLeaseNeedsNoAcknowledgement(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	for name, action := range map[string]pgproxy.Action{
		"cut": pgproxy.CutBefore, "lost": pgproxy.DropAcknowledgement,
	} {
		g := s.charging(key("order", name)).leaseEnds()
		event := proxy.On("ExpireLease", action)
		d, err := g.ask()
		if err != nil || !decided[idempotency.Unknown](d) {
			t.Errorf("%s: %T, %v", name, d, err)
		}
		event.Await(t)
		g.wantStatus(idempotency.UnknownStatus, 1)
	}
}

// A key that cannot be moved is an error of the database, and no decision. It does not say that the database is not
// available, either: to come again would not help the client.
func TestKeyThatTheDatabaseRefusesToMoveIsAnError(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	over := s.charging("order-whose-lease-is-over").leaseEnds()
	free := s.charging("order-that-has-failed").failed()
	s.failing(1<<30, oddError, "idempotency_keys", "UPDATE", "NEW.status = 'unknown' OR NEW.attempt > 1")
	for name, g := range map[string]*stage{"its lease is over": over, "it has failed": free} {
		before := s.everything()
		if d, err := g.ask(); err == nil || postgres.Unavailable(err) || s.everything() != before {
			t.Errorf("%s: %T, %v", name, d, err)
		}
	}
}

// The statements have said that the key is ours, and then the commit fails. To believe them would be to move money
// without a reservation.
func TestReservationThatIsNotCommittedMovesNoMoney(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.paid("order-0000000001")
	s.failing(1<<30, diskFull, "refunds", "INSERT", "true")
	const key = "refund-000000001"
	answer, err := s.service.Refund(t.Context(), keyed(t, key), p.ID, payment.RefundRequest{AmountCents: 1})
	if ledger := s.ledger(key); !postgres.Unavailable(err) || strings.Contains(ledger, "succeeded") {
		t.Errorf("answered %T, %v; the PSP has %s", answer, err, ledger)
	}
	s.wantTotals(p, 0, 0)
}

// A request that could not take the key, because another one was faster, may take it when that one has failed.
func TestKeyThatIsFreeAgainIsTakenAndNotCalledForgotten(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	g := s.charging("order-0000000001").failed()
	held := proxy.On("RetakeKey", pgproxy.HoldBefore)
	decisions := make(chan idempotency.Decision, 1)
	go func() {
		d, err := g.ask()
		if err != nil {
			t.Error(err)
		}
		decisions <- d
	}()
	held.Await(t)
	m := g.again()
	g.live(g.reserve(m), m, gateway.NotExecuted{Reason: "no connection"})
	held.Release()
	if won := is[idempotency.Execute](t, <-decisions); won.Lease.Attempt != 3 {
		t.Errorf("it is attempt %d", won.Lease.Attempt)
	}
}

// The PSP's object is executed only if its id is stored for certain.
func TestObjectIsExecutedOnlyIfItIsStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cut    int
		action pgproxy.Action
		fails  int
		with   string
		sent   int
		stored bool
	}{
		"cut":                {cut: 1, action: pgproxy.CutBefore, sent: 2, stored: true},
		"lost":               {cut: 1, action: pgproxy.DropAcknowledgement, sent: 2, stored: true},
		"cut each time":      {cut: 3, action: pgproxy.CutBefore, sent: 3},
		"full once":          {fails: 1, with: diskFull, sent: 2, stored: true},
		"full each time":     {fails: 3, with: diskFull, sent: 3},
		"refused at the end": {fails: 1, with: oddError, sent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setupTwoSteps(t)
			proxy := s.proxied()
			if c.cut > 0 {
				proxy.OnNext(c.cut, "RememberObject", c.action)
			}
			if c.fails > 0 {
				s.failing(c.fails, c.with, "payments", "UPDATE", "OLD.psp_object_id IS DISTINCT FROM NEW.psp_object_id")
			}
			registry := prometheus.NewRegistry()
			s.service.metrics = telemetry.NewMetrics(registry)
			answer, steps := s.pay(twoStepKey, "pm_ok"), "create"
			if failed := strings.Contains(counted(t, registry), "store_errors"); failed == c.stored {
				t.Errorf("stored: %v, counted as an error of the database: %v", c.stored, failed)
			}
			if c.stored {
				is[Final](t, answer)
				steps = "create confirm"
			} else {
				is[NotExecuted](t, answer)
			}
			if n := proxy.Sent("RememberObject"); s.steps() != steps || n != c.sent {
				t.Errorf("steps %q, sent %d times", s.steps(), n)
			}
		})
	}
}

// A database that does not answer is no proof that a record is about nothing of ours, or about another payment. A dead
// letter would say so to an operator.
func TestRecordIsNotJudgedWhenItsPaymentCannotBeFound(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	byKey, unknown := g.record, g.record
	byKey.Reference = ""
	unknown.Reference = payment.ID(uuid.Must(uuid.NewV7())).String()
	pool, outage := pgtest.WithOutage(t, s.pool)
	db := postgres.Wrap(pool, patience)
	s.keys = idempotency.New(db, terms(), time.Now)
	s.service.db, s.service.keys = db, s.keys
	for query, r := range map[string]gateway.Record{
		"BookedMovements :": g.record, "ExecutionOfAnybody :": unknown, "TenantOfAccount :": byKey, "FindKey :": byKey,
	} {
		outage.On(query, 1)
		effect, err := s.service.ApplyRecord(t.Context(), judge.Record{Source: judge.SourceWebhook, Record: r})
		if err == nil {
			t.Errorf("without %s the effect is %T %+v", query, effect, effect)
		}
	}
	psp.onLookup(finds(unknown))
	outage.On("OtherMovementsOfKey", 1)
	if result, err := s.service.LookUpDue(t.Context(),
		idempotency.Due{Ref: g.reservation.Ref, Generation: 1}, patient()); !errors.Is(err, context.Canceled) {
		t.Errorf("the lookup came to %q, %v", result, err)
	}
	outage.Over()
	g.wantStatus(idempotency.UnknownStatus, 1)
	s.wantDeadLetters()
	is[Completed](t, s.evidenceBy(judge.SourceWebhook, g.record))
}

// A record whose key cannot be one of ours is about nothing of ours.
func TestRecordUnderAKeyThatIsNoneIsNotOurs(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost()
	for name, edit := range map[string]func(*gateway.Record){
		"no key at all":       func(r *gateway.Record) { r.Key = "" },
		"another generation":  func(r *gateway.Record) { r.Key += "#2" },
		"nobody's account":    func(r *gateway.Record) { r.Account = "initech" },
		"a key that is free":  func(r *gateway.Record) { r.Key = "order-0000000002" },
		"a refund of the key": func(r *gateway.Record) { r.Object = gateway.RefundObject },
	} {
		r := as(key("psp", name), g.record)
		r.Reference = ""
		edit(&r)
		if d := is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, r)); d.Kind != "unknown_movement" || !d.New {
			t.Errorf("%s: %+v", name, d)
		}
	}
	g.wantStatus(idempotency.UnknownStatus, 1)
}

// applies writes a step of evidence in a transaction of the caller's.
func (s *stage) applies(seen gathered, r gateway.Record) error {
	step := judge.Judge(seen.seen, judge.Record{Source: judge.SourceWebhook, Record: r})
	return pgx.BeginFunc(s.t.Context(), s.pool, func(tx pgx.Tx) error {
		return s.service.applyTx(s.t.Context(), tx, seen, step)
	})
}

// An operator is told if a decision was not written, and the key and its payment are written together or not at all.
func TestStepInAnothersTransactionIsWrittenWholeOrRefused(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost()
	seen := g.gathers()
	g.windowPasses().proven()
	log := s.logged()
	before := s.everything()
	if err := g.applies(seen, g.record); !errors.Is(err, ErrMoved) || log.Len() > 0 || s.everything() != before {
		t.Errorf("a key that has moved: %v, logged %s", err, log)
	}
	seen = g.gathers()
	s.timePasses("UPDATE payments SET status = 'declined', psp_charge_id = NULL WHERE idempotency_key = $1",
		g.key.Key.String())
	before = s.everything()
	if err := g.applies(seen, g.record); err == nil || errors.Is(err, ErrMoved) || s.everything() != before {
		t.Errorf("a payment that has an outcome: %v", err)
	}

	g = s.charging("order-0000000002").lost()
	seen, s.service.newID = g.gathers(), noID
	if err := g.applies(seen, otherAmount.record(g)); err == nil {
		t.Error("a dead letter without an id is no error")
	}
	s.wantDeadLetters()
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

// The owner has lost its key, and cannot read what the key is now. Its reply is not judged by what was before.
func TestOwnerThatCannotReadItsKeyAnswersUnknown(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	for name, c := range map[string]struct {
		cut   string
		reply func(*stage) gateway.Outcome
		to    idempotency.Status
	}{
		"nothing of it": {"FindKey", func(g *stage) gateway.Outcome {
			return g.success()
		}, idempotency.UnknownStatus},
		"not durably": {"Durable", func(*stage) gateway.Outcome {
			return gateway.NotExecuted{Reason: "no connection"}
		}, idempotency.FailedRetryableStatus},
		"not what it has completed itself": {"Durable", func(g *stage) gateway.Outcome {
			return g.success()
		}, idempotency.CompletedStatus},
		"nothing of what is over and was executed": {"FindKey", func(g *stage) gateway.Outcome {
			return g.success()
		}, idempotency.ExpiredStatus},
		"not its payment": {"GetPayment", func(*stage) gateway.Outcome {
			return gateway.NotExecuted{Reason: "no connection"}
		}, idempotency.ExpiredStatus},
	} {
		g := s.charging(key("order", name)).swept()
		switch c.to {
		case idempotency.FailedRetryableStatus:
			g.proven()
		case idempotency.ExpiredStatus:
			g.proven().expired()
		case idempotency.InProgressStatus, idempotency.UnknownStatus, idempotency.CompletedStatus:
		}
		log := s.logged()
		event := proxy.On(c.cut, pgproxy.CutBefore)
		is[Pending](t, g.live(g.lease, g.movement, c.reply(g)))
		event.Await(t)
		g.wantStatus(c.to, 1)
		if log.Len() == 0 {
			t.Errorf("%s: nothing is logged", name)
		}
	}
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

// A failover may undo a reservation whose commit nobody has acknowledged. A client is told of it durably, and of what
// was sent without a further commit.
func TestClientIsToldDurablyOfWhatIsNotFinal(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	over, paid := s.charging("order-0000000001"), s.charging("order-0000000002")
	over.paidFor()
	over.expired()
	p := paid.paidFor()
	refunded := s.refunding("refund-0000000001", p, 100).succeeded()
	alone, err := s.service.RefundsToTell(t.Context(), "acme", p.ID, RefundFilter{Limit: 9})
	if err != nil || len(alone.Refunds) != 1 || proxy.Sent("Durable") != 0 {
		t.Errorf("a page of what is over: %+v, %v", alone, err)
	}
	refunding, paying := s.refunding("refund-0000000002", p, 100), s.charging("order-0000000003")
	charge := func(id uuid.UUID) error {
		_, err := s.service.PaymentToTell(t.Context(), "acme", payment.ID(id))
		return err
	}
	refund := func(g *stage) error {
		_, err := s.service.RefundToTell(t.Context(), "acme", payment.RefundID(g.lease.Subject))
		return err
	}
	page := func(status payment.Status) error {
		_, err := s.service.PaymentsToTell(t.Context(), "acme", Filter{Limit: 9, Status: status})
		return err
	}
	key := func(ref idempotency.Ref) error {
		_, err := s.keys.FindToTell(t.Context(), ref)
		return err
	}
	unknown := paying.reservation.Ref
	unknown.Tenant = "globex"
	for name, c := range map[string]struct {
		tell    func() error
		durably int
		fails   error
	}{
		"a payment under way":       {tell: func() error { return charge(paying.lease.Subject) }, durably: 1},
		"a payment":                 {tell: func() error { return charge(paid.lease.Subject) }},
		"no payment":                {tell: func() error { return charge(uuid.Max) }, fails: ErrPaymentNotFound},
		"a refund under way":        {tell: func() error { return refund(refunding) }, durably: 1},
		"a refund":                  {tell: func() error { return refund(refunded) }},
		"a page with one under way": {tell: func() error { return page("") }, durably: 1},
		"a page":                    {tell: func() error { return page(payment.Succeeded) }},
		"refunds, one under way": {tell: func() error {
			_, err := s.service.RefundsToTell(t.Context(), "acme", p.ID, RefundFilter{Limit: 9})
			return err
		}, durably: 1},
		"refunds of no payment": {tell: func() error {
			_, err := s.service.RefundsToTell(t.Context(), "acme", payment.ID(uuid.Max), RefundFilter{Limit: 9})
			return err
		}, fails: ErrPaymentNotFound},
		"a key under way": {tell: func() error { return key(paying.reservation.Ref) }, durably: 1},
		"a completed key": {tell: func() error { return key(paid.reservation.Ref) }},
		"an expired key":  {tell: func() error { return key(over.reservation.Ref) }},
		"no key":          {tell: func() error { return key(unknown) }, fails: idempotency.ErrNoKey},
	} {
		before := proxy.Sent("Durable")
		err, sent := c.tell(), proxy.Sent("Durable")-before
		if !errors.Is(err, c.fails) || sent != c.durably {
			t.Errorf("%s: %d durable reads, %v", name, sent, err)
		}
	}
}
