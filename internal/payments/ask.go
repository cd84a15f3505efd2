package payments

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/gateway"
	"payonce/internal/payments/internal/dbsqlc"
)

// ask looks the key up under the tenant's own account. A record that refers to another payment, which had this very key in an earlier life, says
// nothing about this one, and is passed over. Every other record stays, also one with an empty or a strange reference: money may have moved.
func (s *Service) ask(ctx context.Context, c *caseFile) (gateway.Lookup, error) {
	answer := s.psp.Lookup(ctx, c.movement.object(), c.movement.onBehalfOf().PSPAccount, c.execution.PassThroughKey())
	found, ok := answer.(gateway.Found)
	if !ok {
		return answer, nil
	}
	records, err := s.withoutEarlierLives(ctx, c, found.Records)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read earlier payments of key: %w", err)
	case len(records) == 0:
		return gateway.NotFound{}, nil
	}
	return gateway.Found{Records: records}, nil
}

// withoutEarlierLives drops the records that refer to another payment or refund which once had this key. It reads only when there may be one.
func (s *Service) withoutEarlierLives(ctx context.Context, c *caseFile, records []gateway.Record) ([]gateway.Record, error) {
	var ids []uuid.UUID
	for _, r := range records {
		if id, ok := subjectOf(r); ok && id != c.execution.Subject {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return records, nil
	}
	earlier, err := s.otherSubjects(ctx, c, ids)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(records), func(r gateway.Record) bool {
		id, ok := subjectOf(r)
		return ok && slices.Contains(earlier, id)
	}), nil
}

// otherSubjects are those of the ids that once had the key of the case in the same generation, and are not what it stands for.
func (s *Service) otherSubjects(ctx context.Context, c *caseFile, ids []uuid.UUID) (others []uuid.UUID, err error) {
	tenant, key := c.movement.onBehalfOf().Tenant, c.execution.Ref.Key.String()
	err = s.db.Read(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		if c.movement.object() == gateway.RefundObject {
			others, err = dbsqlc.New(conn).OtherRefundsOfKey(ctx, dbsqlc.OtherRefundsOfKeyParams{
				Ids: ids, Subject: c.execution.Subject, TenantID: tenant, Key: key, Generation: c.execution.Generation,
			})
			return err
		}
		others, err = dbsqlc.New(conn).OtherPaymentsOfKey(ctx, dbsqlc.OtherPaymentsOfKeyParams{
			Ids: ids, Subject: c.execution.Subject, TenantID: tenant, Key: key, Generation: c.execution.Generation,
		})
		return err
	})
	return others, err
}
