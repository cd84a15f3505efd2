package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// bounded ends a wait for a server that does not answer.
func (db *DB) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if db.answer <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, db.answer)
}

// borrow takes a connection within the acquire limit. Nothing has been sent when it fails.
func (db *DB) borrow(ctx context.Context) (*pgxpool.Conn, error) {
	if db.acquire > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, db.acquire)
		defer cancel()
	}
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, &UnavailableError{Op: "acquire connection", Err: err}
	}
	return conn, nil
}

// giveBack returns a connection to the pool. One that has died under us seldom died alone, and the pool does not look after
// connections that were in use a moment ago: they go with it, or each of the few tries that are left could meet
// another dead one. A connection that we have given up ourselves says nothing about the others.
func (db *DB) giveBack(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() && ctx.Err() == nil {
		db.pool.Reset()
	}
	conn.Release()
}
