package operator

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments"
)

// reborn deletes the client's key, and has it pay once more under the same generation: what happened before there were
// tombstones. Dead letters about the key may be open.
func (f *fixture) reborn(method string) payments.Answer {
	f.t.Helper()
	f.exec("SET session_replication_role = replica; DELETE FROM idempotency_keys; DELETE FROM idempotency_key_events; RESET session_replication_role")
	return f.pay(method)
}

// secondPayment is the id of the payment that the key stands for now.
func (f *fixture) secondPayment() uuid.UUID {
	return scan[uuid.UUID](f, "SELECT subject FROM idempotency_keys")
}

func TestDeadLetterAboutAnEarlierPaymentDecidesNothingAboutTheKey(t *testing.T) {
	t.Parallel()
	o := setup(t)
	old := o.lost("pm_ok")
	o.lossy.Store(true)
	o.reborn("pm_ok")
	for _, action := range []deadletters.Action{deadletters.Executed, deadletters.NotExecuted, deadletters.Retry} {
		o.refused(decision(old, action), judge.NotApplicable)
	}
	if c := o.show(old.ID); c.Key != "" {
		t.Errorf("the dead letter's key is shown as %s", c.Key)
	}
	o.done(decision(old, deadletters.Dismiss))
}

func TestExecutedTakesNoChargeOfAnEarlierPayment(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		booked bool // whether the old payment took its charge
		named  bool // whether the operator names it
	}{"booked": {true, false}, "booked, named": {true, true}, "not booked": {false, false},
		"not booked, named": {false, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			if row.booked {
				o.pay("pm_ok")
			} else {
				o.lost("pm_ok")
			}
			charge := o.charged()
			o.reborn("pm_ok") // the PSP knows the key with another reference: unknown
			deadLetter := o.put(o.about(deadletters.LookupsExhausted, `{}`))
			d := decision(deadLetter, deadletters.Executed)
			if row.named {
				d.PSPID = charge
				o.refused(d, judge.ContradictsPSP)
				return
			}
			o.done(d)
			if id := scan[string](o, "SELECT psp_charge_id FROM payments WHERE id = $1",
				o.secondPayment()); !strings.HasPrefix(id, payment.OperatorPSPID) {
				t.Fatalf("it has taken %s, the charge was %s", id, charge)
			}
		})
	}
}

func TestNotExecutedIsNotRefusedForAChargeOfAnEarlierPayment(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.pay("pm_ok")
	o.reborn("pm_ok")
	o.windowOver()
	o.exec("UPDATE dead_letters SET status = 'resolved', version = 2, resolved_at = now(), action = 'retry', actor = 'ann', resolution_reason = 'first'")
	o.done(decision(o.put(o.about(deadletters.LookupsExhausted, `{}`)), deadletters.NotExecuted))
	if status := scan[string](o, "SELECT status FROM idempotency_keys"); status != "failed_retryable" {
		t.Fatalf("the key is %s", status)
	}
}

// Our books do not say that the earlier payment was executed, and the PSP does: money has moved under the key.
func TestNotExecutedIsRefusedForAChargeThatOurBooksDoNotHave(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.lost("pm_ok")
	charge := o.charged()
	o.reborn("pm_ok")
	o.windowOver()
	o.exec("UPDATE dead_letters SET status = 'resolved', version = 2, resolved_at = now(), action = 'retry', actor = 'ann', resolution_reason = 'first'")
	l := o.put(o.about(deadletters.LookupsExhausted, `{}`))
	if detail := o.refused(decision(l, deadletters.NotExecuted), judge.ContradictsPSP); !strings.Contains(detail,
		"lists "+charge+" under this key") {
		t.Errorf("detail is %q", detail)
	}
}

// After a restore, our books know nothing of the payment that the PSP has executed under the key.
func TestNotExecutedIsRefusedForAPaymentThatARestoreHasLost(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.pay("pm_ok")
	charge := o.charged()
	o.reborn("pm_ok")
	o.windowOver()
	o.exec("UPDATE dead_letters SET status = 'resolved', version = 2, resolved_at = now(), action = 'retry', actor = 'ann', resolution_reason = 'first'")
	o.exec("SET session_replication_role = replica; DELETE FROM payments WHERE status = 'succeeded'; RESET session_replication_role")
	l := o.put(o.about(deadletters.LookupsExhausted, `{}`))
	if detail := o.refused(decision(l, deadletters.NotExecuted), judge.ContradictsPSP); !strings.Contains(detail,
		"lists "+charge+" under this key") {
		t.Errorf("detail is %q", detail)
	}
}

// Two dead letters about one key must not wait for each other: one is closed, and the last one takes the decision.
func TestLastDeadLetterAboutAnUnknownKeyTakesTheDecision(t *testing.T) {
	t.Parallel()
	o := setup(t)
	first := o.lost("pm_500_not_charged")
	o.windowOver()
	second := o.put(o.about(deadletters.PSPMemoryOver, `{}`))
	o.refused(decision(first, deadletters.NotExecuted), judge.NotApplicable)
	o.done(decision(second, deadletters.Dismiss))
	o.refused(decision(first, deadletters.Dismiss), judge.NeedsDecision)
	o.done(decision(first, deadletters.NotExecuted))
}
