package events

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/events/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Prune deletes up to limit events that are older than olderThan, with their deliveries, also those that wait at an
// endpoint that is disabled. It returns how many events.
func (d *Deliverer) Prune(ctx context.Context, olderThan time.Duration, limit int32) (n int64, err error) {
	err = d.DB.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		old := dbsqlc.FindOldEventsParams{OlderThan: olderThan, MaxRows: limit}
		found, err := dbsqlc.New(tx).FindOldEvents(ctx, old)
		if err != nil || len(found) == 0 {
			return err
		}
		n = int64(len(found))
		var p dbsqlc.DeleteEventsParams
		for _, e := range found {
			p.TenantIds, p.PaymentIds = append(p.TenantIds, e.TenantID), append(p.PaymentIds, e.PaymentID)
			p.Versions = append(p.Versions, e.Version)
		}
		return postgres.PipelineTx(ctx, tx,
			func(ctx context.Context, q postgres.Statement) error {
				return dbsqlc.New(q).DeleteDeliveriesOfEvents(ctx, dbsqlc.DeleteDeliveriesOfEventsParams(p))
			},
			func(ctx context.Context, q postgres.Statement) error { return dbsqlc.New(q).DeleteEvents(ctx, p) })
	})
	if err != nil {
		return 0, fmt.Errorf("prune events: %w", err)
	}
	return n, nil
}

// PruneEndpoints deletes endpoints that a merchant has deleted, each after its deliveries, up to limit rows. It returns
// how many rows.
func (d *Deliverer) PruneEndpoints(ctx context.Context, limit int32) (n int64, err error) {
	err = d.DB.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := dbsqlc.New(tx)
		found, err := q.FindDeletedEndpoints(ctx, limit)
		if err != nil {
			return err
		}
		for _, e := range found {
			left := limit - int32(n) //nolint:gosec // n is below limit
			deliveries, err := q.DeleteDeliveriesOf(ctx, dbsqlc.DeleteDeliveriesOfParams{TenantID: e.TenantID,
				EndpointID: e.ID, MaxRows: left})
			if err != nil {
				return err
			}
			if n += deliveries; n == int64(limit) {
				return nil
			}
			if err := q.DeleteEndpoint(ctx, dbsqlc.DeleteEndpointParams{TenantID: e.TenantID,
				EndpointID: e.ID}); err != nil {
				return err
			}
			if n++; n == int64(limit) {
				return nil
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("prune endpoints: %w", err)
	}
	return n, nil
}
