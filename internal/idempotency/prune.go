package idempotency

import (
	"context"
	"fmt"
	"time"

	"payonce/internal/idempotency/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Expire marks up to limit finished keys as expired whose retention is over, and tells how many. A key that is in progress, unknown
// or on an operator's desk stays whatever its age.
func (k *Keys) Expire(ctx context.Context, limit int32) (int64, error) {
	var n int64
	err := k.db.Pipeline(ctx, func(ctx context.Context, q postgres.Statement) (err error) {
		n, err = dbsqlc.New(q).ExpireKeys(ctx, dbsqlc.ExpireKeysParams{MaxRows: limit, Audit: k.terms.Audit})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("expire keys: %w", err)
	}
	return n, nil
}

// Delete deletes up to limit expired keys whose audit window is over, and tells how many. What they stood for stays, and so does a key about which a
// dead letter is open. Of each key a tombstone is left: used again, it begins with its next generation.
func (k *Keys) Delete(ctx context.Context, limit int32) (int64, error) {
	var n int64
	err := k.db.Pipeline(ctx, func(ctx context.Context, q postgres.Statement) (err error) {
		n, err = dbsqlc.New(q).DeleteKeys(ctx, limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("delete keys: %w", err)
	}
	return n, nil
}

// Census is how many keys stand where.
type Census struct {
	ByStatus      map[Status]int64 // of a big table, the finished ones by estimate
	OldestUnknown time.Duration    // the age of the oldest unknown key; zero when there is none
}

// Census counts the keys.
func (k *Keys) Census(ctx context.Context) (Census, error) {
	q := dbsqlc.New(k.db.Reader())
	rows, err := q.CountKeys(ctx)
	if err != nil {
		return Census{}, fmt.Errorf("count keys: %w", err)
	}
	seconds, err := q.OldestUnknown(ctx)
	if err != nil {
		return Census{}, fmt.Errorf("find oldest unknown key: %w", err)
	}
	census := Census{ByStatus: make(map[Status]int64, len(rows)), OldestUnknown: time.Duration(seconds * float64(time.Second))}
	for _, r := range rows {
		census.ByStatus[Status(r.Status)] = r.Keys
	}
	return census, nil
}
