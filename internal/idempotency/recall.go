package idempotency

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency/internal/dbsqlc"
	"payonce/internal/postgres"
)

// FindDurably is Find for what somebody acts on: after a lost acknowledgement, or in an answer that tells of the row. A
// row that can be read is committed, but a failover may still undo the commit. FindDurably returns the row only if a
// failover cannot undo it, and fails otherwise.
func (k *Keys) FindDurably(ctx context.Context, ref Ref) (KeyRow, error) {
	return k.findDurably(ctx, ref, k.readAnyway)
}

// FindToTell is FindDurably for a client, who may ask again and again. A completed key was reserved durably, because it
// was sent, and an expired one has ended. Of any other key, nobody knows: its reservation may be one that was answered
// 503. So it is read again, a few at once.
func (k *Keys) FindToTell(ctx context.Context, ref Ref) (KeyRow, error) {
	row, err := k.Find(ctx, ref)
	if err != nil || row.Status == CompletedStatus || row.Status == ExpiredStatus {
		return row, err
	}
	return k.findDurably(ctx, ref, k.db.ReadDurably)
}

func (k *Keys) findDurably(
	ctx context.Context, ref Ref, read func(context.Context, postgres.Call) error,
) (KeyRow, error) {
	row, err := k.readRowDurably(ctx, ref, read)
	if err != nil {
		return KeyRow{}, err
	}
	return fromRow(ref, row).KeyRow, nil
}

// PeekDurably is Peek with the promise of FindDurably. A lease that it returns is as good as a lease whose commit was
// acknowledged.
func (k *Keys) PeekDurably(ctx context.Context, c Reservation) (Decision, error) {
	row, err := k.readRowDurably(ctx, c.Ref, k.readAnyway)
	return peeked(c, row, err)
}

// readAnyway is for an owner, who needs no place: it has lost an acknowledgement, and must know.
func (k *Keys) readAnyway(ctx context.Context, query postgres.Call) error {
	return k.db.Pipeline(ctx, query, postgres.Durable)
}

// readRowDurably reads the row and waits until it is durable, in one transaction, so one server does both.
func (k *Keys) readRowDurably(
	ctx context.Context, ref Ref, read func(context.Context, postgres.Call) error,
) (row dbsqlc.FindKeyRow, err error) {
	none := false
	err = read(ctx, func(ctx context.Context, q postgres.Statement) (err error) {
		row, err = dbsqlc.New(q).FindKey(ctx, dbsqlc.FindKeyParams{TenantID: ref.Tenant,
			Operation: string(ref.Operation), Key: ref.Key.value})
		if none = errors.Is(err, pgx.ErrNoRows); none {
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		return dbsqlc.FindKeyRow{}, fmt.Errorf("find key durably: %w", err)
	case none:
		return dbsqlc.FindKeyRow{}, ErrNoKey
	}
	return row, nil
}
