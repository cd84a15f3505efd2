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

// sources has a method that gives operators to the tests, if there are operators.
type sources struct{}

func TestMain(m *testing.M) {
	payments.LookUpDue = func(
		ctx context.Context, s *payments.Service, due idempotency.Due, p judge.LookupPolicy,
	) (payments.LookupResult, error) {
		r := &reconcile.Reconciler{Config: reconcile.Config{Payments: s}}
		result, err := r.LookUpDue(ctx, due, p)
		return payments.LookupResult(result), err
	}
	if more, ok := any(sources{}).(interface{ give() }); ok {
		more.give()
	}
	pgtest.Main(m)
}
