package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// errDiskFull is the error of Room.Check. It ends when the disk has space again.
var errDiskFull = errors.New("the database's disk is full; make room there")

// roomFresh is how long a result of Check is used again, because many may ask /readyz, and it needs no login.
const roomFresh = 5 * time.Second

// Room checks whether the disk of the database has space.
type Room struct {
	db  *DB
	now func() time.Time

	mu    sync.Mutex
	tried time.Time
	full  error // the result of the last try
}

// NewRoom returns a Room for the disk of db.
func NewRoom(db *DB, now func() time.Time) *Room { return &Room{db: db, now: now} }

// Check fails while the disk is full. It reports no other fault of the database.
//
// With a full disk, the server still answers, reads, and writes into pages that have space. Only a write that needs a
// new page fails, with 53100. So neither a ping nor the update of a small row shows it. It is not enough to remember
// the last payment that failed, either: a process that is not ready gets no payments, and would stay not ready for
// ever. So Check makes the server write a megabyte to a temporary file, next to the tables. That takes milliseconds,
// needs no right and no table, and leaves nothing behind.
func (r *Room) Check(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.now(); r.tried.IsZero() || now.Sub(r.tried) >= roomFresh {
		err := r.db.tryDisk(ctx)
		if pg, answered := errors.AsType[*pgconn.PgError](err); answered && pg.Code == diskFull {
			r.tried, r.full = now, errDiskFull
		} else if err == nil {
			r.tried, r.full = now, nil
		}
	}
	return r.full
}

const diskFull = "53100"

// tryDisk makes the server write to its disk: data beyond work_mem goes to a file.
func (db *DB) tryDisk(ctx context.Context) error {
	return db.Pipeline(ctx,
		setting("work_mem", "64kB"),
		execute("-- name: TryDisk :one\nWITH page AS MATERIALIZED (SELECT repeat('x', 8192) AS bytes FROM generate_series(1, 128)) SELECT count(bytes) FROM page"),
	)
}
