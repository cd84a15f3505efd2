package invariants

import (
	"fmt"
	"slices"

	"payonce/internal/idempotency"
)

// silenced reports whether the PSP has executed it, and has answered the first request with no verdict.
func (e Entry) silenced() bool {
	return slices.Contains([]string{"pm_timeout_charged", "pm_silent_charged", "pm_500_charged", "pm_reset_charged",
		"pm_late_charge", "pm_stuck", "pm_forgotten_key"}, e.Fault)
}

// honest reports whether the PSP has told of it what its ledger says, to everybody it has told anything.
func (e Entry) honest() bool {
	return e.silenced() || slices.Contains([]string{"pm_ok", "pm_declined", "pm_slow", "pm_timeout_not_charged",
		"pm_500_not_charged", wrongAmount, "pm_requires_action", "pm_bank_debit", "pm_bank_debit_fails"}, e.Fault)
}

// silent is the part of I8 about a line that is not there. Only the owner completes a key without one, and it needs the
// PSP's verdict for it. If the only attempt was never given one, somebody else has completed it, and has left no line.
func silent(w world) []Violation {
	told := map[keyGeneration]bool{}
	for _, e := range w.books.events {
		if e.To == string(idempotency.CompletedStatus) && e.From != e.To {
			told[keyGeneration{keyName{e.Tenant, e.Operation, e.Key}, e.Generation}] = true
		}
	}
	var found []Violation
	for _, e := range slices.Concat(w.ledger.Charges, w.ledger.Refunds) {
		m := w.books.subjectOf(e)
		// At Stripe, an owner without an answer reads the intent. Only one that cannot be read is silent.
		if m == nil || !e.silenced() ||
			w.books.psps[m.Tenant] == stripePSP && m.PaymentID == nil && e.Fault != "pm_stuck" {
			continue
		}
		name := m.keyName()
		k := w.books.lives[m.ID]
		if k == nil || k.Subject != m.ID || k.Attempt != 1 || k.Status != string(idempotency.CompletedStatus) ||
			told[keyGeneration{name, k.Generation}] {
			continue
		}
		found = append(found, Violation{"I8", name.String(),
			fmt.Sprintf("completed without a line, and its owner never had the PSP's answer (%s)", e.Fault)})
	}
	return found
}
