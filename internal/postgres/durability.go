package postgres

import (
	"context"
	"errors"
	"fmt"
)

// Durable is a Call that has the acknowledgement of a transaction cover what its statements have read. It is for what a lost acknowledgement left open.
//
// That a row can be read proves only that its transaction has committed there. The server says so itself, by what it does to a commit that waits for the
// synchronous standby: when the wait is cancelled, which pgx asks for as it gives up a connection, the row appears, and the standby need not have it.
// After a failover, it is gone. But the log has one order: once a later commit is acknowledged, the earlier ones are where that one is.
//
// The read and this have to be one transaction. Sent one after the other they may go to two servers, the old primary and the new one, and the second
// would acknowledge what only the first has. The message is for nobody: it is the smallest thing to commit, and costs no row.
func Durable(ctx context.Context, q Statement) error {
	_, err := q.Exec(ctx, "-- name: Durable :exec\nSELECT pg_logical_emit_message(true, 'payonce', '')")
	return err
}

// GaveUp reports whether an acknowledgement is missing because we did not wait for it any longer, as opposed to a connection that broke. It may be that
// no commit is acknowledged for now: whoever asks again waits as long again.
func GaveUp(err error) bool {
	var ambiguous *AmbiguousError
	return errors.As(err, &ambiguous) && errors.Is(ambiguous.Err, context.DeadlineExceeded)
}

// Forgetful lists, as "name = value", the settings of this server by which it may acknowledge a commit and lose it: in a crash, or, where a commit does not
// wait until the standby has it on disk, in a failover. A reservation that was forgotten leaves a charge behind that nothing of ours asked for.
func (db *DB) Forgetful(ctx context.Context) ([]string, error) {
	var found []string
	err := db.Reader().QueryRow(ctx, `SELECT coalesce(array_agg(name || ' = ' || setting ORDER BY name), '{}') FROM pg_settings
		WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'
		   OR name = 'synchronous_commit' AND setting IN ('local', 'remote_write')`).Scan(&found)
	if err != nil {
		return nil, fmt.Errorf("read durability settings: %w", err)
	}
	return found, nil
}
