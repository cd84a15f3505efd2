package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Transact runs fn in one transaction, for work whose statements depend on each other. It commits when fn returns nil.
//
// An error of fn's own comes back as it is, and one of the database classified; the transaction has not happened then. Only an
// AmbiguousError, from the commit itself, leaves that open.
func (db *DB) Transact(ctx context.Context, fn func(context.Context, pgx.Tx) error) error {
	return db.TransactFor(ctx, db.answer, fn)
}

// TransactFor is Transact with a limit of its own, for work that takes longer than a request; zero is no limit.
// The server's statement_timeout holds all the same: such work lifts it by SET LOCAL.
func (db *DB) TransactFor(ctx context.Context, limit time.Duration, fn func(context.Context, pgx.Tx) error) error {
	var cancel context.CancelFunc
	if limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
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
		// Also when the caller has given up: an open transaction keeps its locks.
		rollback, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
		defer cancel()
		_ = tx.Rollback(rollback) // a connection that is gone has rolled back
		return classifyWork(opRun, err, conn.Conn().IsClosed())
	}
	return db.classifyEnd(tx.Commit(ctx))
}

// TransactOrFind is Transact for work that can be read afterwards. After a lost acknowledgement, read is a Call that tells whether the work is there;
// the answer is one that a failover does not undo. TransactOrFind returns nil when the work is there, whoever has done it, and otherwise
// the AmbiguousError: a no is not final, for the commit may still be under way.
func (db *DB) TransactOrFind(
	ctx context.Context, fn func(context.Context, pgx.Tx) error, read func(ctx context.Context, q Statement) (found bool, err error),
) error {
	err := db.Transact(ctx, fn)
	var lost *AmbiguousError
	if !errors.As(err, &lost) {
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

// rollbackLimit is the longest wait for the server to acknowledge a rollback. After it the connection is dropped.
const rollbackLimit = time.Second

// classifyWork names the failure of a transaction that was never committed: there is no doubt that nothing happened, only about
// whose fault it is. What does not come from the database is the caller's own and stays as it is.
func classifyWork(op string, err error, lost bool) error {
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR" && !shortOfMeans(pg.Code):
		return err
	case errors.As(err, &pg), lost, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &UnavailableError{Op: op, Err: err}
	}
	return err
}
