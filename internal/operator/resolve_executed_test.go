package operator

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments"
)

func (f *fixture) pspID() string {
	f.t.Helper()
	return scan[string](f, "SELECT coalesce(psp_charge_id, '') FROM payments WHERE idempotency_key = $1", clientKey)
}

// completed checks that the client is answered with a payment that has succeeded under this id of the PSP's.
func (f *fixture) completed(pspID string) {
	f.t.Helper()
	answer, ok := f.pay(scan[string](f, "SELECT payment_method FROM payments WHERE idempotency_key = $1",
		clientKey)).(payments.Final)
	if !ok || answer.Response.Status != 201 || !answer.Replayed ||
		!strings.Contains(string(answer.Response.Body), `"pspChargeId":"`+pspID+`"`) {
		f.t.Fatalf("client is answered %+v %s", answer, answer.Response.Body)
	}
}

func TestExecutedTakesThePSPsOwnID(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.lost("pm_ok")
	entry := o.done(decision(l, deadletters.Executed))
	id := o.pspID()
	if !strings.HasPrefix(id, "ch_") || entry.PaymentOrRefund == nil ||
		entry.PaymentOrRefund.Status != payment.Succeeded {
		t.Fatalf("id %q, entry %+v", id, entry.PaymentOrRefund)
	}
	o.completed(id)
}

func TestExecutedWithAnotherAmountIsTheOperatorsToDecide(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.lost("pm_wrong_amount")
	o.done(decision(l, deadletters.Executed))
	if id := o.pspID(); !strings.HasPrefix(id, "ch_") {
		t.Fatalf("id is %q", id)
	}
	o.completed(o.pspID())
}

func TestExecutedByTheOperatorsWordWhereThePSPIsSilent(t *testing.T) {
	t.Parallel()
	const answered = `"account": "acme", "idempotencyKey": "` + clientKey +
		`", "amountCents": 12000, "status": "succeeded"}`
	for name, row := range map[string]struct {
		evidence, named, want string
	}{
		"named": {`{"answer": {"id": "ch_answer"}}`, "ch_named", payment.OperatorPSPID + "ch_named"},
		"named, and in the answer": {`{"status": 201, "answer": {"id": "ch_answer", ` + answered + `}`, "ch_answer",
			"ch_answer"},
		"from the answer": {`{"status": 201, "answer": {"id": "ch_answer", ` + answered +
			`, "record": {"id": "ch_record"}}`, "", "ch_answer"},
		"from the record": {`{"source": "webhook", "record": {"id": "ch_record"}, "id": "ch_whole"}`, "",
			payment.OperatorPSPID + "ch_record"},
		"from the record, by our key": {`{"record": {"id": "ch_record", "idempotencyKey": "` + clientKey + `"}}`, "",
			"ch_record"},
		"from the evidence itself": {`{"id": "ch_whole", "status": "succeeded"}`, "",
			payment.OperatorPSPID + "ch_whole"},
		"vouched for": {`{}`, "", payment.OperatorPSPID},
		"evidence of a refusal": {`{"answer": {"id": "ch_answer", "status": "declined"}}`, "",
			payment.OperatorPSPID},
		"evidence of another key": {`{"record": {"id": "ch_record", "idempotencyKey": "another-key-000001"}}`, "",
			payment.OperatorPSPID},
		"evidence of another payment": {
			`{"record": {"id": "ch_record", "reference": "pay_00000000000000000000000000"}}`, "",
			payment.OperatorPSPID},
		"evidence with no id": {`{"answer": {"id": "two words"}, "record": {"id": ""}}`, "",
			payment.OperatorPSPID},
		"evidence of another form":   {`{"answer": "ch_answer", "record": [], "id": 7}`, "", payment.OperatorPSPID},
		"evidence that is no object": {`[{"id": "ch_1"}]`, "", payment.OperatorPSPID},
		"refused answer, named record": {
			`{"answer": {"id": "ch_answer", "status": "declined"}, "record": {"id": "ch_record"}}`, "",
			payment.OperatorPSPID + "ch_record"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			o.lost("pm_ok")
			o.deaf.Store(true)
			l := o.put(o.about(deadletters.PSPContradicts, row.evidence))
			d := decision(l, deadletters.Executed)
			d.PSPID = row.named
			o.done(d)
			want := row.want
			if want == payment.OperatorPSPID {
				want += l.ID.String()
			}
			if id := o.pspID(); id != want {
				t.Fatalf("id is %q, want %q", id, want)
			}
			o.completed(want)
		})
	}
}

// What the PSP does not find may be there all the same: it may have forgotten, or the request may still arrive. But an
// answer that proves the opposite is not overruled.
func TestExecutedByTheOperatorsWordWhereThePSPFindsNothing(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		after   string // how long ago the key was reserved, and became unknown
		refused bool
	}{
		"within the grace period": {"0 s", false}, "after the grace period": {"1 h", true},
		"beyond the PSP's memory": {"25 h", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			l := o.lost("pm_500_not_charged")
			o.exec("ALTER TABLE idempotency_keys DISABLE TRIGGER USER")
			o.exec(`UPDATE idempotency_keys SET unknown_since = unknown_since - $1::interval,
				reserved_at = reserved_at - $1::interval`, row.after)
			o.exec("ALTER TABLE idempotency_keys ENABLE TRIGGER USER")
			if row.refused {
				o.refused(decision(l, deadletters.Executed), judge.ContradictsPSP)
				o.done(decision(l, deadletters.NotExecuted))
				return
			}
			o.done(decision(l, deadletters.Executed))
			o.completed(payment.OperatorPSPID + l.ID.String())
		})
	}
}

// The PSP has made the charge under another key, and has said so: its lookup by our key finds nothing.
func TestEvidenceOfAnExecutionRefusesNotExecuted(t *testing.T) {
	t.Parallel()
	o := setup(t)
	first := o.lost("pm_500_not_charged")
	o.windowOver()
	l := o.about(deadletters.PSPContradicts, `{"record": {"id": "ch_record", "idempotencyKey": "another-key-000001",
		"reference": "`+payment.ID(*first.Subject).String()+`", "status": "succeeded"}}`)
	l.Finding += " record ch_record"
	o.put(l)
	o.done(decision(first, deadletters.Dismiss))
	if detail := o.refused(decision(l, deadletters.NotExecuted), judge.ContradictsPSP); !strings.Contains(detail,
		"ch_record") {
		t.Errorf("detail is %q", detail)
	}
	o.done(decision(l, deadletters.Executed))
}

func TestNobodyOverrulesThePSPsRefusal(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.lost("pm_declined")
	o.windowOver()
	d := decision(l, deadletters.Executed)
	for _, d.PSPID = range []string{"", "ch_named"} {
		if detail := o.refused(d, judge.ContradictsPSP); !strings.Contains(detail, "Use retry") {
			t.Errorf("detail is %q", detail)
		}
	}
	o.refused(decision(l, deadletters.NotExecuted), judge.ContradictsPSP)
}

func TestExecutedUnderAnotherIDThanThePSPsIsRefused(t *testing.T) {
	t.Parallel()
	o := setup(t)
	d := decision(o.lost("pm_ok"), deadletters.Executed)
	d.PSPID = "ch_named"
	if detail := o.refused(d, judge.ContradictsPSP); !strings.Contains(detail, "not as ch_named") {
		t.Errorf("detail is %q", detail)
	}
}

func TestExecutedUnderTheIDOfAnotherPaymentIsRefused(t *testing.T) {
	t.Parallel()
	o := setup(t)
	d := decision(o.lost("pm_ok"), deadletters.Executed)
	o.deaf.Store(true)
	o.exec(`INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status, psp_charge_id)
		VALUES (gen_random_uuid(), 'acme', 'another-key-000001', 1, 'cus-1', 12000, 'USD', 'pm_ok', 'succeeded', 'ch_taken')`)
	d.PSPID = "ch_taken"
	o.refused(d, judge.ContradictsPSP)
}

func TestNotExecutedFreesTheKey(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.lost("pm_500_not_charged")
	o.windowOver()
	entry := o.done(decision(l, deadletters.NotExecuted))
	if entry.PaymentOrRefund == nil || entry.PaymentOrRefund.Status != payment.Failed {
		t.Fatalf("entry is %+v", entry.PaymentOrRefund)
	}
	c := o.show(l.ID)
	if last := c.Timeline[len(c.Timeline)-1]; c.Key != idempotency.FailedRetryableStatus || last.Actor != "operator" {
		t.Fatalf("key is %s, last line %+v", c.Key, last)
	}
	if answer, ok := o.pay("pm_500_not_charged").(payments.Final); !ok || answer.Replayed ||
		answer.Response.Status != 201 {
		t.Fatalf("the client's retry is not executed again: %T", answer)
	}
}

func TestNotExecutedIsRefusedWhereThePSPKnowsIt(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"pm_ok", "pm_wrong_amount"} {
		o := setup(t)
		l := o.lost(method)
		o.windowOver()
		if detail := o.refused(decision(l, deadletters.NotExecuted), judge.ContradictsPSP); !strings.Contains(detail,
			"ch_") {
			t.Errorf("detail is %q", detail)
		}
	}
}

func TestNotExecutedNeedsThePSPsWordOfNow(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.lost("pm_500_not_charged")
	o.windowOver()
	o.deaf.Store(true)
	o.refused(decision(l, deadletters.NotExecuted), judge.NoFreshProof)
	o.deaf.Store(false)
	o.done(decision(l, deadletters.NotExecuted))
}

func TestNotExecutedNeedsTheGracePeriodToBeOver(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.lost("pm_500_not_charged")
	o.refused(decision(l, deadletters.NotExecuted), judge.GraceOpen)
	o.windowOver()
	o.done(decision(l, deadletters.NotExecuted))
}

// The PSP may have forgotten a key that is this old; an operator may know better.
func TestNotExecutedWorksBeyondThePSPsMemory(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.lost("pm_500_not_charged")
	o.exec("ALTER TABLE idempotency_keys DISABLE TRIGGER USER")
	o.exec("UPDATE idempotency_keys SET unknown_since = unknown_since - interval '25 hours', reserved_at = reserved_at - interval '25 hours'")
	o.exec("ALTER TABLE idempotency_keys ENABLE TRIGGER USER")
	o.done(decision(l, deadletters.NotExecuted))
}

func TestNotExecutedWaitsForTheOtherDeadLettersOfTheKey(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.lost("pm_500_not_charged")
	o.windowOver()
	other := o.put(o.about(deadletters.PSPMemoryOver, `{}`))
	if detail := o.refused(decision(l, deadletters.NotExecuted), judge.NotApplicable); !strings.Contains(detail,
		other.ID.String()) {
		t.Errorf("detail is %q", detail)
	}
	o.done(decision(other, deadletters.Retry))
	o.done(decision(l, deadletters.NotExecuted))
}

func TestOnlyAnUnknownKeyCanBeDecidedAbout(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.pay("pm_ok")
	renewed := o.about(deadletters.LateAfterExpiry, `{}`)
	renewed.About.Generation = 2
	gone := o.about(deadletters.PSPMemoryOver, `{}`)
	gone.About.Key = "another-key-000001"
	gone.Finding = gone.About.KeyFinding(*gone.Subject)
	for name, l := range map[string]deadletters.DeadLetter{
		"completed":          o.about(deadletters.ContradictsCompleted, `{}`),
		"another generation": renewed,
		"gone":               gone,
		"about none":         alone(deadletters.UnknownMovement, record),
	} {
		o.put(l)
		for _, action := range []deadletters.Action{deadletters.Executed, deadletters.NotExecuted} {
			t.Log(name, action)
			o.refused(decision(l, action), judge.NotApplicable)
		}
	}
}

// completeMeanwhile completes the key as another process would do at the same moment.
func (f *fixture) completeMeanwhile() {
	f.exec("UPDATE idempotency_keys SET status = 'completed', reconcile_after = NULL, unknown_since = NULL, finished_at = clock_timestamp(), " +
		"response_status = 201, response_content_type = 'x', response_location = 'x', response_schema_version = 1, response_body = 'x'")
}

// Between the question and the answer's being written, somebody may have been faster.
func TestKeyThatMovesMeanwhileIsAConflict(t *testing.T) {
	t.Parallel()
	for _, action := range []deadletters.Action{deadletters.Executed, deadletters.NotExecuted} {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			l := o.lost("pm_500_not_charged")
			o.windowOver()
			o.asked = o.completeMeanwhile
			if no := o.resolve(decision(l, action)).Refused; no == nil || no.Ground != judge.Conflict {
				t.Fatalf("refused is %+v", no)
			}
			if c := o.show(l.ID); c.Status() != deadletters.OpenStatus || len(c.AuditTrail) != 1 ||
				c.AuditTrail[0].Outcome != "refused" {
				t.Fatalf("case is %+v", c)
			}
		})
	}
}

func TestRefundIsDecidedAboutLikeAPayment(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.lostRefund("pm_ok")
	if c := o.show(l.ID); c.PaymentOrRefund == nil || c.PaymentOrRefund.Object != "refund" ||
		c.PaymentOrRefund.Status != payment.Processing {
		t.Fatalf("case is %+v", c.PaymentOrRefund)
	}
	entry := o.done(decision(l, deadletters.Executed))
	id := scan[string](o, "SELECT psp_refund_id FROM refunds WHERE status = 'succeeded'")
	if !strings.HasPrefix(id, "re_") && !strings.HasPrefix(id, "rf_") ||
		entry.PaymentOrRefund.Status != payment.Succeeded {
		t.Fatalf("id %q, entry %+v", id, entry.PaymentOrRefund)
	}
}

// The PSP has answered another payment with the id of this one. Its own record still says that this one was executed.
func TestExecutedWhereAnotherPaymentHasGoneByItsIDIsVouchedFor(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{false, true} {
		o := setup(t)
		l := o.lost("pm_ok")
		own := o.own(l)
		o.exec(`INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status, psp_charge_id)
			VALUES (gen_random_uuid(), 'acme', 'another-key-000001', 1, 'cus-1', 12000, 'USD', 'pm_wrong_id', 'succeeded', $1)`, own)
		d := decision(l, deadletters.Executed)
		if named {
			d.PSPID = own
		}
		o.done(d)
		o.completed(payment.OperatorPSPID + l.ID.String())
	}
}

// own is the PSP's id of the dead letter's movement.
func (f *fixture) own(l deadletters.DeadLetter) string {
	f.t.Helper()
	charge := gateway.Charge{Account: "acme", Key: l.About.Key}
	found, _ := f.psp.Lookup(f.t.Context(), charge, gateway.EndNothing).(gateway.Found)
	for _, r := range found.Records {
		if r.Reference == payment.ID(*l.Subject).String() {
			return r.ID
		}
	}
	f.t.Fatalf("the PSP has %+v", found.Records)
	return ""
}

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
