package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Durable is a Call. When its transaction is acknowledged, everything that the transaction has read is durable, too. It
// is for reading after a lost acknowledgement.
//
// A row that can be read proves only that its transaction has committed on that server. The commit may still be missing
// on the synchronous standby: if the wait for the standby is cancelled, the row becomes visible all the same, and pgx
// asks for this cancellation when it gives up a connection. A failover would lose such a row. But the log has one
// order. Once a later commit is acknowledged, all earlier commits are as durable as that one.
//
// The read and Durable must be in one transaction. If they were sent one after the other, they might go to the old
// primary and to the new one. Then the new primary would acknowledge what only the old one has. Nobody receives the
// message. It is the smallest thing that can be committed, and it writes no row.
func Durable(ctx context.Context, q Statement) error {
	_, err := q.Exec(ctx, "-- name: Durable :exec\nSELECT pg_logical_emit_message(true, 'payonce', '')\n")
	return err
}

// While the standby is away, each durable read holds a connection until it gives up. So only a few of those that a
// client may ask for again and again run at once. The others wait for a place, without a connection. With the standby,
// a place is free within milliseconds.
const (
	mostDurableReads = 4
	durablePatience  = time.Second
)

// ReadDurably runs a query with Durable, for a client that acts on what was read. It fails with an UnavailableError if
// no place gets free in time.
func (db *DB) ReadDurably(ctx context.Context, query Query) error {
	waiting, cancel := context.WithTimeout(ctx, durablePatience)
	defer cancel()
	select {
	case db.durable <- struct{}{}:
		defer func() { <-db.durable }()
		return db.Pipeline(ctx, query.Call, Durable)
	case <-waiting.Done():
		return &UnavailableError{Op: "wait for a durable read", Err: waiting.Err()}
	}
}

// GaveUp reports whether an acknowledgement is missing because we stopped waiting for it, and not because a connection
// broke. The server may acknowledge no commit at present, so another try may wait just as long.
func GaveUp(err error) bool {
	ambiguous, lost := errors.AsType[*AmbiguousError](err)
	return lost && errors.Is(ambiguous.Err, context.DeadlineExceeded)
}

// Forgetful lists, as "name = value", the settings by which this server may lose a commit that it has acknowledged: in
// a crash, or in a failover if a commit does not wait until the standby has written it to disk. If a reservation is
// lost, its charge stays at the PSP, and our books know nothing of it.
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
