package payments

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Others change our payments at the PSP, too: a refund in its dashboard, a dispute, a debit that the bank takes back.
// Such a record is ours by the charge that it changes. An operator has the case. Whatever the operator decides, what
// has moved is stored on the payment, and bounds its refunds.

// executionChangedBy finds what a record changes. It does not matter who has made it. It is a refund of ours if that
// has the record's id, and otherwise the payment whose charge it changes.
func (s *Service) executionChangedBy(ctx context.Context, r gateway.Record) (idempotency.Execution, error) {
	if r.ChargeID == "" {
		return idempotency.Execution{}, errNotOurs
	}
	if r.Object == gateway.RefundObject {
		own, err := s.executionByPSPID(ctx, r.Account, r.ID, gateway.RefundObject)
		if !errors.Is(err, errNotOurs) {
			return own, err
		}
	}
	return s.executionByPSPID(ctx, r.Account, r.ChargeID, gateway.ChargeObject)
}

// executionByPSPID is executionBy with the PSP's id of the movement.
func (s *Service) executionByPSPID(
	ctx context.Context, account, id string, o gateway.Object,
) (idempotency.Execution, error) {
	rows, err := dbsqlc.New(s.db.Reader()).MovementsByPSPID(ctx,
		dbsqlc.MovementsByPSPIDParams{PspIds: []string{id}, Account: account, Object: string(o)})
	if err != nil || len(rows) == 0 {
		return idempotency.Execution{}, cmp.Or(err, errNotOurs)
	}
	return execution(rows[0].TenantID, payment.OperationOf(o), rows[0].IdempotencyKey, rows[0].ID,
		rows[0].Generation), nil
}

// withLost names the key of a refund that has our marks, and that we have lost, as after a restore. What it has moved
// counts on the payment. The case is about the refund's own key, which nobody may execute again.
func (s *Service) withLost(ctx context.Context, g gathered, e Record) (gathered, error) {
	if _, ours := payment.SubjectOf(e.Record.Object, e.Record.Reference); !ours || !g.seen.changedBy(e) {
		return g, nil
	}
	lost, err := s.nameOf(ctx, e.Record)
	if errors.Is(err, errNotOurs) {
		return g, nil
	}
	g.seen.Own = lost
	return g, err
}

// changedBy reports whether a record is about what others have done to the payment.
func (s Seen) changedBy(e Record) bool {
	_, charge := s.Request.(gateway.Charge)
	return charge && e.Record.Object != gateway.ChargeObject && !s.elsewhere(e)
}

// ofAnotherProgram reports whether a record is about a charge of another program.
func (s Seen) ofAnotherProgram(r gateway.Record) bool { return !s.known() && s.Shared && !r.Marked() }

// judgeOutside is for a record of what others have done to the payment. The key does not move. If the key is unknown,
// the dead letter says that money has moved: the key is not released, and not completed as a decline. What the record
// says next is another finding: who dismisses an inquiry has not decided about the money that it takes later.
func judgeOutside(s Seen, t report, r gateway.Record) Step {
	if s.Request == nil {
		return Step{Foreign: true} // It is about a charge of another program.
	}
	step := Step{Outside: &r}
	if r.Status == gateway.StatusDeclined {
		return step // The money has come back, or has never left.
	}
	reason := "the PSP has a " + string(r.Object) + " of this payment that nothing of ours asked for"
	if charge, _ := s.Request.(gateway.Charge); r.Currency != charge.Currency && r.AmountMinor > 0 {
		reason += "; it is in " + r.Currency + ", so it counts as the whole payment"
	}
	if !s.known() { // withLost
		step.Open = s.foundRecord(deadletters.UnknownMovement, s.Account, t, reason, true)
		return step
	}
	step.Open = s.foundRecord(deadletters.MovedOutside, s.Account, t, reason, true)
	step.Open.Finding = fmt.Sprintf("%s %d %s", r.Status, r.AmountMinor, step.Open.Finding)
	return step
}

// counting adds to a step what our books do not count: a second refund under the marks of one of ours, or a refund that
// is declined or failed here. A refund that is processing has reserved its own share.
func (s Seen) counting(step Step, r gateway.Record) Step {
	asked, refund := s.Request.(gateway.Refund)
	if step.Open != nil && refund && r.Executed() && asked.ChargeID == r.ChargeID &&
		s.Row.Status != payment.Processing {
		step.Outside = &r
	}
	return step
}

// refused is the step of a refund that the PSP has declined because the money is gone or held already. Our books bound
// each refund, so others have moved more than we know.
func (s Seen) refused(step Step, source Source) Step {
	if step.Verdict.Code == gateway.AlreadyMoved {
		step.Open = s.byKey(deadletters.MovedOutside,
			"the PSP refuses the refund: money of the payment is returned or held already, and we do not know by what",
			evidenceOf(source, ownerRecord(step.Verdict)))
	}
	return step
}

// outside is the line of a break as a record of what others have done to a payment.
func (b Break) outside(s Seen) gateway.Record {
	charge, _ := s.Request.(gateway.Charge)
	return gateway.Record{
		Object: b.Object, ID: b.PSPID, Account: b.Account, Reference: b.Reference,
		ChargeID: cmp.Or(s.Row.PSPID, charge.ObjectID), AmountMinor: b.Theirs.AmountMinor, Currency: b.Theirs.Currency,
		Status: cmp.Or(b.Theirs.Status, gateway.StatusSucceeded), Created: b.Moved,
	}
}

// outsideCalls store what others have done to the payment of a movement.
func outsideCalls(p payment.Payment, r gateway.Record) []postgres.Call {
	lock := dbsqlc.LockPaymentParams{TenantID: p.Tenant, ID: uuid.UUID(p.ID)}
	return tallied(lock, func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).RecordOutside(ctx, dbsqlc.RecordOutsideParams{
			TenantID: lock.TenantID, PaymentID: lock.ID, Object: string(r.Object), PspID: r.ID,
			AmountMinor: r.AmountMinor, Currency: r.Currency, Status: r.Status,
		})
	})
}

// tallied locks a payment before what moves its money is written, and updates the payment's totals afterwards.
func tallied(p dbsqlc.LockPaymentParams, write postgres.Call) []postgres.Call {
	lock := func(ctx context.Context, q postgres.Statement) error { return dbsqlc.New(q).LockPayment(ctx, p) }
	tally := func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).TallyRefunds(ctx, dbsqlc.TallyRefundsParams{TenantID: p.TenantID, PaymentID: p.ID})
	}
	return []postgres.Call{lock, write, tally}
}
