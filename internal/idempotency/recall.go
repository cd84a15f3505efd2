package idempotency

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Find reads a key's row. It fails with ErrNoKey.
func (k *Keys) Find(ctx context.Context, ref Ref) (KeyRow, error) {
	return k.find(ctx, ref, k.db.ReadNow)
}

// FindDurably is Find for what somebody acts on: after a lost acknowledgement, or in an answer that tells of the row. A
// row that can be read is committed, but a failover may still undo the commit. FindDurably returns the row only if a
// failover cannot undo it, and fails otherwise.
func (k *Keys) FindDurably(ctx context.Context, ref Ref) (KeyRow, error) {
	return k.find(ctx, ref, k.readDurably)
}

// FindToTell is FindDurably for a client, who may ask again and again. A completed key was reserved durably, because it
// was sent, and an expired one has ended. Of any other key, nobody knows: its reservation may be one that was answered
// 503. And a key that is missing here may be on a newer primary. So it is read again, a few at once.
func (k *Keys) FindToTell(ctx context.Context, ref Ref) (KeyRow, error) {
	row, err := k.Find(ctx, ref)
	absent := errors.Is(err, ErrNoKey)
	if err != nil && !absent || row.Status == CompletedStatus || row.Status == ExpiredStatus {
		return row, err
	}
	return k.find(ctx, ref, k.db.ReadDurably)
}

func (k *Keys) find(ctx context.Context, ref Ref, read postgres.Reading) (KeyRow, error) {
	row, err := k.readRow(ctx, ref, read)
	if err != nil {
		return KeyRow{}, err
	}
	return fromRow(ref, row).KeyRow, nil
}

// Peek decides without taking the key. The decision is nil if the key has no row or has expired, and is not held.
func (k *Keys) Peek(ctx context.Context, r Reservation) (Decision, error) {
	d, err := k.peek(ctx, r, k.db.ReadNow)
	if err != nil {
		return nil, err
	}
	switch d := d.(type) {
	case nil:
		return k.heldWithoutRow(ctx, r.Ref)
	case InProgress:
		if d.leaseOver {
			return Unknown{d.KeyRow}, nil
		}
	case Free:
		if d.Status == ExpiredStatus {
			return nil, nil //nolint:nilnil // as if it had no row
		}
	case Execute, Replay, Mismatch, Unknown, Held:
	}
	return d, nil
}

// peek reads the decision for a reservation: Execute if the row carries its own lease, nil if there is no row.
func (k *Keys) peek(ctx context.Context, r Reservation, read postgres.Reading) (Decision, error) {
	row, err := k.readRow(ctx, r.Ref, read)
	switch {
	case errors.Is(err, ErrNoKey):
		return nil, nil //nolint:nilnil // no row, no decision: the key is free
	case err != nil:
		return nil, err
	}
	return decisionOn(r, row), nil
}

// heldWithoutRow returns Held if an open dead letter says that money moved under a key that has no row. Otherwise the
// decision is nil.
func (k *Keys) heldWithoutRow(ctx context.Context, ref Ref) (Decision, error) {
	held, err := dbsqlc.New(k.db.Reader()).FindHold(ctx,
		dbsqlc.FindHoldParams{TenantID: ref.Tenant, Operation: string(ref.Operation), Key: ref.Key.value})
	switch {
	case err != nil:
		return nil, fmt.Errorf("find hold: %w", err)
	case held:
		return Held{}, nil
	}
	return nil, nil //nolint:nilnil // not held, no decision: the key is free
}

// readDurably is for an owner, who needs no place: it has lost an acknowledgement, and must know. It waits until what
// it has read is durable, in one transaction, so one server does both.
func (k *Keys) readDurably(ctx context.Context, query postgres.Query) error {
	return k.db.Pipeline(ctx, query.Call, postgres.Durable)
}

// readRow fails with ErrNoKey if there is no row.
func (k *Keys) readRow(ctx context.Context, ref Ref, read postgres.Reading) (row dbsqlc.FindKeyRow, err error) {
	found := false
	err = read(ctx, func(ctx context.Context, q postgres.DBTX) (err error) {
		row, found, err = findKey(ctx, q, ref)
		return err
	})
	switch {
	case err != nil:
		return row, fmt.Errorf("find key: %w", err)
	case !found:
		return row, ErrNoKey
	}
	return row, nil
}

func findKey(ctx context.Context, q postgres.DBTX, ref Ref) (row dbsqlc.FindKeyRow, found bool, err error) {
	row, err = dbsqlc.New(q).FindKey(ctx, dbsqlc.FindKeyParams{TenantID: ref.Tenant, Operation: string(ref.Operation),
		Key: ref.Key.value})
	if errors.Is(err, pgx.ErrNoRows) {
		return row, false, nil
	}
	return row, err == nil, err
}
