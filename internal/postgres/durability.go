package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Forgetful lists, as "name = value", the settings of this server by which it may acknowledge a commit and lose it. A reservation that was forgotten
// leaves a charge behind that nothing of ours asked for.
func (db *DB) Forgetful(ctx context.Context) ([]string, error) {
	var found []string
	err := db.Read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, `SELECT coalesce(array_agg(name || ' = ' || setting ORDER BY name), '{}') FROM pg_settings
			WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'`).Scan(&found)
	})
	if err != nil {
		return nil, fmt.Errorf("read durability settings: %w", err)
	}
	return found, nil
}
