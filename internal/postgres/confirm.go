package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Confirm reports whether everything that was read before it is as durable as this server makes things. It is for what a lost
// acknowledgement left open.
//
// That a row can be read proves only that its transaction has committed here. The server says so itself, by what it does to a commit that waits for the
// synchronous standby: when the wait is cancelled, which pgx asks for as it gives up a connection, the row appears, and the standby need not have it.
// After a failover, it is gone. But the log has one order: once a later commit is acknowledged, the earlier ones are where that one is.
//
// The message is for nobody. It is the smallest thing to commit, and costs no row.
func (db *DB) Confirm(ctx context.Context) error {
	b := &pgx.Batch{}
	b.Queue("-- name: Confirm :exec\nSELECT pg_logical_emit_message(true, 'payonce', '')")
	return db.Send(ctx, b)
}
