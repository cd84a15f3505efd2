package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"payonce/db/migrations"
)

// grantRights gives each role exactly the rights in its file, if CreateRoles has given the role access to this
// database. An installation without roles is not changed. All is done in one transaction, so that no process loses its
// rights in between.
func (m *Migration) grantRights(ctx context.Context, conn *pgx.Conn) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Other migrations and CreateRoles take this lock, too: two that change a table's rights at once would fail.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('payonce roles', 0))"); err != nil {
			return err
		}
		if more, many := any(m).(distributes); many {
			if err := more.beforeGrants(ctx, tx); err != nil {
				return err
			}
		}
		for _, role := range []Role{API, Reconciler} {
			in, err := letIn(ctx, tx.Conn(), role)
			if err == nil && in {
				err = m.grantTo(ctx, tx, role)
			}
			if err != nil {
				return fmt.Errorf("grant rights to %s: %w", role, err)
			}
		}
		return warnOfOtherOwner(ctx, tx, m.log)
	})
}

// warnOfMissingRights logs a warning for each role that CreateRoles has given access to this database, and that has no
// right on payments. Only the release of the schema can give the rights.
func warnOfMissingRights(ctx context.Context, conn *pgx.Conn, log *slog.Logger) error {
	for _, role := range []Role{API, Reconciler} {
		in, err := letIn(ctx, conn, role)
		if err != nil {
			return err
		}
		may := false
		if in {
			err = conn.QueryRow(ctx, "SELECT coalesce(has_any_column_privilege($1, to_regclass('payments'), 'SELECT'), false)",
				role).Scan(&may)
		}
		if err != nil {
			return err
		}
		if in && !may {
			log.WarnContext(ctx, "the role has no rights; run api migrate of the release that the schema is of",
				slog.String("role", string(role)))
		}
	}
	return nil
}

// letIn reports whether CreateRoles has run in this database: then the rights on its schema name the role. It is not
// enough that the role exists. Roles belong to the whole server, and the role may be that of another installation.
func letIn(ctx context.Context, conn *pgx.Conn, role Role) (in bool, err error) {
	err = conn.QueryRow(ctx, `SELECT EXISTS (
		SELECT FROM pg_namespace AS n, aclexplode(n.nspacl) AS a JOIN pg_roles AS r ON r.oid = a.grantee
		WHERE n.nspname = current_schema() AND r.rolname = $1 AND a.privilege_type = 'USAGE')`, role).Scan(&in)
	return in, err
}

func (m *Migration) grantTo(ctx context.Context, tx pgx.Tx, role Role) error {
	revoke, err := fs.ReadFile(migrations.FS(), "roles/revoke.sql")
	if err == nil {
		err = runAnswer(ctx, tx, string(revoke), role)
	}
	if err != nil {
		return err
	}
	file := func() error { return runFile(ctx, tx.Conn(), "roles/"+string(role)+".sql") }
	if more, many := any(m).(distributes); many {
		return more.grant(ctx, tx, role, file)
	}
	return file()
}

// runAnswer runs a query about a role, and then the statements that the query has returned.
func runAnswer(ctx context.Context, tx pgx.Tx, query string, role Role) error {
	rows, err := tx.Query(ctx, query, role)
	if err != nil {
		return err
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, s := range statements {
		if _, err := tx.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// warnOfOtherOwner logs a warning if somebody other than the Migrator owns a table, although the Migrator has access to
// this database. Then the Migrator cannot run the next migration.
func warnOfOtherOwner(ctx context.Context, tx pgx.Tx, log *slog.Logger) error {
	in, err := letIn(ctx, tx.Conn(), Migrator)
	if err != nil || !in {
		return err
	}
	var owner string
	err = tx.QueryRow(ctx, `SELECT pg_get_userbyid(c.relowner) FROM pg_class AS c
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'v') AND pg_get_userbyid(c.relowner) <> $1
		  AND pg_has_role(c.relowner, 'USAGE') LIMIT 1`, Migrator).Scan(&owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err == nil {
		log.WarnContext(ctx, "not everything in the schema is the migrator's; run api roles to hand it over",
			slog.String("migrator", string(Migrator)), slog.String("owner", owner))
	}
	return err
}
