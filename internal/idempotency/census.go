package idempotency

import (
	"context"
	"fmt"
	"time"

	"payonce/internal/idempotency/internal/dbsqlc"
)

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
