package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Transact runs fn in one transaction, for work whose statements depend on each other. It commits if fn returns nil.
//
// An error of fn is returned as it is, and an error of the database is classified. The transaction has not happened
// then. Only after an AmbiguousError, which comes from the commit, it may have happened.
func (db *DB) Transact(ctx context.Context, fn func(context.Context, pgx.Tx) error) error {
	return db.TransactFor(ctx, db.answer, fn)
}

// TransactFor is Transact with its own time limit, for work that takes longer than a request. Zero is no limit. The
// server's statement_timeout still applies; such work changes it by SET LOCAL.
func (db *DB) TransactFor(ctx context.Context, limit time.Duration, fn func(context.Context, pgx.Tx) error) error {
	ctx, cancel := bounded(ctx, limit)
	defer cancel()
	conn, err := db.borrow(ctx)
	if err != nil {
		return err
	}
	defer db.giveBack(ctx, conn)
	tx, err := conn.Begin(ctx)
	if err != nil {
		return &UnavailableError{Op: "begin transaction", Err: err}
	}
	if err := fn(ctx, tx); err != nil {
		// Roll back even if the caller has given up, because an open transaction keeps its locks.
		rollback, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
		defer cancel()
		_ = tx.Rollback(rollback) // If the connection is lost, the server rolls back by itself.
		return classifyWork(err, conn.Conn().IsClosed())
	}
	return db.servers.ended(tx.Commit(ctx))
}

// OrFind returns the error of a transaction whose work can be read afterwards. If the error is a lost acknowledgement,
// it calls read, which says whether the work is stored. That answer is durable: a failover does not undo it. OrFind
// returns nil if the work is stored, no matter who has stored it. Otherwise it returns the AmbiguousError, because the
// commit may still arrive.
func (db *DB) OrFind(
	ctx context.Context, err error, read func(ctx context.Context, q Statement) (found bool, err error),
) error {
	if _, lost := errors.AsType[*AmbiguousError](err); !lost {
		return err
	}
	var found bool
	Recall(ctx, func(int) (done bool) {
		err := db.Pipeline(ctx, func(ctx context.Context, q Statement) (err error) {
			found, err = read(ctx, q)
			return err
		}, Durable)
		found = found && err == nil
		return found || GaveUp(err)
	})
	if found {
		return nil
	}
	return err
}

// rollbackLimit is the longest wait for the server to acknowledge a rollback. After it, the connection is closed.
const rollbackLimit = time.Second

// classifyWork classifies the failure of a transaction that was not committed. It is certain that nothing was written.
// The question is only whether the database or the caller has failed. An error that does not come from the database is
// returned as it is.
func classifyWork(err error, lost bool) error {
	_, answered := errors.AsType[*pgconn.PgError](err)
	if answered || lost || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return unlessRefused(opRun, err)
	}
	return err
}
