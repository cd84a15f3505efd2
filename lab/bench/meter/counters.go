package meter

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Counters are what PostgreSQL has counted so far. Only differences mean something; see Since.
//
// The first two are exact at any moment. All others are told by each session only now and then: at most once a second
// while it works, and ten seconds after it has fallen idle; see AtRest. Apart from Commits and Tables they are those
// of the whole server, so nobody else may write there.
type Counters struct {
	// Writers is how many transactions have written: each has taken a number. So has what the server does by itself
	// (autovacuum's ANALYZE), and each subtransaction that has written.
	Writers int64
	// InsertLSN is the position in the WAL, in bytes. Its difference is WAL as it is stored, page headers included.
	InsertLSN int64

	WALBytes          int64
	WALRecords        int64
	WALFullPageImages int64
	Commits           int64 // of this database, those that only read as well, without the meter's own
	Tables            map[string]TableCounters
}

// TableCounters are how many rows of a table were updated, and how many of those without touching an index.
type TableCounters struct {
	Updates    int64
	HOTUpdates int64
}

// Since is what was counted after the earlier reading. A table that it did not have is left out.
func (c Counters) Since(earlier Counters) Counters {
	difference := Counters{
		Writers:           c.Writers - earlier.Writers,
		InsertLSN:         c.InsertLSN - earlier.InsertLSN,
		WALBytes:          c.WALBytes - earlier.WALBytes,
		WALRecords:        c.WALRecords - earlier.WALRecords,
		WALFullPageImages: c.WALFullPageImages - earlier.WALFullPageImages,
		Commits:           c.Commits - earlier.Commits,
		Tables:            map[string]TableCounters{},
	}
	for name, now := range c.Tables {
		if before, found := earlier.Tables[name]; found {
			difference.Tables[name] = TableCounters{Updates: now.Updates - before.Updates,
				HOTUpdates: now.HOTUpdates - before.HOTUpdates}
		}
	}
	return difference
}

// HOTShare is the part of the updates that touched no index, 0 to 1; false when there was no update.
func (c TableCounters) HOTShare() (float64, bool) {
	if c.Updates == 0 {
		return 0, false
	}
	return float64(c.HOTUpdates) / float64(c.Updates), true
}

// ReadCounters reads what the server has been told by now, at once. It takes PostgreSQL 14. Tables are named as in SQL;
// one that does not exist is an error.
func ReadCounters(ctx context.Context, conn *pgx.Conn, tables ...string) (Counters, error) {
	if err := tellOwn(ctx, conn); err != nil {
		return Counters{}, err
	}
	var c Counters
	err := unseen(ctx, conn, func(tx pgx.Tx) (err error) {
		c, err = readTx(ctx, tx, tables)
		return err
	})
	if err != nil {
		return Counters{}, fmt.Errorf("read the counters of PostgreSQL: %w", err)
	}
	return c, nil
}

func readTx(ctx context.Context, tx pgx.Tx, tables []string) (Counters, error) {
	c := Counters{Tables: map[string]TableCounters{}}
	// The snapshot's xmax is the next number behind all transactions that have finished. (Not pg_current_xact_id():
	// that takes a number.)
	err := tx.QueryRow(ctx, `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
			(pg_current_wal_insert_lsn() - '0/0')::bigint,
			wal_bytes::bigint, wal_records, wal_fpi,
			(SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())
		FROM pg_stat_wal`).
		Scan(&c.Writers, &c.InsertLSN, &c.WALBytes, &c.WALRecords, &c.WALFullPageImages, &c.Commits)
	if err != nil {
		return Counters{}, err
	}
	rows, err := tx.Query(ctx, `SELECT named, coalesce(pg_stat_get_tuples_updated(named::regclass), 0),
			coalesce(pg_stat_get_tuples_hot_updated(named::regclass), 0)
		FROM unnest($1::text[]) AS named`, tables)
	if err != nil {
		return Counters{}, err
	}
	var name string
	var table TableCounters
	_, err = pgx.ForEachRow(rows, []any{&name, &table.Updates, &table.HOTUpdates}, func() error {
		c.Tables[name] = table
		return nil
	})
	return c, err
}

// unseen runs reads of ours in a transaction that is rolled back, so that it is not among the commits.
func unseen(ctx context.Context, conn *pgx.Conn, read func(pgx.Tx) error) error {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	if err := read(tx); err != nil {
		_ = tx.Rollback(ctx)
		return err
	}
	return tx.Rollback(ctx)
}
