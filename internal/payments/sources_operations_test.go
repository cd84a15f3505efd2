package payments_test

import (
	"context"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/judge"
	"payonce/internal/operator"
	"payonce/internal/payments"
	"payonce/internal/postgres"
)

func (sources) give() {
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
}
