package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// Installation is the id of this installation. The database is asked until it has told the id once: a process may start
// before its database. The id is read durably, so that no failover undoes what our objects at the PSP are marked with.
func (db *DB) Installation(ctx context.Context) (id string, err error) {
	if known := db.installation.Load(); known != nil {
		return *known, nil
	}
	err = db.ReadDurably(ctx, func(ctx context.Context, q DBTX) error { return readInstallation(ctx, q, &id) })
	if err != nil {
		return "", err
	}
	db.installation.Store(&id)
	return id, nil
}

func readInstallation(ctx context.Context, q DBTX, id *string) error {
	if err := q.QueryRow(ctx, "SELECT id::text FROM installation").Scan(id); err != nil {
		return fmt.Errorf("read the id of this installation: %w", err)
	}
	return nil
}

// ErrOtherInstallation says that the database has another id than this process goes on using: it was renewed, or
// another database is in its place.
var ErrOtherInstallation = errors.New("the id of the installation has changed: start this process again")

// CheckInstallation reads the id, and fails with ErrOtherInstallation if the process has read another one.
func (db *DB) CheckInstallation(ctx context.Context) error {
	known, err := db.Installation(ctx)
	if err != nil {
		return err
	}
	var id string
	if err := readInstallation(ctx, db.Reader(), &id); err != nil {
		return err
	}
	if id != known {
		return ErrOtherInstallation
	}
	return nil
}

// SetInstallation makes this database the installation with this id. A process that runs keeps the old id until it
// starts again, and is not ready meanwhile.
func (db *DB) SetInstallation(ctx context.Context, id uuid.UUID) error {
	if _, err := db.pool.Exec(ctx, "UPDATE installation SET id = $1", id); err != nil {
		return fmt.Errorf("set the id of this installation: %w", err)
	}
	return nil
}
