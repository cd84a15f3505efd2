package payments

import (
	"context"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// movement is one movement of money, a charge or a refund: what differs between the two on their common path. The calls that it makes belong behind one of
// package idempotency in the same pipeline, and write nothing unless that one has won.
type movement interface {
	onBehalfOf() Merchant
	// begin writes the row that a claim stands for. What an earlier try has kept is forgotten: it may have been rolled back.
	begin(c idempotency.Claim) []postgres.Call
	// resume brings a failed row back to processing, as begin.
	resume(c idempotency.Claim, subject uuid.UUID) []postgres.Call
	// load reads the row, after an acknowledgement was lost or for a request that is not the owner.
	load(ctx context.Context, subject uuid.UUID) error
	// resource is the row as it was begun, resumed or loaded; nil before.
	resource() Resource
	// refusal turns a constraint's violation by begin or resume into the domain's error.
	refusal(err error) error
	// send asks the PSP to move the money, once.
	send(ctx context.Context, key string) gateway.Outcome
	// conclude is the row with a verdict on it, and the response that tells it. It changes nothing.
	conclude(v verdict) (Resource, idempotency.Response, error)
	// record writes an outcome to the row, and tells whether it is written.
	record(o outcome, written *bool) []postgres.Call
	// name gives the row the PSP's id, where it has one of an operator's making.
	name(pspID string) postgres.Call
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

// outcome is what an execution has come to: a verdict, or Failed, behind the key's transition to a status.
type outcome struct {
	own     idempotency.Execution
	verdict verdict
	to      idempotency.Status
}
