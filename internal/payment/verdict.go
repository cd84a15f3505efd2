package payment

import (
	"strings"

	"payonce/internal/gateway"
)

// Verdict is the PSP's decision about a movement, or Failed if it is proven that the PSP has executed nothing.
type Verdict struct {
	Status Status
	PSPID  string
	Code   string // the decline code
}

// VerdictOf returns the verdict of an outcome. It is false for an outcome that is not a verdict.
func VerdictOf(o gateway.Outcome) (Verdict, bool) {
	switch o := o.(type) {
	case gateway.Succeeded:
		return Verdict{Status: Succeeded, PSPID: o.ID}, true
	case gateway.Declined:
		return Verdict{Status: Declined, PSPID: o.ID, Code: o.Code}, true
	case gateway.NotExecuted, gateway.Pending, gateway.Indeterminate:
	}
	return Verdict{}, false
}

// ConfirmedBy reports whether another verdict says the same as v. If an operator has vouched for v without knowing the
// PSP's id, any id confirms v.
func (v Verdict) ConfirmedBy(other Verdict) bool {
	return v.Status == other.Status && (v.PSPID == other.PSPID || strings.HasPrefix(v.PSPID, OperatorPSPID))
}
