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
// nothing about this one: it is among the others, and not in the answer. Every other record is in the answer, also one with an empty or a strange
// reference: money may have moved.
func (s *Service) ask(ctx context.Context, c *caseFile) (answer gateway.Lookup, others []gateway.Record, err error) {
	answer = s.psp.Lookup(ctx, c.movement.object(), c.movement.onBehalfOf().PSPAccount, c.execution.PassThroughKey())
	found, ok := answer.(gateway.Found)
	if !ok {
		return answer, nil, nil
	}
	ids := otherReferences(c, found.Records)
	if len(ids) == 0 {
		return answer, nil, nil
	}
	if ids, err = s.otherSubjects(ctx, c, ids); err != nil {
		return nil, nil, fmt.Errorf("read earlier payments of key: %w", err)
	}
	var about []gateway.Record
	for _, r := range found.Records {
		if id, ours := subjectOf(r); ours && slices.Contains(ids, id) {
			others = append(others, r)
		} else {
			about = append(about, r)
		}
	}
	if len(about) == 0 {
		return gateway.NotFound{}, others, nil
	}
	return gateway.Found{Records: about}, others, nil
}

// otherReferences are the ids of ours to which the records refer, without the one that the key stands for.
func otherReferences(c *caseFile, records []gateway.Record) (ids []uuid.UUID) {
	for _, r := range records {
		if id, ours := subjectOf(r); ours && id != c.execution.Subject {
			ids = append(ids, id)
		}
	}
	return ids
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
