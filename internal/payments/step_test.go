package payments

import (
	"bytes"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/telemetry"
	"payonce/test/pgproxy"
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

// A key that moved without its payment is a fault of ours, and must not go unseen.
func TestRowThatDidNotMoveWithItsKeyIsReported(t *testing.T) {
	t.Parallel()
	for _, written := range []bool{true, false} {
		registry := prometheus.NewRegistry()
		var log bytes.Buffer
		s := &Service{log: slog.New(slog.NewTextHandler(&log, nil)), metrics: telemetry.NewMetrics(registry)}
		s.committed(t.Context(), Gathered{movement: &movement{payment: &payment.Payment{ID: payment.ID(ownSubject)}}},
			judge.Step{}, written)
		if reported := log.Len() > 0 && counted(t, registry) != ""; reported == written {
			t.Errorf("written %v: reported %v", written, reported)
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

// A step that somebody else has overtaken is no news: neither the log nor an alert may say that it was written, or that
// a payment's row is missing.
func TestStepThatDidNotPassIsNotLoggedAsWritten(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").swept()
	log := s.logged()
	reserved := gatherReserved(g.lease, g.movement)
	step := judge.Judge(reserved.Seen, judge.Reply{Attempt: 1,
		Outcome: gateway.NotExecuted{Reason: "refused"}})
	if applied, err := s.service.Apply(t.Context(), reserved, step); err != nil || applied.Passed {
		t.Fatal(applied, err)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", log)
	}
}

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

// An operator compares the evidence with what was asked. Evidence that would not be whole, or no text, is not stored as
// if it was.
func TestDeadLetterHasAllOfItsEvidence(t *testing.T) {
	t.Parallel()
	asked := payment.Payment{Amount: 12000, Currency: "USD"}
	odd := payment.Payment{Amount: 12000, Currency: "\xff"}
	for name, c := range map[string]struct {
		evidence string
		of       payment.Payment
		want     string // empty: an error
	}{
		"none":                 {"", asked, `{"asked":{"amountCents":12000,"currency":"USD"}}`},
		"some":                 {`{"b":1}`, asked, `{"asked":{"amountCents":12000,"currency":"USD"},"b":1}`},
		"cut off":              {`{"b":1`, asked, ""},
		"asked for in no text": {`{"b":1}`, odd, ""},
	} {
		got, err := withAsked([]byte(c.evidence), &movement{payment: &c.of})
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestDeadLetterHoldsTheRecordAndNamesTheKey(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost().windowPasses()
	before := s.everything()
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, otherAmount.record(g)))
	if n := s.count(`SELECT count(*) FROM dead_letters WHERE tenant_id = 'acme' AND tenant_id = 'acme' AND operation = 'POST /payments'
		AND key = 'order-0000000001' AND generation = 1 AND subject = $1 AND reason LIKE '%another amount%'
		AND evidence ->> 'source' = 'scan' AND evidence #>> '{record,amountCents}' = '12001' AND evidence #>> '{record,id}' = $2`,
		g.lease.Subject, g.record.ID); n != 1 {
		t.Fatalf("the dead letter is %s", s.texts("SELECT d::text FROM dead_letters AS d"))
	}
	// Not by looking for the amount in the rows: their timestamps and random ids have the same digits now and then.
	if after := s.everything(); after != before {
		t.Fatalf("what may be about somebody else is in the rows of the key or the payment:\n%s\nwhich were\n%s", after,
			before)
	}
}

// The database's jsonb cannot store every answer: here a member that nobody reads has a number with an exponent. That
// the answer says that money moved must be kept all the same, or the client is told of a decline later, and pays again
// under another key.
func TestDeclineIsNotToldBesideAnAnswerThatCannotBeStored(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	psp.onPost(func(w http.ResponseWriter, asked gateway.Record) {
		asked.ID, asked.Status, asked.AmountMinor = "psp_odd", "succeeded", asked.AmountMinor+1
		w.WriteHeader(http.StatusCreated)
		w.Write(append([]byte(`{"rate":1.3e0,`), asked.Evidence()[1:]...))
	})
	p := is[payment.Payment](t, is[Pending](t, s.create("order-0000000001", order())).Resource)
	ref := idempotency.StoredRef("acme", payment.CreateOperation, p.Key)
	c, err := s.service.Gather(t.Context(), idempotency.Execution{Ref: ref, Subject: uuid.UUID(p.ID), Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	found := is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, declinedAs(recordOf(c, "psp_no"), "no_money")))
	row, err := s.keys.Find(t.Context(), ref)
	if err != nil || row.Status != idempotency.UnknownStatus {
		t.Errorf("%+v, and the key is %s: %v", found, row.Status, err)
	}
	if n := s.count(`SELECT count(*) FROM dead_letters WHERE evidence #>> '{answer,id}' = 'psp_odd'
		AND evidence #>> '{answer,amountCents}' = '12001' AND evidence #>> '{answer,reference}' = $1`, p.ID.String()); n != 1 {
		t.Errorf("%s", s.texts("SELECT evidence::text FROM dead_letters"))
	}
}
