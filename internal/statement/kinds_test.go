package statement

import (
	"errors"
	"testing"

	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/payments"
)

func refund(m *movement) { m.object = gateway.RefundObject }

func globex(m *movement) { m.tenant = "globex" }

func TestBooksThatAgreeHaveNoBreaks(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.publish("acct_acme", d.day, lineOf(d.paid("ch_1", 1)), lineOf(d.paid("ch_2", 12)),
		lineOf(d.paid("rf_1", 13, refund)))
	d.paid("ch_declined", 14, func(m *movement) { m.status = "declined" })
	d.paid("", 15, func(m *movement) { m.status = "failed" })
	d.paid("", 16, func(m *movement) { m.status, m.finished = "processing", nil })
	if s := d.run(); s.Lines != 3 || s.Breaks != 0 || s.Pending != 2 || s.Partial {
		t.Fatalf("%+v", s)
	}
	d.want()
}

// planting makes rows of ours and the lines about them, which show these breaks.
type planting struct {
	plant func(d *fixture) []line
	want  []string
}

// find plants each in a fixture of its own, with movements that agree.
func find(t *testing.T, plantings map[string]planting) {
	t.Parallel()
	for name, c := range plantings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			lines := append(c.plant(d), lineOf(d.paid("ch_good", 6)), lineOf(d.paid("rf_good", 7, refund)))
			d.publish("acct_acme", d.day, lines...)
			s := d.run()
			d.want(c.want...)
			if s.Breaks != int64(len(c.want)) || s.New != s.Breaks {
				t.Fatalf("%+v", s)
			}
		})
	}
}

func TestEveryKindOfBreakIsFound(t *testing.T) {
	find(t, map[string]planting{
		"nothing of ours": {func(d *fixture) []line {
			return []line{{id: "ch_x", object: gateway.ChargeObject, amount: 5, currency: "EUR", status: "succeeded",
				created: d.at(2)}}
		}, []string{"missing_here ch_x"}},
		"a reference that could be ours": {func(d *fixture) []line {
			return []line{lineOf(movement{object: gateway.ChargeObject, psp: "ch_x", currency: "USD",
				id: payments.FirstIDAt(d.at(2)), created: d.at(2)})}
		}, []string{"missing_here ch_x"}},
		"another tenant's": {func(d *fixture) []line {
			return []line{lineOf(d.paid("ch_g", 2, globex))}
		}, []string{"missing_here ch_g"}},
		"not in the statement": {func(d *fixture) []line { d.paid("ch_m", 3); return nil },
			[]string{"missing_there ch_m"}},
		"a refund not in it": {func(d *fixture) []line { d.paid("rf_m", 3, refund); return nil },
			[]string{"missing_there rf_m"}},
		"a charge named as a refund's": {swapped, []string{"missing_here ch_1", "missing_there ch_1"}},
		"another amount":               {edited(func(l *line) { l.amount++ }), []string{"amount ch_1"}},
		"another currency":             {edited(func(l *line) { l.currency = "EUR" }), []string{"currency ch_1"}},
		"both": {edited(func(l *line) { l.currency, l.amount = "EUR", 1 }),
			[]string{"amount ch_1", "currency ch_1"}},
		"a decline of ours": {edited(func(l *line) { l.status = "declined" }), []string{"status ch_1"}},
		"a decline, of much else": {edited(func(l *line) {
			l.status, l.id, l.amount, l.currency = "declined",
				"ch_other", 1, "EUR"
		}), []string{"status ch_other"}},
		"another id":        {edited(func(l *line) { l.id = "ch_other" }), []string{"psp_id ch_other"}},
		"another reference": {edited(func(l *line) { l.reference = "order 42" }), []string{"psp_id ch_1"}},
		"declined here":     {planted("declined"), []string{"status ch_1"}},
		"declined here under an id": {func(d *fixture) []line {
			m := d.paid("ch_1", 4, func(m *movement) { m.status = "declined" })
			return []line{lineOf(m, func(l *line) { l.id = "ch_2" })}
		}, []string{"status ch_2"}},
		"failed here":     {planted("failed"), []string{"status ch_1"}},
		"processing here": {planted("processing"), []string{"status ch_1"}},
	})
}

func TestLinesAboutTheSameAreDuplicates(t *testing.T) {
	find(t, map[string]planting{
		"the line twice": {func(d *fixture) []line {
			l := lineOf(d.paid("ch_1", 4))
			return []line{l, l, l}
		}, []string{"duplicate ch_1"}},
		"two charges for one payment": {func(d *fixture) []line {
			m := d.paid("ch_1", 4)
			return []line{lineOf(m, func(l *line) { l.id = "ch_again" }), lineOf(m)}
		}, []string{"duplicate ch_again"}},
		"two refunds for one of ours": {func(d *fixture) []line {
			m := d.paid("rf_1", 4, refund)
			return []line{lineOf(m), lineOf(m, func(l *line) { l.id = "rf_again" })}
		}, []string{"duplicate rf_again"}},
		"one charge for two payments": {func(d *fixture) []line {
			return []line{lineOf(d.paid("ch_1", 4)), lineOf(d.paid("ch_2", 5), func(l *line) { l.id = "ch_1" })}
		}, []string{"duplicate ch_1", "psp_id ch_1"}},
		"one charge for one of ours and none": {func(d *fixture) []line {
			l := lineOf(d.paid("ch_1", 4), func(l *line) { l.id = "ch_x" })
			other := l
			other.reference = "order 42"
			return []line{l, other}
		}, []string{"duplicate ch_x", "psp_id ch_x"}},
		"charged and declined under two ids": {func(d *fixture) []line {
			m := d.paid("ch_1", 4)
			return []line{lineOf(m), lineOf(m, func(l *line) { l.id, l.status = "ch_no", "declined" })}
		}, nil},
		"charged again where it was declined": {func(d *fixture) []line {
			m := d.paid("ch_1", 4)
			return []line{lineOf(m, func(l *line) { l.status = "declined" }),
				lineOf(m, func(l *line) { l.id = "ch_new" })}
		}, []string{"psp_id ch_new"}},
		"a duplicate unlike the first": {func(d *fixture) []line {
			m := d.paid("ch_1", 4)
			return []line{lineOf(m), lineOf(m, func(l *line) { l.id, l.amount, l.currency = "ch_again", 1, "EUR" })}
		}, []string{"duplicate ch_again"}},
		"nothing of ours, twice": {func(d *fixture) []line {
			l := line{id: "ch_x", object: gateway.ChargeObject, amount: 5, currency: "EUR", status: "succeeded",
				created: d.at(2)}
			return []line{l, l}
		}, []string{"duplicate ch_x", "missing_here ch_x"}},
		"ids exchanged": {func(d *fixture) []line {
			a, b := d.paid("ch_1", 4), d.paid("ch_2", 5)
			return []line{lineOf(a, func(l *line) { l.id = "ch_2" }), lineOf(b, func(l *line) { l.id = "ch_1" })}
		}, []string{"psp_id ch_1", "psp_id ch_2"}},
		"a decline of nothing of ours": {func(d *fixture) []line {
			return []line{{id: "ch_x", object: gateway.ChargeObject, amount: 5, currency: "EUR", status: "declined",
				created: d.at(2)}}
		}, nil},
	})
}

// edited plants a payment of which the statement says something else.
func edited(edit func(*line)) func(*fixture) []line {
	return func(d *fixture) []line { return []line{lineOf(d.paid("ch_1", 4), edit)} }
}

// planted makes a payment of which we do not know that it succeeded.
func planted(status string) func(*fixture) []line {
	return func(d *fixture) []line {
		m := d.paid("", 4, func(m *movement) { m.status, m.finished = status, nil })
		return []line{lineOf(m, func(l *line) { l.id = "ch_1" })}
	}
}

func swapped(d *fixture) []line {
	return []line{lineOf(d.paid("ch_1", 4), func(l *line) { l.object = gateway.RefundObject })}
}

func TestBreakSaysWhatBothSidesSay(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("ch_1", 4)
	d.publish("acct_acme", d.day, lineOf(m, func(l *line) { l.amount, l.currency = 12001, "USD" }))
	d.run()
	b := d.only()
	if b.Kind != judge.BreakAmount || b.Reference != m.reference() || *b.Subject != m.id ||
		!b.Moved.Equal(m.created) ||
		b.Lines != 1 ||
		*b.Theirs != (judge.Side{AmountMinor: 12001, Currency: "USD", Status: "succeeded"}) ||
		*b.Ours != (judge.Side{AmountMinor: 12000, Currency: "USD", Status: "succeeded", PSPID: "ch_1"}) {
		t.Fatalf("%+v, %+v, %+v", b, b.Theirs, b.Ours)
	}
}

// An operator searches the statement for what it says. Only a movement that no line is about is named by our own id.
func TestBreakOfALineHasTheReferenceOfTheLine(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("ch_1", 4)
	d.publish("acct_acme", d.day, lineOf(m, func(l *line) { l.reference = "order 42" }))
	d.run()
	if b := d.only(); b.Kind != judge.BreakPSPID || b.Reference != "order 42" || *b.Subject != m.id {
		t.Fatalf("%+v", b)
	}
}

// An operator learns whose it is named, and nothing more of it.
func TestAnotherTenantsReferenceIsMissingHere(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("ch_g", 4, globex)
	d.publish("acct_acme", d.day, lineOf(m))
	d.publish("acct_globex", d.day)
	d.run()
	if b := d.only(); b.Kind != judge.BreakMissingHere || !b.OtherTenant || b.Subject != nil || b.Ours != nil ||
		b.Reference != m.reference() {
		t.Fatalf("%+v", b)
	}
	if d.runOf("acct_globex", d.day); len(d.open("acct_globex", d.day)) != 1 {
		t.Fatal("another account's line stood for our own")
	}
}

// Only the reference says whose a line is. The PSP's id alone is looked for among the tenant's own.
func TestAnotherTenantsPSPIDIsNoReference(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.publish("acct_acme", d.day, lineOf(d.paid("ch_g", 4, globex), func(l *line) { l.reference = "order 42" }))
	d.run()
	if b := d.only(); b.Kind != judge.BreakMissingHere || b.OtherTenant {
		t.Fatalf("%+v", b)
	}
}

func TestWhatIsMissingThereIsNamedByOurID(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("rf_1", 4, refund)
	d.publish("acct_acme", d.day)
	d.run()
	b := d.only()
	if b.Reference != m.reference() || b.PSPID != "rf_1" || b.Theirs != nil || b.Ours.AmountMinor != 12000 ||
		!b.Moved.Equal(m.created) {
		t.Fatalf("%+v", b)
	}
}

func TestReportWithBreaksIsNoSuccess(t *testing.T) {
	t.Parallel()
	if err := (Report{Runs: []Summary{{}, {Breaks: 1}}}).Err(); !errors.Is(err, ErrBreaks) {
		t.Fatal(err)
	}
	if err := (Report{Runs: []Summary{{Pending: 1, Gone: 1}}}).Err(); err != nil {
		t.Fatal(err)
	}
}
