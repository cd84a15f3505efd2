package statement

import (
	"slices"
	"strings"
	"testing"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/payment"
)

// sharedPSP is a PSP whose accounts have records of other programs, too.
type sharedPSP struct{ gateway.PSP }

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
			d.config.PSPs = gateway.PSPs{native.Name: sharedPSP{d.config.PSPs.Of(native.Name)}}
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
