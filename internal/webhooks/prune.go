package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/internal/webhooks/internal/dbsqlc"
)

// Prune deletes up to limit events that were processed longer ago than olderThan, the oldest first, and tells how many. One
// that is not processed stays whatever its age. olderThan is also how long a repeated delivery is known for what it is.
func (i *Inbox) Prune(ctx context.Context, olderThan time.Duration, limit int32) (int64, error) {
	var n int64
	b := &pgx.Batch{}
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).PruneEvents(ctx, dbsqlc.PruneEventsParams{OlderThan: olderThan, MaxRows: limit})
	postgres.Affected(q, func(rows int64) error { n = rows; return nil })
	if err := i.db.Send(ctx, b); err != nil {
		return 0, fmt.Errorf("prune webhooks: %w", err)
	}
	return n, nil
}
