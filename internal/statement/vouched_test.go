package statement

import "testing"

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
