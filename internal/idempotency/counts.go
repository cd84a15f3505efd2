package idempotency

import (
	"context"
	"fmt"
	"time"

	"payonce/internal/idempotency/internal/dbsqlc"
)

// KeyCounts is how many keys have each status.
type KeyCounts struct {
	ByStatus      map[Status]int64 // in a big table, the finished keys are estimated
	OldestUnknown time.Duration    // the age of the oldest unknown key; zero if there is none
}

// KeyCounts counts the keys.
func (k *Keys) KeyCounts(ctx context.Context) (KeyCounts, error) {
	q := dbsqlc.New(k.db.Reader())
	rows, err := q.CountKeys(ctx)
	if err != nil {
		return KeyCounts{}, fmt.Errorf("count keys: %w", err)
	}
	seconds, err := q.OldestUnknown(ctx)
	if err != nil {
		return KeyCounts{}, fmt.Errorf("find oldest unknown key: %w", err)
	}
	counts := KeyCounts{ByStatus: make(map[Status]int64, len(rows)),
		OldestUnknown: time.Duration(seconds * float64(time.Second))}
	for _, r := range rows {
		counts.ByStatus[Status(r.Status)] = r.Keys
	}
	return counts, nil
}
