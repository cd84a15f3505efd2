package statement

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"payonce/demo/mockpsp"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments"
)

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
		"a refund that came back before we knew of its success": {func(d *fixture) []line {
			m := d.paid("rf_1", 4, refund)
			d.exec("ALTER TABLE refunds DISABLE TRIGGER USER")
			d.exec("UPDATE refunds SET status = 'declined', decline_code = 'expired_card' WHERE id = $1", m.id)
			return []line{lineOf(m), lineOf(m, func(l *line) { l.status = "declined" })}
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

// sharedPSP is a PSP whose accounts have records of other programs, too.
type sharedPSP struct {
	gateway.PSP
	gateway.Statements
}

func (p sharedPSP) Traits() gateway.Traits {
	traits := p.PSP.Traits()
	traits.ForeignRecords = true
	return traits
}

// byOthers is a line about a refund that nobody here has asked for.
func (d *fixture) byOthers(id, charge string, edits ...func(*line)) line {
	l := line{id: id, currency: "USD", status: "succeeded", charge: charge, object: gateway.RefundObject, amount: 400,
		created: d.at(10)}
	for _, edit := range edits {
		edit(&l)
	}
	return l
}

// A refund that others have made is a break of the payment that it changes. If the account has other programs, their
// own refunds are none. An object with two lines is one break: its money has left, and has come back.
func TestLineOfOthersIsABreakOfThePaymentThatItChanges(t *testing.T) {
	t.Parallel()
	for shared, want := range map[bool][]string{
		false: {"missing_here rf_named", "missing_here rf_ours", "missing_here rf_ours_back", "missing_here rf_theirs"},
		true:  {"missing_here rf_named", "missing_here rf_ours", "missing_here rf_ours_back"},
	} {
		d := setup(t)
		if shared {
			psp := d.config.PSPs.Of(native.Name)
			d.config.PSPs = gateway.PSPs{native.Name: sharedPSP{psp, gateway.StatementsOf(psp)}}
		}
		paid := d.paid("ch_paid", 9)
		d.publish("acct_acme", d.day, lineOf(paid),
			d.byOthers("rf_ours", "ch_paid"), d.byOthers("rf_ours", "ch_paid"),
			d.byOthers("rf_ours_back", "ch_paid", func(l *line) { l.status = "declined" }),
			d.byOthers("rf_theirs", "ch_theirs"),
			d.byOthers("rf_named", "ch_theirs", func(l *line) { l.reference = "order 42" }))
		d.run()
		if got := d.breaks(); !slices.Equal(got, want) {
			t.Errorf("shared %t: breaks %q", shared, got)
		}
		for _, b := range d.open("acct_acme", d.day) {
			ours := b.PSPID == "rf_ours" || b.PSPID == "rf_ours_back"
			if ours != (b.ChargeID == "ch_paid") {
				t.Errorf("shared %t: %s changes %q", shared, b.PSPID, b.ChargeID)
			}
			if ours != (b.Subject != nil && *b.Subject == paid.id) ||
				(b.Theirs.Status == "declined") != (b.PSPID == "rf_ours_back") {
				t.Errorf("shared %t: %+v, theirs %+v", shared, b, b.Theirs)
			}
		}
	}
}

// What is read by a program or a spreadsheet names the payment, too, also if the line has another reference.
func TestEachFormatNamesThePaymentThatOthersHaveChanged(t *testing.T) {
	t.Parallel()
	for _, reference := range []string{"", "ticket 42"} {
		d := setup(t)
		paid := d.paid("ch_paid", 9)
		d.publish("acct_acme", d.day, lineOf(paid),
			d.byOthers("rf_ours", "ch_paid", func(l *line) { l.reference = reference }),
			d.byOthers("rf_theirs", "ch_theirs"))
		id := payment.ID(paid.id).String()
		for _, f := range []Format{Table, CSV, JSON} {
			if got := d.written(f); strings.Count(got, id) != 1 {
				t.Errorf("%s, reference %q: no %s in\n%s", f, reference, id, got)
			}
		}
	}
}

// An operator has vouched for a payment without its id at the PSP. The PSP's charge for it is the only one.
func TestMovementThatAnOperatorVouchedForIsTheLineAboutIt(t *testing.T) {
	find(t, map[string]planting{
		"charge": {func(d *fixture) []line {
			return []line{lineOf(d.paid("operator:dead letter", 4), func(l *line) { l.id = "ch_real" })}
		}, nil},
		"refund": {func(d *fixture) []line {
			return []line{lineOf(d.paid("operator:dead letter", 4, refund), func(l *line) { l.id = "rf_real" })}
		}, nil},
		"charged twice": {func(d *fixture) []line {
			m := d.paid("operator:dead letter", 4)
			return []line{lineOf(m, func(l *line) { l.id = "ch_real" }), lineOf(m, func(l *line) { l.id = "ch_again" })}
		}, []string{"duplicate ch_again"}},
		"of another amount": {func(d *fixture) []line {
			return []line{lineOf(d.paid("operator:dead letter", 4), func(l *line) { l.id, l.amount = "ch_real", 1 })}
		}, []string{"amount ch_real"}},
		"not in the statement": {func(d *fixture) []line { d.paid("operator:dead letter", 4); return nil },
			[]string{"missing_there operator:dead letter"}},
	})
}

// atMock has the reconciler ask a real mock PSP, whose clock shows the fixture's day.
func (d *fixture) atMock() {
	d.t.Helper()
	config := mockpsp.DefaultConfig()
	config.Secret = pspSecret
	config.Now = func() time.Time { return d.at(12) }
	mock, err := mockpsp.New(config)
	if err != nil {
		d.t.Fatal(err)
	}
	server := httptest.NewServer(mock)
	d.mock = server.URL
	d.t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			d.t.Error(err)
		}
		server.Close()
	})
	psp, err := native.New(server.URL, pspSecret, gateway.DefaultLimits(), nil, time.Now)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(psp.Close)
	d.config.PSPs = gateway.PSPs{native.Name: psp}
}

// charge has the PSP charge for a payment of ours under another id than the one we know, and returns that id.
func (d *fixture) charge(m movement, method string) string {
	d.t.Helper()
	o := d.config.PSPs.Of(native.Name).Charge(d.t.Context(), gateway.Charge{
		Account: "acct_acme", Key: "key-" + m.id.String(), Reference: m.reference(), AmountMinor: m.amount,
		Currency:      m.currency,
		PaymentMethod: method,
	})
	s, ok := o.(gateway.Succeeded)
	if !ok && method == "pm_ok" {
		d.t.Fatalf("outcome %T %+v", o, o)
	}
	return s.ID
}

// The mock's own statement, of a day on which it charged once what we know, and lost, altered, refused and invented
// others.
func TestStatementOfTheMockIsReconciled(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.atMock()
	processing := func(m *movement) { m.status, m.finished = "processing", nil }
	known := d.paid("", 12, processing)
	id := d.charge(known, "pm_ok")
	d.exec("UPDATE payments SET status = 'succeeded', psp_charge_id = $2 WHERE id = $1", known.id, id)
	refunded := d.paid("", 12, refund, processing)
	o := d.config.PSPs.Of(native.Name).Refund(t.Context(), gateway.Refund{
		Account: "acct_acme", Key: "key-" + refunded.id.String(), Reference: refunded.reference(), ChargeID: id,
		AmountMinor: 100,
		Currency:    "USD",
	})
	given, ok := o.(gateway.Succeeded)
	if !ok {
		t.Fatalf("outcome %T %+v", o, o)
	}
	d.exec("UPDATE refunds SET status = 'succeeded', psp_refund_id = $2 WHERE id = $1", refunded.id, given.ID)

	d.charge(d.paid("", 12, processing), "pm_500_charged")
	d.charge(d.paid("", 12, processing), "pm_wrong_amount")
	d.charge(d.paid("", 12, processing), "pm_declined")
	d.charge(movement{
		object: gateway.ChargeObject, id: payments.FirstIDAt(d.at(12)), amount: 5, currency: "USD",
	}, "pm_ok")
	d.paid("ch_invented", 11)

	if s := d.run(); s.Lines != 5 || s.Breaks != 6 {
		t.Fatalf("%+v", s)
	}
	got := map[judge.BreakKind]int{}
	for _, b := range d.open("acct_acme", d.day) {
		got[b.Kind]++
		if b.Kind == judge.BreakAmount && b.Object == gateway.RefundObject && b.Theirs.AmountMinor != 100 {
			t.Errorf("%+v", b)
		}
	}
	// The refund's amount, and the wrong one; what has no outcome here; what nobody asked for; what we invented.
	if got[judge.BreakAmount] != 2 || got[judge.BreakStatus] != 2 ||
		got[judge.BreakMissingHere] != 1 || got[judge.BreakMissingThere] != 1 {
		t.Fatalf("%v", got)
	}
}

// The refund of a payment has the same day, and the payment of another day may have the same id at the PSP. Neither
// shows that a payment is there.
func TestOnlyItsOwnLineShowsThatAMovementIsThere(t *testing.T) {
	t.Parallel()
	d := setup(t)
	there, otherDay, otherObject := d.paid("ch_there", 1), d.paid("ch_other_day", 2), d.paid("ch_other_object", 3)
	d.paid("ch_nowhere", 4)
	j := d.judging()
	d.load(j, []loadedLine{
		{d.day, gateway.ChargeObject, "ch_1", &there.id},
		{d.day, gateway.RefundObject, "ch_2", &otherObject.id},
		{d.previous(), gateway.ChargeObject, "ch_3", &otherDay.id},
	})
	if _, err := j.findAbsent(t.Context(), d.next()); err != nil {
		t.Fatal(err)
	}
	d.wantRows(j, "absent movements", "SELECT psp_id FROM statement_absent",
		"ch_other_day", "ch_other_object", "ch_nowhere")
}
