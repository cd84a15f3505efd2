package meter

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// tellsOwn is the first version of PostgreSQL in which a session can be asked to tell what it has counted, and in
	// which one that idles tells it unasked.
	tellsOwn = 15_00_00
	// idleTells is how long after it has fallen idle a session tells (PGSTAT_IDLE_INTERVAL, 10 s), and some more.
	idleTells = 10*time.Second + 500*time.Millisecond
	// lookInterval is how often we look whether all have.
	lookInterval = 200 * time.Millisecond
)

// AtRest reads the counters once every session has told what it has counted, when the load has ended. That takes up to
// ten and a half seconds after the last statement, because a session keeps what it has counted for as long; no time at
// all when those sessions were closed, since one that ends tells. So close the pool first, or measure long enough to
// read once.
//
// It takes PostgreSQL 15 (before, an idle session never tells) and the right to see the sessions of others. It waits
// for as long as ctx allows; a session inside a transaction holds it up.
func AtRest(ctx context.Context, conn *pgx.Conn, tables ...string) (Counters, error) {
	if version, err := versionNumber(ctx, conn); err != nil {
		return Counters{}, err
	} else if version < tellsOwn {
		return Counters{}, fmt.Errorf("wait for the counters of PostgreSQL: version 15 is needed, this is %d",
			version/10000)
	}
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		keeping, err := sessionsKeeping(ctx, conn, idleTells)
		if err != nil {
			return Counters{}, fmt.Errorf("wait for the counters of PostgreSQL: %w", err)
		}
		if keeping == 0 {
			return ReadCounters(ctx, conn, tables...)
		}
		select {
		case <-ctx.Done():
			return Counters{}, fmt.Errorf("wait for the counters of PostgreSQL: %d sessions have yet to tell theirs: %w",
				keeping, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// sessionsKeeping counts the other sessions of clients, of all databases, that may keep something to themselves.
func sessionsKeeping(ctx context.Context, conn *pgx.Conn, idle time.Duration) (keeping int, err error) {
	err = unseen(ctx, conn, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
				AND (state = 'idle' AND state_change < clock_timestamp() - $1::interval) IS NOT TRUE`, idle).Scan(&keeping)
	})
	return keeping, err
}

// tellOwn has the meter's session report what it has counted. The connection may have been used before.
// In versions that can't be asked to, it is told within the second that a session takes at most while it works.
func tellOwn(ctx context.Context, conn *pgx.Conn) error {
	version, err := versionNumber(ctx, conn)
	if err != nil || version < tellsOwn {
		return err
	}
	err = unseen(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT pg_stat_force_next_flush()")
		return err
	})
	if err != nil {
		return fmt.Errorf("tell the counters of this session: %w", err)
	}
	return nil
}

// versionNumber is 150018 for version 15.18.
func versionNumber(ctx context.Context, conn *pgx.Conn) (version int, err error) {
	err = unseen(ctx, conn, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version)
	})
	if err != nil {
		return 0, fmt.Errorf("read the version of PostgreSQL: %w", err)
	}
	return version, nil
}
