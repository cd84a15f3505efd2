package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// What a full disk does to it is for lab/failover, which has one. Here: that the disk is written to, and not asked more
// often than it must.
func TestRoomIsFoundOutByWritingToTheDisk(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	db, err := postgres.Open(t.Context(), url, limits())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	room := postgres.NewRoom(db, func() time.Time { return now })
	for range 3 {
		if err := room.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(5 * time.Second)
	if err := room.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.Close() // a session that ends has told what it did
	other, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	const tries, megabyte = 2, 1 << 20
	var files, bytes int64
	deadline, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for bytes < tries*megabyte {
		row := other.QueryRow(deadline,
			"SELECT temp_files, temp_bytes FROM pg_stat_database WHERE datname = current_database()")
		if err := row.Scan(&files, &bytes); err != nil {
			t.Fatalf("%d bytes in %d files: %v", bytes, files, err)
		}
	}
	if files != tries {
		t.Errorf("%d files for %d tries", files, tries)
	}
}
