package idempotency

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency/internal/dbsqlc"
)

// Expire marks up to limit finished keys as expired whose retention is over, and returns how many. It never expires a
// key that is in progress or unknown, or that an open dead letter about its generation holds.
func (k *Keys) Expire(ctx context.Context, limit int32) (int64, error) {
	return k.prune(ctx, "expire keys", limit, k.expireTx)
}

func (k *Keys) expireTx(ctx context.Context, tx pgx.Tx, limit int32) (int, error) {
	q := dbsqlc.New(tx)
	return walkTx(ctx, limit, dueKeys(q, "expire"),
		func(ctx context.Context, tenant string, operations, keys []string) (int, error) {
			n, err := q.ExpireKeys(ctx, dbsqlc.ExpireKeysParams{TenantID: tenant, Operations: operations, Keys: keys,
				Audit: k.terms.Audit})
			return int(n), err
		})
}

// Delete deletes up to limit expired keys whose audit window is over, and returns how many. The payment or refund of a
// key stays. A key with an open dead letter stays, too. Since its expiry, each key has a tombstone: if the key is used
// again, it begins with the next generation.
func (k *Keys) Delete(ctx context.Context, limit int32) (int64, error) {
	return k.prune(ctx, "delete keys", limit, k.deleteTx)
}

func (k *Keys) deleteTx(ctx context.Context, tx pgx.Tx, limit int32) (int, error) {
	q := dbsqlc.New(tx)
	return walkTx(ctx, limit, dueKeys(q, "delete"),
		func(ctx context.Context, tenant string, operations, keys []string) (int, error) {
			operations, keys, err := withoutDeadLetters(ctx, q, tenant, operations, keys)
			if err != nil {
				return 0, err
			}
			n, err := q.DeleteKeys(ctx, dbsqlc.DeleteKeysParams{TenantID: tenant, Operations: operations, Keys: keys})
			return int(n), err
		})
}

// prune runs one batch in a transaction of its own.
func (k *Keys) prune(
	ctx context.Context, what string, limit int32, batch func(context.Context, pgx.Tx, int32) (int, error),
) (int64, error) {
	var n int
	err := k.db.Transact(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		n, err = batch(ctx, tx, limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return int64(n), nil
}
