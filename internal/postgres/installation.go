package postgres

import (
	"context"
	"fmt"
)

// Installation is the id of this installation. The database is asked until it has told the id once: a process may start
// before its database. RenewInstallation says who must start again.
func (db *DB) Installation(ctx context.Context) (string, error) {
	if id := db.installation.Load(); id != nil {
		return *id, nil
	}
	var id string
	if err := db.Reader().QueryRow(ctx, "SELECT id::text FROM installation").Scan(&id); err != nil {
		return "", fmt.Errorf("read the id of this installation: %w", err)
	}
	db.installation.Store(&id)
	return id, nil
}

// RenewInstallation makes this database another installation than the one that it is a copy of. A process that runs
// keeps the old id until it starts again.
func (db *DB) RenewInstallation(ctx context.Context) (id string, err error) {
	err = db.pool.QueryRow(ctx, "UPDATE installation SET id = gen_random_uuid() RETURNING id::text").Scan(&id)
	if err != nil {
		return "", fmt.Errorf("renew the id of this installation: %w", err)
	}
	return id, nil
}
