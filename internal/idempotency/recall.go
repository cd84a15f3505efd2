package idempotency

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency/internal/dbsqlc"
	"payonce/internal/postgres"
)

// What a key has become after a lost acknowledgement. A row that can be read is committed, and may be gone after a failover all the same: these answer
// only with what a failover cannot undo, and fail otherwise.

// FindDurably is Find, with an acknowledgement of what was read.
func (k *Keys) FindDurably(ctx context.Context, ref Ref) (Record, error) {
	row, err := k.findDurably(ctx, ref)
	if err != nil {
		return Record{}, err
	}
	return fromRow(ref, row).Record, nil
}

// PeekDurably is Peek, with an acknowledgement of what was read: a lease that it gives is as good as one whose commit was acknowledged.
func (k *Keys) PeekDurably(ctx context.Context, c Claim) (Decision, error) {
	row, err := k.findDurably(ctx, c.Ref)
	return peeked(c, row, err)
}

// findDurably reads and has it acknowledged in one transaction, so by one server.
func (k *Keys) findDurably(ctx context.Context, ref Ref) (row dbsqlc.FindKeyRow, err error) {
	none := false
	err = k.db.Pipeline(ctx, func(ctx context.Context, q postgres.Statement) (err error) {
		row, err = dbsqlc.New(q).FindKey(ctx, dbsqlc.FindKeyParams{TenantID: ref.Tenant, Operation: string(ref.Operation), Key: ref.Key.value})
		if none = errors.Is(err, pgx.ErrNoRows); none {
			return nil
		}
		return err
	}, postgres.Durable)
	switch {
	case err != nil:
		return dbsqlc.FindKeyRow{}, fmt.Errorf("find key durably: %w", err)
	case none:
		return dbsqlc.FindKeyRow{}, ErrNoKey
	}
	return row, nil
}
