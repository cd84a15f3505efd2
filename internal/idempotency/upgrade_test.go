package idempotency

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"payonce/db/migrations"
	"payonce/test/pgtest"
)

// Keys that are there when migration 13 comes get what it asks for, whatever their status. Nobody knows any more how long one
// has been unknown: its settle window begins with the migration.
func TestKeysOfEveryStatusOutliveTheMigration(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	admin := connect(t, server.URL("postgres"))
	run(t, admin, "CREATE DATABASE upgraded")
	t.Cleanup(func() {
		last := connect(t, server.URL("postgres"))
		_, _ = last.Exec(context.Background(), "DROP DATABASE upgraded WITH (FORCE)")
	})
	conn := connect(t, server.URL("upgraded"))
	db := stdlib.OpenDB(*conn.Config())
	defer db.Close()
	schema, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS(), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := schema.UpTo(t.Context(), 12); err != nil {
		t.Fatal(err)
	}
	run(t, conn, `SET session_replication_role = replica;
		INSERT INTO idempotency_keys (scope, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at,
			expires_at, locked_until, reconcile_after, finished_at, response_status, response_content_type, response_location,
			response_schema_version, response_body)
		SELECT 'acme POST /payments', 'order-of-' || status, status, sha256('apple'), 1, 1, gen_random_uuid(), gen_random_uuid(), now(), now(),
			now(), CASE WHEN status = 'in_progress' THEN now() END, CASE WHEN status = 'unknown' THEN now() END,
			CASE WHEN status NOT IN ('in_progress', 'unknown') THEN now() END, CASE WHEN done THEN 201 END, CASE WHEN done THEN '' END,
			CASE WHEN done THEN '' END, CASE WHEN done THEN 1 END, CASE WHEN done THEN ''::bytea END
		FROM (SELECT status, status IN ('completed', 'expired') AS done
			FROM unnest(ARRAY['in_progress', 'completed', 'failed_retryable', 'unknown', 'expired']) AS status) AS made`)
	if _, err := schema.UpTo(t.Context(), 13); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), `SELECT concat_ws(' ', status, lookup_failures, CASE WHEN unknown_since <= clock_timestamp() THEN 'settles' END,
		CASE WHEN delete_after > clock_timestamp() THEN 'kept' END) FROM idempotency_keys ORDER BY status`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"completed 0", "expired 0 kept", "failed_retryable 0", "in_progress 0", "unknown 0 settles"}, got); diff != "" {
		t.Errorf("keys differ:\n%s", diff)
	}
	// The guard is on its post again.
	_, err = conn.Exec(t.Context(), "RESET session_replication_role; UPDATE idempotency_keys SET lease_id = lease_id WHERE status = 'expired'")
	if got := refusedBy(t, err); got != "idempotency_keys_edge_is_legal" {
		t.Errorf("an expired key that is touched is refused by %q", got)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.WithoutCancel(t.Context()), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
