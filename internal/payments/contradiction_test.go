package payments

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// resolveDeadLetter closes the only open dead letter as an operator does.
func (s *shop) resolveDeadLetter(action deadletters.Action) {
	s.t.Helper()
	s.resolveDeadLetterThat("true", action)
}

// resolveDeadLetterThat closes the only open dead letter of which a condition is true.
func (s *shop) resolveDeadLetterThat(condition string, action deadletters.Action) {
	s.t.Helper()
	var id uuid.UUID
	var version int32
	if err := s.pool.QueryRow(s.t.Context(), "SELECT id, version FROM dead_letters WHERE status = 'open' AND "+
		condition).Scan(&id, &version); err != nil {
		s.t.Fatal(err)
	}
	err := pgx.BeginFunc(s.t.Context(), s.pool, func(tx pgx.Tx) error {
		_, err := deadletters.ResolveTx(s.t.Context(), tx, deadletters.Decision{DeadLetter: id, Version: version,
			Action: action, Actor: "mallory", Reason: "looked into it"})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
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

// A finding that an operator has judged opens no new dead letter, unless the operator asked for a retry.
func TestFindingThatWasJudgedIsNoNewCase(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").succeeded()
	again := func(isNew bool) {
		t.Helper()
		if l := is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, executedTwice.record(g))); l.New != isNew {
			t.Errorf("found as new: %v", l.New)
		}
	}
	finding := "duplicate_movement record acme " + g.record.ID + "-2"
	again(true)
	again(false)
	s.wantDeadLetters(finding)
	s.resolveDeadLetter(deadletters.Retry)
	again(true)
	again(false)
	s.wantDeadLetters(finding, finding)
	s.resolveDeadLetter(deadletters.Dismiss)
	again(false)
	s.wantDeadLetters(finding, finding)
	// A third execution is another case.
	is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, as("psp_third", g.record)))
	s.wantDeadLetters(finding, finding, "duplicate_movement record acme psp_third")
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

// A second charge that nobody asked for is money that moved, whatever was decided about the first.
func TestSecondStrayChargeOfAKeyIsACaseOfItsOwn(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001")
	psp.onLookup(finds(as("psp_stray_1", otherAmount.record(g))))
	g.lost().windowPasses().resolves(ToOperator)
	want := []string{contradicts(g, "psp_stray_1")}
	for _, source := range []judge.Source{judge.SourceWebhook, judge.SourceScan, judge.SourceLookup} {
		s.resolveDeadLetter(deadletters.Dismiss)
		id := "psp_stray_by_" + string(source)
		if source == judge.SourceLookup {
			psp.onLookup(finds(as(id, otherAmount.record(g))))
			g.resolves(ToOperator)
		} else {
			is[DeadLettered](t, s.evidenceBy(source, as(id, otherAmount.record(g))))
		}
		want = append(want, contradicts(g, id))
		s.wantDeadLetters(want...)
	}
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
		if !g.gathers().seen.Held {
			t.Errorf("%s waits for no operator", key)
		}
		want = append(want, contradicts(g, paid.record.ID))
	}
	s.wantDeadLetters(want...)
}

// While an open dead letter says that money moved, nobody is told that the payment was declined.
func TestDeclineBesideMovedMoneyIsForAnOperator(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	for i, source := range []judge.Source{judge.SourceWebhook, judge.SourceScan, judge.SourceLookup} {
		g := s.charging("order-000000000" + string(rune('1'+i))).lost().windowPasses()
		is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, as("psp_stray_"+string(source), otherAmount.record(g))))
		declined := as("psp_declined_"+string(source), declinedAs(g.record, "no_money"))
		for range 2 {
			if source == judge.SourceLookup {
				psp.onLookup(finds(declined))
				g.resolves(ToOperator)
			} else if l := is[DeadLettered](t, s.evidenceBy(source, declined)); l.Kind != deadletters.PSPContradicts {
				t.Errorf("%s: dead letter %s", source, l.Kind)
			}
		}
		g.wantStatus(idempotency.UnknownStatus, 1)
		g.wantMoved(payment.Processing, "")
		if n := s.count("SELECT count(*) FROM dead_letters WHERE finding = $1 AND evidence #>> '{record,status}' = 'declined'",
			strings.TrimPrefix(contradicts(g, declined.ID), "psp_contradicts_request ")); n != 1 {
			t.Errorf("%s: %d dead letters hold the decline", source, n)
		}
		// A retry of the dead letter about the money says that it is seen to: what is left is the decline.
		s.resolveDeadLetterThat("evidence #>> '{record,status}' = 'succeeded'", deadletters.Retry)
		is[Completed](t, s.evidenceBy(judge.SourceWebhook, declined))
		g.wantMoved(payment.Declined, declined.ID)
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
		var out idempotency.GuardResult
		err := postgres.PipelineTx(t.Context(), tx, oneOf(s.keys.Resolve, idempotency.Resolution{
			Execution: row.Execution(), Seen: idempotency.UnknownStatus,
			Note:     idempotency.Note{Actor: "webhook", Reason: "declined"},
			Response: idempotency.Response{Status: c.status, Body: []byte("{}")}, UnlessCharged: c.unlessCharged,
		}, &out))
		if out.Passed != c.passed || (err != nil) != (c.refusal != "") || err != nil &&
			!postgres.Violates(err, c.refusal) {
			t.Errorf("%+v: through %v, %v", c, out.Passed, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// The PSP has answered another payment with the id of this one's decline. That must not keep this one from its answer.
func TestDeclineUnderTheIDOfAnotherPaymentCountsWithoutIt(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	other := s.charging("order-0000000002")
	other.live(other.lease, other.movement, gateway.Succeeded{ID: g.record.ID})
	psp.onLookup(finds(declinedAs(g.record, "no_money")))
	g.resolves(Resolved)
	g.wantMoved(payment.Declined, "")
}
