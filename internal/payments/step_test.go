package payments

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// What an operator is told before the decision is what the decision does.
func TestOperatorIsToldWhatADecisionDoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step Step
		want string
	}{
		"a decline": {Step{To: idempotency.CompletedStatus, Verdict: refusedAs("psp_1")},
			"Complete the key as declined."},
		"a success": {Step{To: idempotency.CompletedStatus, Verdict: paidAs("psp_1")},
			"Complete the key as succeeded, as psp_1."},
		"a release": {Step{To: idempotency.FailedRetryableStatus, Verdict: neverRun()},
			"Release the key, so that the client may try again."},
		"a verdict": {Step{To: idempotency.FailedRetryableStatus, Verdict: refusedAs("")},
			"Release the key, so that the client may try again."},
		"a cancel": {Step{To: idempotency.FailedRetryableStatus, Cancels: true},
			"Have the PSP cancel it, if it still can. Then release the key, so that the client may try again."},
		"a lookup":    {Step{AskAgain: &Wait{}}, "Ask the PSP about the key again, at once."},
		"a webhook":   {Step{Again: &Again{EventID: "evt_1"}}, "Process the webhook evt_1 again."},
		"a job":       {Step{Again: &Again{JobID: 7}}, "Run the job 7 again."},
		"a record":    {Step{Again: &Again{Record: []byte(`{}`)}}, "Judge the PSP's record again."},
		"a giving up": {Step{Forget: "evt_1"}, "Close the dead letter, and give up the webhook evt_1."},
		"no more":     {Step{}, "Close the dead letter. Nothing else is changed."},
	} {
		if got := c.step.Does(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A step is sent to the database if it has anything to write, and passes a guard if it moves the key or its next
// lookup.
func TestEachPartOfAStepIsWritten(t *testing.T) {
	t.Parallel()
	note := idempotency.Note{Actor: "webhook", Reason: "the PSP confirms"}
	about := Case{AboutKey: true}
	for name, c := range map[string]struct {
		step             Step
		guarded, nothing bool
		unguarded        int // calls besides the guard and the dead letter
		outcome          string
	}{
		"nothing":            {Step{}, false, true, 0, "confirmed"},
		"left alone":         {Step{LeftAlone: true}, false, true, 0, "confirmed"},
		"it moves":           {Step{To: idempotency.UnknownStatus}, true, false, 0, "unknown"},
		"it is asked again":  {Step{AskAgain: &Wait{}}, true, false, 0, "ask_again"},
		"a note":             {Step{Note: &note}, false, false, 1, "confirmed"},
		"an id":              {Step{Named: "psp_1"}, false, false, 1, "confirmed"},
		"a case":             {Step{Open: &Case{}}, false, false, 0, "dead_letter"},
		"a case of the key":  {Step{Open: &about}, false, false, 1, "dead_letter"},
		"an id and a note":   {Step{Named: "psp_1", Note: &note}, false, false, 2, "confirmed"},
		"a case, and a wait": {Step{Open: &about, AskAgain: &Wait{}}, true, false, 1, "dead_letter"},
		"a case, and a move": {Step{Open: &about, To: idempotency.UnknownStatus}, true, false, 1, "unknown"},
	} {
		if got := c.step.guarded(); got != c.guarded {
			t.Errorf("%s: guarded %v", name, got)
		}
		if got := c.step.writesNothing(); got != c.nothing {
			t.Errorf("%s: writes nothing %v", name, got)
		}
		if got := outcomeOf(c.step); got != c.outcome {
			t.Errorf("%s: its outcome is %s", name, got)
		}
		if got := c.step.note(); (got.Reason == note.Reason) != (c.step.Note != nil) {
			t.Errorf("%s: its note is %+v", name, got)
		}
		g := gathered{movement: &charge{payment: &Payment{ID: PaymentID(ownSubject)}}}
		if got := len((&Service{}).unguardedCalls(g, c.step)); got != c.unguarded {
			t.Errorf("%s: %d calls, want %d", name, got, c.unguarded)
		}
	}
}

// A constraint that says something about the evidence is judged. Any other failure is an error.
func TestRefusalOfAConstraintIsJudged(t *testing.T) {
	t.Parallel()
	for constraint, c := range map[string]struct{ taken, gone bool }{
		"payments_psp_charge_unique":     {taken: true},
		"refunds_psp_refund_unique":      {taken: true},
		"payments_refunds_within_amount": {gone: true},
		"payments_amount_positive":       {},
	} {
		err := &pgconn.PgError{Code: "23505", ConstraintName: constraint}
		if BelongsToAnother(err) != c.taken || shareGone(err) != c.gone || judgeable(err) != (c.taken || c.gone) {
			t.Errorf("%s: taken %v, gone %v, judgeable %v", constraint, BelongsToAnother(err), shareGone(err),
				judgeable(err))
		}
	}
	for constraint, refused := range map[string]bool{
		"payments_refunds_within_amount": true, "refunds_amount_positive": true, "refunds_psp_refund_unique": false,
	} {
		err := (&refundMovement{}).domainError(&pgconn.PgError{Code: "23514", ConstraintName: constraint})
		if errors.Is(err, ErrRefundExceedsPayment) != refused {
			t.Errorf("%s: %v", constraint, err)
		}
	}
}

// A reference of a record is an id of ours only if it has the form of its kind.
func TestReferenceIsReadByTheKindOfTheRecord(t *testing.T) {
	t.Parallel()
	payment, refund := PaymentID(ownSubject).String(), RefundID(ownSubject).String()
	for name, c := range map[string]struct {
		object    gateway.Object
		reference string
		is        bool
	}{
		"a payment": {gateway.ChargeObject, payment, true}, "a refund": {gateway.RefundObject, refund, true},
		"a payment's id on a refund": {gateway.RefundObject, payment, false},
		"a refund's id on a charge":  {gateway.ChargeObject, refund, false},
		"nothing":                    {gateway.ChargeObject, "", false},
	} {
		id, ours := subjectOf(gateway.Record{Object: c.object, Reference: c.reference})
		if ours != c.is || c.is != (id == ownSubject) {
			t.Errorf("%s: %s, %v", name, id, ours)
		}
	}
}
