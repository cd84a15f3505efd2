package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// errDiskFull is what Room says. It ends by itself once there is room.
var errDiskFull = errors.New("the database's disk is full; make room there")

// roomFresh is how long an answer of Room is good for: /readyz may be asked by many, and by anybody who reaches it.
const roomFresh = 5 * time.Second

// Room knows whether the disk of the database has room.
type Room struct {
	db  *DB
	now func() time.Time

	mu    sync.Mutex
	tried time.Time
	full  error // of the last try
}

// NewRoom returns a Room for the disk of db.
func NewRoom(db *DB, now func() time.Time) *Room { return &Room{db: db, now: now} }

// Check fails while the disk is full. Whatever else is wrong with the database is not its business.
//
// On a full disk the server still answers, reads, and writes what fits into pages that it has: only what needs a new page fails, by 53100. So neither
// a ping nor an update of one small row finds out. To remember the last payment that failed would do, as long as somebody pays; but a process that is not
// ready is sent nobody, and would never be ready again. So this tries by itself: it has the server write a megabyte to a temporary file, next to
// the tables. That takes milliseconds, needs no right and no table, and leaves nothing behind.
func (r *Room) Check(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.now(); r.tried.IsZero() || now.Sub(r.tried) >= roomFresh {
		err := r.db.tryDisk(ctx)
		var pg *pgconn.PgError
		switch {
		case errors.As(err, &pg) && pg.Code == diskFull:
			r.tried, r.full = now, errDiskFull
		case err == nil:
			r.tried, r.full = now, nil
		}
	}
	return r.full
}

const diskFull = "53100"

// tryDisk makes the server write to its disk: what is more than work_mem goes to a file.
func (db *DB) tryDisk(ctx context.Context) error {
	return db.Pipeline(ctx,
		setting("work_mem", "64kB"),
		execute("-- name: TryDisk :one\nWITH page AS MATERIALIZED (SELECT repeat('x', 8192) AS bytes FROM generate_series(1, 128)) SELECT count(bytes) FROM page"),
	)
}
