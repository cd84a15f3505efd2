package idempotency

import (
	"context"
	"fmt"
	"time"

	"payonce/internal/idempotency/internal/dbsqlc"
)

// KeyCounts is how many keys have each status.
type KeyCounts struct {
	ByStatus      map[Status]int64 // of a big table, the finished keys are estimated
	OldestUnknown time.Duration    // the age of the oldest unknown key; zero if there is none
}

// KeyCounts counts the keys.
func (k *Keys) KeyCounts(ctx context.Context) (KeyCounts, error) {
	rows, err := dbsqlc.New(k.db.Reader()).CountKeys(ctx)
	if err != nil {
		return KeyCounts{}, fmt.Errorf("count keys: %w", err)
	}
	counts := KeyCounts{ByStatus: make(map[Status]int64, len(rows))}
	for _, r := range rows {
		counts.ByStatus[Status(r.Status)] = r.Keys
		counts.OldestUnknown = max(counts.OldestUnknown, time.Duration(r.OldestSeconds*float64(time.Second)))
	}
	return counts, nil
}
