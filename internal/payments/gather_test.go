package payments

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// A step that was refused is judged once more. What has refused it counts only for the state that it was judged from:
// for another one, it would open a dead letter about nothing. A lookup that somebody has asked for stays asked for.
func TestRefusalCountsForTheStateThatWasJudged(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	seen := s.charging("order-0000000001").lost().gathers()
	taken := &pgconn.PgError{ConstraintName: "payments_psp_charge_unique"}
	for name, c := range map[string]struct {
		edit         func(*Gathered)
		taken, woken bool
	}{
		"as it was":             {func(*Gathered) {}, true, false},
		"with another status":   {func(g *Gathered) { g.Seen.Status = idempotency.InProgressStatus }, false, false},
		"of another attempt":    {func(g *Gathered) { g.Seen.Key.Attempt++ }, false, false},
		"due at another time":   {func(g *Gathered) { g.due = g.due.Add(1000) }, true, true},
		"asked for once before": {func(g *Gathered) { g.Seen.Woken = true }, true, true},
	} {
		judged := seen
		c.edit(&judged)
		fresh, err := s.service.gatherAgain(t.Context(), judged, taken)
		if err != nil || fresh.Seen.IDTaken != c.taken || fresh.Seen.Woken != c.woken {
			t.Errorf("%s: taken is %t, woken is %t, %v", name, fresh.Seen.IDTaken, fresh.Seen.Woken, err)
		}
	}
	other := seen.Seen.Own
	other.Subject = uuid.Must(uuid.NewV7())
	if g, err := s.service.Gather(t.Context(), other); !errors.Is(err, errNotOurs) {
		t.Errorf("of a payment that is not there, %+v is read, %v", g, err)
	}
}

// A database that does not answer has not said that the key is gone, or that a record is about nothing of ours.
func TestKeyThatIsNotReadIsNotGone(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	g := s.charging("order-0000000001").lost().windowPasses()
	proxy.On("FindKey", pgproxy.CutBefore)
	effect, err := s.service.ApplyRecord(t.Context(), judge.Record{Source: judge.SourceWebhook, Record: g.record})
	if err == nil {
		t.Errorf("the record came to %T", effect)
	}
	s.wantDeadLetters()
	due := idempotency.Due{Ref: g.reservation.Ref, Generation: 1}
	cut := proxy.On("FindKey", pgproxy.CutBefore)
	if _, err := s.service.GatherDue(t.Context(), due); err == nil || errors.Is(err, idempotency.ErrNoKey) {
		t.Errorf("a key that was not read: %v", err)
	}
	cut.Await(t)
}

// Only a record that refers to another payment needs a question to the database.
func TestRecordOfTheKeysOwnPaymentNeedsNoQuestion(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	proxy := s.proxied()
	g := s.charging("order-0000000001").lost()
	bare, strange, unknown := as("psp_bare", g.record), as("psp_strange", g.record), as("psp_unknown", g.record)
	bare.Reference, strange.Reference = "", "order 42"
	unknown.Reference = payment.ID(uuid.Must(uuid.NewV7())).String()
	ask := func(records ...gateway.Record) []string {
		psp.onLookup(finds(records...))
		answer, others, _, err := s.service.Ask(t.Context(), g.gathers(), gateway.EndNothing)
		if err != nil || len(others) != 0 {
			t.Fatal(others, err)
		}
		return idsOf(is[gateway.Found](t, answer).Records)
	}
	if ids := ask(g.record, bare, strange); len(ids) != 3 || proxy.Sent("OtherMovementsOfKey") != 0 {
		t.Errorf("%q, after %d questions", ids, proxy.Sent("OtherMovementsOfKey"))
	}
	if ids := ask(g.record, bare, unknown); len(ids) != 3 || proxy.Sent("OtherMovementsOfKey") != 1 {
		t.Errorf("%q, after %d questions", ids, proxy.Sent("OtherMovementsOfKey"))
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
	if result, err := s.lookUpDue(t.Context(),
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

// Without a reference, a record is found by its key. What we ask for always has one: so it is an operator's case, about
// that key.
func TestRecordWithoutAReferenceIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	first := s.charging("order-0000000001").failed()
	lease := first.expired().reserve(first.again())
	p := s.charging("paid-00000000001").paidFor()
	refund := s.refunding("refund-000000001", p, 100).lost()
	for r, want := range map[gateway.Record]idempotency.Lease{
		{Object: gateway.ChargeObject, Key: "order-0000000001.g2"}:                       lease,
		{Object: gateway.RefundObject, Key: "refund-000000001", ChargeID: p.PSPChargeID}: refund.lease,
	} {
		r.ID, r.Account, r.AmountMinor, r.Currency, r.Status = "psp_1", "acme", 100, "USD", "succeeded"
		if l := is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, r)); l.Kind != deadletters.PSPContradicts {
			t.Errorf("%s: dead letter %s", r.Key, l.Kind)
		}
		if n := s.count("SELECT count(*) FROM dead_letters WHERE subject = $1 AND generation = $2", want.Subject,
			want.Generation); n != 1 {
			t.Errorf("%s: %d dead letters about it", r.Key, n)
		}
	}
}

func TestRecordOfNothingOfOursIsADeadLetterWithoutAKey(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost()
	want := []string{}
	for id, change := range map[string]func(*gateway.Record){
		"psp_reference":       func(r *gateway.Record) { r.Reference = payment.ID(uuid.Must(uuid.NewV7())).String() },
		"psp_words":           func(r *gateway.Record) { r.Reference = "order 42" },
		"psp_other_object":    func(r *gateway.Record) { r.Reference = payment.RefundID(g.lease.Subject).String() },
		"psp_no_such_key":     func(r *gateway.Record) { r.Reference, r.Key = "", "order-0000000002" },
		"psp_no_key":          func(r *gateway.Record) { r.Reference, r.Key = "", "" },
		"psp_next_generation": func(r *gateway.Record) { r.Reference = ""; r.Key += ".g2" },
		"psp_first_as_g1":     func(r *gateway.Record) { r.Reference = ""; r.Key += ".g1" },
		"psp_other_tenant":    func(r *gateway.Record) { r.Reference, r.Account = "", "globex" },
		"psp_no_tenant":       func(r *gateway.Record) { r.Reference, r.Account = "", "initech" },
		"psp_other_operation": func(r *gateway.Record) { r.Reference, r.Object = "", gateway.RefundObject },
	} {
		r := as(id, g.record)
		change(&r)
		if l := is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, r)); l.Kind != deadletters.UnknownMovement {
			t.Errorf("%s: dead letter %s", id, l.Kind)
		}
		name := "record"
		if r.Object == gateway.RefundObject {
			name = "refund record"
		}
		finding := "unknown_movement " + name + " " + r.Account + " " + id
		if id != "psp_no_key" && id != "psp_no_tenant" && id != "psp_first_as_g1" { // These name no key of ours.
			finding += " key " + r.Key
		}
		want = append(want, finding)
	}
	s.wantDeadLetters(want...)
	// They name the key under which the money moved, and no payment.
	if n := s.count("SELECT count(*) FROM dead_letters WHERE key IS NOT NULL AND subject IS NULL"); n != 7 {
		t.Errorf("%d dead letters name a key", n)
	}
	g.wantTimeline("owner in_progress>unknown")
}
