package postgres_test

import (
	"log/slog"
	"strings"
	"testing"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

func TestOneServerIsNotDistributed(t *testing.T) {
	t.Parallel()
	pgtest.NeedsOneServer(t, "it is about one")
	err := distribute(t, pgtest.NewURL(t))
	if err == nil || !strings.Contains(err.Error(), "there is nothing to distribute over") {
		t.Error(err)
	}
}

func TestSchemaOfALaterReleaseIsNotDistributed(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	pgtest.Exec(t, pgtest.Connect(t, url), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)")
	if err := distribute(t, url); err == nil || !strings.Contains(err.Error(), "nothing was distributed") {
		t.Errorf("a schema that it does not know was distributed: %v", err)
	}
}

func distribute(t *testing.T, url string) error {
	t.Helper()
	m, err := postgres.NewMigration(url, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return m.Distribute(t.Context())
}
