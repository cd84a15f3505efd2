package webhooks

import (
	"context"
	"fmt"
	"time"

	"payonce/internal/postgres"
	"payonce/internal/webhooks/internal/dbsqlc"
)

// Prune deletes up to limit events that were processed longer than olderThan ago, the oldest first, and returns how
// many. It never deletes an event that is not processed. After the deletion, another delivery of the same event would
// be taken as a new one.
func (i *Inbox) Prune(ctx context.Context, olderThan time.Duration, limit int32) (int64, error) {
	var n int64
	err := i.db.Pipeline(ctx, func(ctx context.Context, q postgres.Statement) (err error) {
		n, err = dbsqlc.New(q).PruneEvents(ctx, dbsqlc.PruneEventsParams{OlderThan: olderThan, MaxRows: limit})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("prune webhooks: %w", err)
	}
	return n, nil
}
