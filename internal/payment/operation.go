package payment

import (
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// The operations that a key can be for.
const (
	CreateOperation = "POST /payments"
	RefundOperation = "POST /payments/{id}/refunds"
)

// ObjectOf is the kind of object that a key for this operation moves.
func ObjectOf(o idempotency.Operation) gateway.Object {
	if o == RefundOperation {
		return gateway.RefundObject
	}
	return gateway.ChargeObject
}

// OperationOf is the operation that a key is for if it moves this kind of object.
func OperationOf(o gateway.Object) idempotency.Operation {
	switch o {
	case gateway.ChargeObject:
		return CreateOperation
	case gateway.RefundObject:
		return RefundOperation
	case gateway.DisputeObject, gateway.ReversalObject:
	}
	return "" // Nothing that we ask for makes one.
}
