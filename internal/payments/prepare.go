package payments

import (
	"context"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// prepareAtPSP is the first of two steps, for a PSP that executes a charge in two. The PSP makes an object that moves
// no money, and its id is stored in the payment's row. For other PSPs it does nothing. refused is nil if the charge may
// be executed now.
//
// The id is stored before the charge is executed. So a lookup that finds the key unknown can ask the PSP for this very
// object. If no id is stored, nobody has executed anything: only an object whose id is stored is executed.
func (s *Service) prepareAtPSP(
	ctx context.Context, l idempotency.Lease, m *movement,
) (prepared *movement, refused gateway.Outcome) {
	if m.isRefund() {
		return m, nil // No PSP of ours makes an object of a refund first.
	}
	objectID, refused := m.psp.Prepare(ctx, m.chargeRequest(l.Execution()))
	if refused != nil || objectID == "" {
		return m, refused
	}
	// Crash window 27: made, not remembered. The object is never executed.
	if !s.remember(ctx, l, m, objectID) {
		return m, gateway.NotExecuted{Reason: "the PSP's object was not stored"}
	}
	p := *m.payment
	p.PSPObjectID = objectID
	return m.withPayment(p), nil // Crash window 28: remembered, not executed.
}

// store stores the id of the PSP's object. It passes only for the owner of the key: if the sweeper has made the key
// unknown, somebody may be cancelling the object already. It can be sent again after a lost acknowledgement, because
// the second statement finds the id that the first one has written. If the database does not say, the id counts as not
// stored, and nothing is executed.
func (s *Service) store(
	ctx context.Context, l idempotency.Lease, m *movement, objectID string,
) (stored bool, err error) {
	var rows int64
	postgres.Recall(ctx, func(int) (done bool) {
		err = s.db.Pipeline(ctx, func(ctx context.Context, q postgres.Statement) (err error) {
			rows, err = dbsqlc.New(q).RememberObject(ctx, dbsqlc.RememberObjectParams{
				ObjectID: objectID, TenantID: l.Ref.Tenant, ID: m.subject(), Operation: string(l.Ref.Operation),
				Key: l.Ref.Key.String(), LeaseID: l.LeaseID,
			})
			return err
		})
		return !postgres.Unavailable(err) // It is written, or refused.
	})
	return err == nil && rows == 1, err
}
