package operator

import (
	"context"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payments"
)

// ruleExecuted completes the letter's key as a success. The PSP is asked, and overrules the operator where it knows better; where it is
// silent, his word counts.
func (d *Desk) ruleExecuted(ctx context.Context, letter deadletters.Letter, asked Decision) (move, error) {
	inquiry, err := d.inquire(ctx, letter)
	if err != nil {
		return nil, err
	}
	pspID, err := executedAs(inquiry, letter, asked.PSPID)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx pgx.Tx, _ idempotency.Status) error {
		err := d.ruleTx(ctx, tx, inquiry, pspID)
		if payments.BelongsToAnother(err) && saysSo(inquiry, pspID) {
			// The PSP has answered another payment with this one's id. The row cannot have the id, but its key must have an end.
			err = d.payments.RuleExecutedTx(ctx, tx, inquiry, payments.OperatorPSPID+letter.ID.String())
		}
		return err
	}, nil
}

// ruleTx completes the key as executed under an id. An id that another row has leaves the transaction as it was.
func (d *Desk) ruleTx(ctx context.Context, tx pgx.Tx, i payments.Inquiry, pspID string) error {
	return pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
		return d.payments.RuleExecutedTx(ctx, savepoint, i, pspID)
	})
}

// saysSo reports whether the PSP's own record of that id refers to the letter's payment or refund. One that refers to nothing may be about the row that
// has its id.
func saysSo(i payments.Inquiry, id string) bool {
	return slices.ContainsFunc(i.Own(), func(r gateway.Record) bool { return r.ID == id && r.Executed() && r.Reference != "" })
}

// ruleNotExecuted releases the letter's key, so that the client may execute it again. Only the PSP's own word, given just now and after
// the settle window, allows that: otherwise the next retry could charge twice.
func (d *Desk) ruleNotExecuted(ctx context.Context, letter deadletters.Letter) (move, error) {
	inquiry, err := d.inquire(ctx, letter)
	if err != nil {
		return nil, err
	}
	switch inquiry.Answer().(type) {
	case gateway.Found:
		if r, known := inquiry.Knows(); known {
			return nil, refuse(ContradictsPSP, "The PSP knows it, as %s (%s). Use retry, or executed.", r.ID, r.Status)
		}
	case gateway.LookupFailed:
		return nil, refuse(NoFreshProof, "The PSP does not say that it knows nothing of it: no fresh proof. Ask again later.")
	case gateway.NotFound:
	}
	if !inquiry.WindowOver() {
		return nil, refuse(WindowOpen, "The PSP knows nothing of it yet, but what was sent may still arrive there. Ask again after the settle window.")
	}
	return func(ctx context.Context, tx pgx.Tx, _ idempotency.Status) error {
		other, found, err := deadletters.OtherOpenTx(ctx, tx, letter)
		if err != nil {
			return err
		}
		if found {
			return refuse(NotApplicable, "Another letter about the same key is open: %s. Resolve that one by retry first.", other)
		}
		return d.payments.RuleNotExecutedTx(ctx, tx, inquiry)
	}, nil
}

// inquire asks the PSP for the letter's key, which must be unknown: everything else is decided already, or not yet anybody's to decide.
func (d *Desk) inquire(ctx context.Context, letter deadletters.Letter) (payments.Inquiry, error) {
	if letter.About == nil {
		return payments.Inquiry{}, refuse(NotApplicable, "This letter is about no key of ours, so that there is nothing to decide about one.")
	}
	inquiry, err := d.payments.Inquire(ctx, letter)
	switch {
	case errors.Is(err, idempotency.ErrNoKey):
		return inquiry, refuse(NotApplicable, "The letter's key is gone, or stands for something else by now.")
	case err != nil:
		return inquiry, wrap("ask for the key", err)
	case inquiry.Status() != idempotency.UnknownStatus:
		return inquiry, refuse(NotApplicable, "The letter's key is %s. Only an unknown one can be decided about.", inquiry.Status())
	}
	return inquiry, nil
}

// executedAs is the PSP's id under which a movement goes down as executed: that of the PSP's own record of it; else the one that the
// operator names, unless the PSP says that it is for something else; else one in the letter's evidence; else the letter's, which says that a human vouches for it.
func executedAs(i payments.Inquiry, letter deadletters.Letter, named string) (string, error) {
	id, err := executedRecord(i.Own(), named)
	_, declined := i.Verdict().(gateway.Declined)
	if _, known := i.Knows(); id == "" && err == nil && declined && known {
		err = refuse(ContradictsPSP, "The PSP says that it has declined it. Use retry, which settles it as declined.")
	}
	if id != "" || err != nil {
		return id, err
	}
	if reference, foreign := i.Foreign(named); foreign {
		return "", refuse(ContradictsPSP, "The PSP says that %s is for %s, not for this payment or refund.", named, reference)
	}
	if named != "" {
		return named, nil
	}
	if id := idIn(letter); id != "" {
		return id, nil
	}
	return payments.OperatorPSPID + letter.ID.String(), nil
}

// executedRecord picks the one that the operator means among what the PSP has executed under the key. It is empty if that is nothing.
func executedRecord(records []gateway.Record, named string) (string, error) {
	records = slices.DeleteFunc(slices.Clone(records), func(r gateway.Record) bool { return !r.Executed() })
	for _, r := range records {
		if named == "" || r.ID == named {
			return r.ID, nil
		}
	}
	if len(records) > 0 {
		return "", refuse(ContradictsPSP, "The PSP knows it as %s, not as %s.", records[0].ID, named)
	}
	return "", nil
}

// traces is what evidence may say of a movement: a record, or an answer to a request of ours.
type traces struct {
	ID             string `json:"id"`
	Status         string `json:"status"`
	IdempotencyKey string `json:"idempotencyKey"`
	Reference      string `json:"reference"`
}

// idIn finds the PSP's id of the letter's movement in its evidence. One of a refusal is none, nor is one of something else: an answer
// that went astray is evidence, too.
func idIn(letter deadletters.Letter) string {
	var e struct {
		Answer *traces `json:"answer"`
		Record *traces `json:"record"`
	}
	var whole traces
	if json.Unmarshal(letter.Evidence, &e) != nil {
		e.Answer, e.Record = nil, nil
	}
	if json.Unmarshal(letter.Evidence, &whole) != nil {
		whole = traces{}
	}
	for _, t := range []*traces{e.Answer, e.Record, &whole} {
		if t != nil && t.about(letter) {
			return t.ID
		}
	}
	return ""
}

func (t traces) about(letter deadletters.Letter) bool {
	a := letter.About
	execution := idempotency.Execution{Ref: idempotency.StoredRef(a.Scope, a.Key), Generation: a.Generation}
	ourKey := t.IdempotencyKey == "" || t.IdempotencyKey == execution.PassThroughKey()
	ourReference := t.Reference == "" || letter.Subject == nil || t.Reference == publicID(objectOf(execution.Ref.Scope), *letter.Subject)
	return pspIDForm.MatchString(t.ID) && t.Status != string(payments.Refused) && ourKey && ourReference
}

func objectOf(s idempotency.Scope) string {
	if s.Operation() == payments.RefundOperation {
		return refundObject
	}
	return paymentObject
}
