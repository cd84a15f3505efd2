package postgres_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// ofType are values for parameters: whatever fits their type.
var ofType = map[string]string{
	"text": "acme", "text[]": "{acme}", "uuid": "01937b2e-7c41-7c3a-9d0e-5a1f0c9b2d44",
	"uuid[]": "{01937b2e-7c41-7c3a-9d0e-5a1f0c9b2d44}",
	"bytea":  `\x00`, "bytea[]": `{"\\x00"}`, "integer": "1", "integer[]": "{1}", "smallint": "1", "smallint[]": "{1}",
	"bigint": "1", "bigint[]": "{1}",
	"boolean": "true", "boolean[]": "{true}", "interval": "1 s", "timestamp with time zone": "2026-01-01Z",
	"date":  "2026-01-01",
	"jsonb": "{}", "jsonb[]": "{null}", "name": "acme", "oid": "1", "bigint[][]": "{1}", "regclass": "payments",
}

// Citus refuses some statements when it plans them, whatever is in the tables.
func TestCitusPlansEveryStatement(t *testing.T) {
	if !pgtest.OnCitus() {
		t.Skip("for make citus: " + pgtest.Citus + " is not set")
	}
	conn, err := pgx.Connect(t.Context(), pgtest.NewURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	all := statements(t)
	if _, err := conn.Exec(t.Context(), strings.ReplaceAll(all["statement.createTables"], "ON COMMIT DROP",
		"")); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "INSERT INTO tenants VALUES ('acme', 'acme')"); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, "river.") || !runs(postgres.API, name) && !runs(postgres.Reconciler, name) ||
			strings.HasPrefix(name, "postgres.") {
			continue
		}
		if err := try(t.Context(), conn, all[name]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// try runs a statement in a transaction that is rolled back, and fails if Citus cannot plan it.
func try(ctx context.Context, conn *pgx.Conn, sql string) (err error) {
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	defer func() {
		_, end := conn.Exec(ctx, "ROLLBACK")
		err = errors.Join(err, end)
	}()
	d, err := conn.PgConn().Prepare(ctx, "", sql, nil)
	if err != nil {
		return err
	}
	var values [][]byte
	for _, oid := range d.ParamOIDs {
		var name string
		if err := conn.QueryRow(ctx, "SELECT format_type($1, NULL)", oid).Scan(&name); err != nil {
			return err
		}
		value, ok := ofType[name]
		if !ok {
			return errors.New("no value of type " + name)
		}
		values = append(values, []byte(value))
	}
	_, err = conn.PgConn().ExecParams(ctx, sql, values, d.ParamOIDs, nil, nil).Close()
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == "0A000" || strings.HasPrefix(refused.Code, "42") ||
		strings.HasPrefix(refused.Code, "XX")) {
		return err
	}
	return nil
}
