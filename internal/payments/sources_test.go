package payments_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/operator"
	"payonce/internal/payments"
	"payonce/internal/postgres"
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
	payments.Inquire = func(
		ctx context.Context, db *postgres.DB, s *payments.Service, l deadletters.DeadLetter, d judge.OperatorDecision,
	) (payments.Inquiry, error) {
		i, err := operator.Inquire(ctx, db, s, l, d)
		return func(ctx context.Context, tx pgx.Tx, closing func() error) (judge.Step, error) {
			decided, err := i.Judge(ctx, postgres.In(tx))
			if err != nil || decided.Step.Refuse() != nil {
				return decided.Step, err
			}
			if err := closing(); err != nil {
				return decided.Step, err
			}
			return decided.CarryOutTx(ctx, tx)
		}, err
	}
	pgtest.Main(m)
}
