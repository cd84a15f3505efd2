package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// What the roles may do is what the statements of their processes need: no statement is without its rights, and no
// right is without its statement. PostgreSQL itself says what a statement needs: EXPLAIN is refused like the statement.

func contains(list []string, s string) bool { return slices.Contains(list, s) }

// explains runs EXPLAIN as a role. A statement that is refused for another reason than a right is a fault of the test.
const explains = `CREATE FUNCTION pg_temp.may(role text, statement text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('role', role, true);
    EXECUTE statement;
    PERFORM set_config('role', 'none', true);
    RETURN true;
EXCEPTION
    WHEN insufficient_privilege THEN
        RETURN false;
END $$`

// What a process must not be able to do even when somebody else has its password. Each line is one attempt, and its
// refusal must be that of a right: if the right were given, the attempt would succeed, or fail otherwise.

// forbidden to both.
var forbidden = []string{
	// Books, dead letters and audit are for ever.
	"DELETE FROM payments", "DELETE FROM refunds", "DELETE FROM dead_letters", "DELETE FROM operator_actions",
	"DELETE FROM ledger_watermarks",
	"DELETE FROM statement_runs", "DELETE FROM statement_breaks", "DELETE FROM tenants", "DELETE FROM api_keys",
	"DELETE FROM goose_db_version",
	// What has happened has happened as it was written, and then.
	"UPDATE idempotency_key_events SET at = at", "UPDATE idempotency_key_events SET reason = reason",
	"UPDATE idempotency_key_events SET actor = actor",
	"UPDATE operator_actions SET at = at", "UPDATE operator_actions SET actor = actor",
	"UPDATE operator_actions SET outcome = outcome", "UPDATE operator_actions SET endpoint_id = endpoint_id",
	`INSERT INTO operator_actions (at, dead_letter_id, dead_letter_version, actor, action, reason, outcome)
		VALUES ('2020-01-01', gen_random_uuid(), 1, 'a', 'dismiss', 'r', 'done')`,
	"UPDATE dead_letters SET evidence = '{}'", "UPDATE dead_letters SET kind = kind",
	"UPDATE dead_letters SET opened_at = opened_at",
	`INSERT INTO dead_letters (id, kind, finding, reason, evidence, status, resolved_at, action, actor, resolution_reason)
		VALUES (gen_random_uuid(), 'k', 'f', 'r', '{}', 'resolved', now(), 'dismiss', 'a', 'r')`,
	// Without its tombstone, a deleted key would begin with a generation that it has had.
	"DELETE FROM idempotency_key_tombstones",
	// Who may call us is a person's decision.
	"INSERT INTO tenants (id, psp_account) VALUES ('evil', 'evil')",
	"INSERT INTO api_keys (id, secret_sha256, scopes) VALUES (gen_random_uuid(), sha256('x'), '{ops:resolve}')",
	"UPDATE api_keys SET expires_at = NULL", "UPDATE api_keys SET scopes = scopes",
	"UPDATE api_keys SET secret_sha256 = sha256('x')",
	// What was received was received so, and a job is about what it was about.
	"UPDATE webhook_events SET body = body", "UPDATE webhook_events SET received_at = received_at",
	"UPDATE river_job SET args = args", "UPDATE river_job SET unique_key = NULL", "UPDATE river_job SET queue = queue",
	// The guards stay, and so does the schema.
	"ALTER TABLE payments DISABLE TRIGGER ALL", "ALTER TABLE idempotency_keys DISABLE TRIGGER idempotency_keys_guard",
	"DROP INDEX payments_psp_charge_unique", "DROP TRIGGER payments_guard ON payments",
	"CREATE TRIGGER evil BEFORE UPDATE ON payments FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
	"CREATE OR REPLACE FUNCTION history_is_append_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
	"ALTER FUNCTION history_is_append_only() OWNER TO CURRENT_USER", "DROP TABLE operator_actions",
	"ALTER TABLE payments OWNER TO CURRENT_USER",
	"CREATE TABLE evil (id integer)", "CREATE SCHEMA evil",
	"CREATE FUNCTION evil() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
	"UPDATE goose_db_version SET is_applied = true",
	"INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)",
	"SET session_replication_role = replica",
	// Nor is there a way around: another role, more of this one, the server's files and programs.
	"SET ROLE payonce_migrator", "SET ROLE payonce", "ALTER ROLE CURRENT_USER SUPERUSER", "CREATE ROLE evil",
	"GRANT payonce_migrator TO CURRENT_USER",
	"SELECT * FROM pg_authid", "SELECT pg_read_file('PG_VERSION')", "COPY tenants TO PROGRAM 'cat'",
	"COPY tenants TO '/tmp/tenants'",
	"SELECT lo_export(1, '/tmp/evil')", "SELECT pg_reload_conf()",
	"SELECT * FROM river_migration", "SELECT * FROM river_notification",
}

// forbiddenByColumn, and forbiddenByColumnToReconciler, are refused by rights on columns.
var (
	forbiddenByColumn = []string{
		"UPDATE tenants SET psp_account = 'evil'", "UPDATE tenants SET psp = 'evil'",
		"UPDATE tenants SET requests_per_second = 1",
		"UPDATE events SET type = type", "UPDATE webhook_endpoints SET url = url",
		`INSERT INTO idempotency_key_events (at, tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
			VALUES ('2020-01-01', 'acme', 'o', 'k', 1, 1, 'owner', 'unknown', 'completed', 'r')`,
		// Who pays what to whom is fixed.
		"UPDATE payments SET amount_minor = amount_minor", "UPDATE payments SET tenant_id = tenant_id",
		"UPDATE payments SET currency = currency",
		"UPDATE payments SET created_at = created_at", "UPDATE refunds SET amount_minor = amount_minor",
		"UPDATE refunds SET payment_id = payment_id",
		`INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status, psp_charge_id)
			VALUES (gen_random_uuid(), 'acme', 'k', 1, 'c', 1, 'USD', 'pm_ok', 'succeeded', 'ch_1')`,
		"UPDATE idempotency_keys SET tenant_id = tenant_id", "UPDATE idempotency_keys SET operation = operation",
		"UPDATE idempotency_keys SET key = key",
		"UPDATE idempotency_keys SET created_at = created_at",
		"UPDATE idempotency_key_tombstones SET key = key", "LOCK TABLE payments IN ACCESS EXCLUSIVE MODE",
	}
	forbiddenByColumnToReconciler = []string{
		"UPDATE idempotency_keys SET attempt = attempt", "UPDATE idempotency_keys SET lease_id = lease_id",
		"UPDATE idempotency_keys SET generation = generation",
		"UPDATE idempotency_keys SET fingerprint = fingerprint", "UPDATE idempotency_keys SET subject = subject",
		"UPDATE idempotency_keys SET reserved_at = reserved_at",
		// A refund with a key is one that the tenant has asked for.
		`INSERT INTO refunds (id, payment_id, tenant_id, idempotency_key, generation, amount_minor, currency, status)
			VALUES (gen_random_uuid(), gen_random_uuid(), 'acme', 'k', 1, 1, 'USD', 'processing')`,
	}
)

// forbiddenToAPI: it only adds and resolves. forbiddenToReconciler: it only resolves.
var (
	forbiddenToAPI = []string{
		"CREATE TEMP TABLE evil (id integer)", "UPDATE ledger_watermarks SET scanned_to = scanned_to",
		"INSERT INTO ledger_watermarks (account, object, scanned_to) VALUES ('a', 'charge', now())",
		"INSERT INTO statement_runs DEFAULT VALUES", "UPDATE statement_breaks SET gone_at = NULL",
		"SELECT * FROM statement_movements", "UPDATE events SET position = 1", "SELECT * FROM event_feed",
		"DELETE FROM events", "DELETE FROM webhook_endpoints", "DELETE FROM event_deliveries",
		"SELECT * FROM river_leader", "SELECT * FROM river_queue",
		"UPDATE river_job SET attempt = 0", "UPDATE river_job SET errors = NULL",
		"INSERT INTO webhook_events (id, received_at, sent_at, body) VALUES ('e', '2020-01-01', now(), '')",
	}
	forbiddenToReconciler = []string{
		`INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at, locked_until, expires_at)
			VALUES ('acme', 'POST /payments', 'k', 'in_progress', sha256('x'), 1, 1, gen_random_uuid(), gen_random_uuid(), now(), now(), now(), now())`,
		`INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status)
			VALUES (gen_random_uuid(), 'acme', 'k', 1, 'c', 1, 'USD', 'pm_ok', 'processing')`,
		"INSERT INTO webhook_events (id, sent_at, body) VALUES ('e', now(), '')",
	}
)

// login is a connection as a role.
func login(t *testing.T, url string, role postgres.Role) *pgx.Conn {
	t.Helper()
	return pgtest.Connect(t, pgtest.As(t, url, role))
}

// sqlstate of the refusal of a statement that is rolled back if it is not refused.
func sqlstate(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return "none"
	case errors.As(err, &refused):
		return refused.Code + " " + refused.Message
	}
	t.Fatalf("%s: %v", sql, err)
	return ""
}

func TestForbiddenThingsAreRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	tables := []string{
		"payments", "refunds", "idempotency_keys", "idempotency_key_events", "dead_letters", "operator_actions",
		"tenants", "api_keys",
		"webhook_events", "ledger_watermarks", "statement_runs", "statement_breaks", "river_job", "river_leader",
		"river_queue", "goose_db_version",
	}
	for role, more := range map[postgres.Role][]string{postgres.API: forbiddenToAPI,
		postgres.Reconciler: forbiddenToReconciler} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			attempts := slices.Concat(forbidden, more, pgtest.ByServers(forbiddenByColumn, nil))
			if role == postgres.Reconciler {
				attempts = append(attempts, pgtest.ByServers(forbiddenByColumnToReconciler, nil)...)
			}
			for _, table := range tables {
				attempts = append(attempts, "TRUNCATE "+table)
				if role == postgres.API {
					attempts = append(attempts, "DELETE FROM "+table)
				}
			}
			conn := login(t, url, role)
			for _, sql := range attempts {
				if got := sqlstate(t, conn, sql); !strings.HasPrefix(got, "42501 ") {
					t.Errorf("%s: %s", sql, got)
				}
			}
		})
	}
}

// The reconciler may make temporary tables, and a temporary table is found before ours of the same name.
func TestTemporaryTableDoesNotBlindATrigger(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	super, conn := login(t, url, "payonce"), login(t, url, postgres.Reconciler)
	for _, each := range []struct {
		as  *pgx.Conn
		sql string
	}{
		{super, `INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at, locked_until, expires_at)
			VALUES ('acme', 'POST /payments', 'k', 'in_progress', sha256('x'), 1, 1, gen_random_uuid(), gen_random_uuid(), now(), now(), now(), now())`},
		{super, `INSERT INTO river_job (kind, args, attempt, max_attempts, state)
			VALUES ('resolve', '{"tenant": "acme", "operation": "POST /payments", "key": "k", "generation": 1}', 3, 3, 'available')`},
		{conn, "CREATE TEMP TABLE dead_letters AS SELECT * FROM public.dead_letters WHERE false"},
		{conn, "CREATE TEMP TABLE idempotency_keys AS SELECT * FROM public.idempotency_keys WHERE false"},
		{conn, "UPDATE river_job SET state = 'discarded', finalized_at = now()"},
	} {
		pgtest.Exec(t, each.as, each.sql)
	}
	var deadLetters int
	var hold string
	err := super.QueryRow(t.Context(),
		"SELECT (SELECT count(*) FROM dead_letters), (SELECT dead_letter_hold::text FROM idempotency_keys)").Scan(
		&deadLetters, &hold)
	if err != nil || deadLetters != 1 || hold != "expiry" {
		t.Fatalf("a job was given up: %d dead letters, the key's hold is %s: %v", deadLetters, hold, err)
	}
}
