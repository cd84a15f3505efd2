package payments_test

import (
	"context"
	"testing"

	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payments"
	"payonce/internal/reconcile"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) {
	payments.LookUpDue = func(
		ctx context.Context, s *payments.Service, due idempotency.Due, p judge.LookupPolicy,
	) (payments.LookupResult, error) {
		r := &reconcile.Reconciler{Config: reconcile.Config{Payments: s}}
		result, err := r.LookUpDue(ctx, due, p)
		return payments.LookupResult(result), err
	}
	pgtest.Main(m)
}
