package payments

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// movement is one movement of money, a charge or a refund: what differs between the two on their common path. The Queue methods put
// statements behind one of package idempotency on the same batch, and write nothing unless that one has won.
type movement interface {
	onBehalfOf() Merchant
	// locksOthers reports whether the statements lock more than the key and the row that it stands for: then they cannot share a transaction
	// with those of other keys.
	locksOthers() bool
	// queueBegin writes the row that a claim stands for. What an earlier try has kept is forgotten: it may have been rolled back.
	queueBegin(b *pgx.Batch, c idempotency.Claim)
	// queueResume brings a failed row back to processing, as queueBegin.
	queueResume(b *pgx.Batch, c idempotency.Claim, subject uuid.UUID)
	// load reads the row, after an acknowledgement was lost or for a request that is not the owner.
	load(ctx context.Context, subject uuid.UUID) error
	// resource is the row as it was begun, resumed or loaded; nil before.
	resource() Resource
	// refusal turns a constraint's violation by queueBegin or queueResume into the domain's error.
	refusal(err error) error
	// send asks the PSP to move the money, once.
	send(ctx context.Context, key string) gateway.Outcome
	// conclude is the row with a verdict on it, and the response that tells it. It changes nothing.
	conclude(v verdict) (Resource, idempotency.Response, error)
	// queueSettle writes a verdict, or Failed, to the row, and tells how many rows that were.
	queueSettle(b *pgx.Batch, e idempotency.Execution, v verdict, to idempotency.Status, rows *int64)
	// queueName gives the row the PSP's id, where it has one of an operator's making.
	queueName(b *pgx.Batch, pspID string)
	// object is the PSP's word for it.
	object() gateway.Object
	// terms are how much it is about.
	terms() (AmountMinor, Currency)
	// asked is what is asked of the PSP under a key.
	asked(key string) Asked
	// subject is the id of the row.
	subject() uuid.UUID
	// standing is the verdict that the row has by now.
	standing() verdict
}

// verdict is the PSP's word on a movement, or the proof that there is none.
type verdict struct {
	status Status
	pspID  string
	code   string // why it declined
}

// verdictOf reads an outcome as a verdict, if it is one.
func verdictOf(o gateway.Outcome) (verdict, bool) {
	switch o := o.(type) {
	case gateway.Succeeded:
		return verdict{status: Success, pspID: o.ID}, true
	case gateway.Declined:
		return verdict{status: Refused, pspID: o.ID, code: o.Code}, true
	case gateway.NotExecuted, gateway.Indeterminate:
	}
	return verdict{}, false
}

// commit sends the statements of one key as one transaction, which it shares with others unless they have to be alone. queue may be called more than once.
func (s *Service) commit(ctx context.Context, ref idempotency.Ref, alone bool, queue func(*pgx.Batch)) error {
	if !alone {
		return s.db.SendShared(ctx, lockOrder(ref), queue)
	}
	b := &pgx.Batch{}
	queue(b)
	return s.db.Send(ctx, b)
}

// lockOrder is the order in which those who share a transaction lock their keys: tenant, operation, key. Neither a tenant's id nor a key has a space in
// it, so no two keys have the same place.
func lockOrder(ref idempotency.Ref) string {
	return ref.Tenant + " " + string(ref.Operation) + " " + ref.Key.String()
}
