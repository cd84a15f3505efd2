package idempotency

import (
	"cmp"
	"context"
	"slices"

	"payonce/internal/idempotency/internal/dbsqlc"
)

// candidate is a key that a walk has found.
type candidate = dbsqlc.FindDueKeysRow

// maxLooks bounds how often a walk searches again if it could not take the keys that it found. Another transaction may
// have locked them, or an open dead letter about an earlier generation may keep them (withoutDeadLetters). Such keys
// stay at the head of the queue, so a small bound is not enough.
const maxLooks = 20

// walkTx takes up to limit keys that are due, oldest first, and returns how many. find searches all tenants and locks
// nothing. take takes the keys of one tenant that were found. It skips a key that somebody else has locked or moved in
// the meantime, and then the walk searches again. So one walk never waits for another.
func walkTx(
	ctx context.Context, limit int32, find func(ctx context.Context, limit int32) ([]candidate, error),
	take func(ctx context.Context, tenant string, operations, keys []string) (int, error),
) (int, error) {
	tried := map[candidate]bool{}
	taken := 0
	for range maxLooks {
		seen, err := find(ctx, limit-int32(taken)+int32(len(tried))) //nolint:gosec // maxLooks times the limit at most
		if err != nil {
			return taken, err
		}
		fresh := slices.DeleteFunc(slices.Clone(seen), func(f candidate) bool { return tried[f] })
		fresh = fresh[:min(len(fresh), int(limit)-taken)]
		for _, f := range fresh {
			tried[f] = true
		}
		n, err := takeByTenant(ctx, fresh, take)
		if taken += n; err != nil || n == len(fresh) {
			return taken, err
		}
	}
	return taken, nil
}

// takeByTenant takes keys, one tenant after the other. A statement about one tenant runs on one server
// (docs/scaling.md).
func takeByTenant(
	ctx context.Context, all []candidate, take func(ctx context.Context, tenant string, operations, keys []string) (int,
		error),
) (taken int, err error) {
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.TenantID, b.TenantID), cmp.Compare(a.Operation, b.Operation),
			cmp.Compare(a.Key, b.Key))
	})
	for len(all) > 0 {
		tenant := all[0].TenantID
		var operations, keys []string
		for len(all) > 0 && all[0].TenantID == tenant {
			operations, keys = append(operations, all[0].Operation), append(keys, all[0].Key)
			all = all[1:]
		}
		n, err := take(ctx, tenant, operations, keys)
		if taken += n; err != nil {
			return taken, err
		}
	}
	return taken, nil
}

// dueKeys is the find of a walk.
func dueKeys(q *dbsqlc.Queries, walk string) func(context.Context, int32) ([]candidate, error) {
	return func(ctx context.Context, limit int32) ([]candidate, error) {
		return q.FindDueKeys(ctx, dbsqlc.FindDueKeysParams{Walk: walk, MaxRows: limit})
	}
}

// withoutDeadLetters leaves out the keys of a tenant that have an open dead letter.
func withoutDeadLetters(
	ctx context.Context, q *dbsqlc.Queries, tenant string, operations, keys []string,
) (_, _ []string, err error) {
	rows, err := q.FindDeadLettered(ctx, dbsqlc.FindDeadLetteredParams{TenantID: tenant, Operations: operations,
		Keys: keys})
	if err != nil {
		return nil, nil, err
	}
	deadLettered := map[dbsqlc.FindDeadLetteredRow]bool{}
	for _, r := range rows {
		deadLettered[r] = true
	}
	var leftOperations, left []string
	for i, key := range keys {
		if !deadLettered[dbsqlc.FindDeadLetteredRow{Operation: operations[i], Key: key}] {
			leftOperations, left = append(leftOperations, operations[i]), append(left, key)
		}
	}
	return leftOperations, left, nil
}
