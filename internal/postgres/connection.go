package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// bounded limits how long we wait for an answer of the server. Zero is no limit.
func bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// borrow takes a connection from the pool, within the acquire limit. If it fails, nothing was sent.
func (db *DB) borrow(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := bounded(ctx, db.acquire)
	defer cancel()
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, &UnavailableError{Op: "acquire connection", Err: err}
	}
	return conn, nil
}

// giveBack returns a connection to the pool. If the connection has broken, giveBack resets the whole pool: the other
// connections have probably broken, too, and the pool does not check connections that were in use a moment ago. Without
// the reset, each of the few retries could get another broken one. If ctx has ended, we may have closed the connection
// ourselves, so the pool is not reset.
func (db *DB) giveBack(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() && ctx.Err() == nil {
		db.pool.Reset()
	}
	conn.Release()
}
