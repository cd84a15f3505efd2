package payments_test

import (
	"context"

	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payments"
	"payonce/internal/reconcile"
)

func init() {
	payments.LookUpDue = func(
		ctx context.Context, s *payments.Service, due idempotency.Due, p judge.LookupPolicy,
	) (payments.LookupResult, error) {
		r := &reconcile.Reconciler{Config: reconcile.Config{Payments: s}}
		result, err := r.LookUpDue(ctx, due, p)
		return payments.LookupResult(result), err
	}
}
