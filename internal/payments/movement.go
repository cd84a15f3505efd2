package payments

import (
	"context"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// movement is a charge or a refund. The interface is what a charge and a refund do differently. Its calls are sent
// after a call of package idempotency, in the same pipeline. They write nothing unless that call has passed its guard.
type movement interface {
	onBehalfOf() Merchant
	// begin writes the row that belongs to a reservation. It forgets the row of an earlier try, because that try may
	// have been rolled back.
	begin(r idempotency.Reservation) []postgres.Call
	// resume brings a failed row back to processing. Like begin, it forgets the row of an earlier try.
	resume(r idempotency.Reservation, subject uuid.UUID) []postgres.Call
	// load reads the row, durably: a client is told of it. It is for a request whose acknowledgement was lost, and for
	// a request that does not own the key.
	load(ctx context.Context, subject uuid.UUID) error
	// resource is the row that was begun, resumed or loaded. It is nil before.
	resource() Resource
	// domainError translates the violation of a constraint by begin or resume into an error of the domain. For every
	// other error it is nil.
	domainError(err error) error
	// prepare has the PSP make an object of the movement, if the PSP executes in two steps. Otherwise it returns "" and
	// nil.
	prepare(ctx context.Context, own idempotency.Execution) (objectID string, refused gateway.Outcome)
	// prepared keeps the id of that object, after it was stored.
	prepared(objectID string)
	// send asks the PSP to move the money, once.
	send(ctx context.Context, own idempotency.Execution) gateway.Outcome
	// conclude returns the resource with a verdict, and the response that tells the verdict. It changes nothing.
	conclude(v verdict) (Resource, idempotency.Response, error)
	// updateRow writes an outcome to the row. written says whether the row was written.
	updateRow(o rowUpdate, written *bool) []postgres.Call
	// object is the PSP's name for this kind of movement.
	object() gateway.Object
	// terms are the amount and the currency.
	terms() (AmountMinor, Currency)
	// asked is the request to the PSP of an execution.
	asked(own idempotency.Execution) gateway.Request
	// subject is the id of the row.
	subject() uuid.UUID
	// paid is the payment whose money it moves.
	paid() Payment
	// rowVerdict is the verdict that the row shows.
	rowVerdict() verdict
}

// verdict is the PSP's decision about a movement, or Failed if it is proven that the PSP has executed nothing.
type verdict struct {
	status Status
	pspID  string
	code   string // the decline code
}

// verdictOf returns the verdict of an outcome. It is false for an outcome that is not a verdict.
func verdictOf(o gateway.Outcome) (verdict, bool) {
	switch o := o.(type) {
	case gateway.Succeeded:
		return verdict{status: Succeeded, pspID: o.ID}, true
	case gateway.Declined:
		return verdict{status: Declined, pspID: o.ID, code: o.Code}, true
	case gateway.NotExecuted, gateway.Pending, gateway.Indeterminate:
	}
	return verdict{}, false
}

// rowUpdate is a verdict that is written to a movement's row, and the status that its key has moved to.
type rowUpdate struct {
	own     idempotency.Execution
	verdict verdict
	to      idempotency.Status
}
