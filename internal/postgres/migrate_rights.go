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

// grantRights gives each role exactly what its file says, if CreateRoles has let it into this database: who uses none is none the worse. One
// transaction, so that no process is without its rights in between.
func grantRights(ctx context.Context, cfg *pgx.ConnConfig, log *slog.Logger) error {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// With other migrations, and with CreateRoles: two that change the rights on one table at once are an error.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('payonce roles', 0))"); err != nil {
			return err
		}
		spread, err := isSpread(ctx, tx)
		if err != nil {
			return err
		}
		for _, role := range []Role{API, Reconciler} {
			in, err := letIn(ctx, tx, role)
			if err == nil && in {
				err = grantTo(ctx, tx, role, spread)
			}
			if err != nil {
				return fmt.Errorf("grant rights to %s: %w", role, err)
			}
		}
		return warnOfOtherOwner(ctx, tx, log)
	})
}

// letIn tells whether CreateRoles ran in this database: then the role is named in the rights on its schema. That it exists says nothing. Roles are the
// server's, and it may be another installation's, whose processes and password are none of ours.
func letIn(ctx context.Context, tx pgx.Tx, role Role) (in bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (
		SELECT FROM pg_namespace AS n, aclexplode(n.nspacl) AS a JOIN pg_roles AS r ON r.oid = a.grantee
		WHERE n.nspname = current_schema() AND r.rolname = $1 AND a.privilege_type = 'USAGE')`, role).Scan(&in)
	return in, err
}

// isSpread asks whether Citus has the tables of tenants. Rights on one table after another then go over one connection to each worker.
func isSpread(ctx context.Context, tx pgx.Tx) (spread bool, err error) {
	if err := tx.QueryRow(ctx, distributed).Scan(&spread); err != nil || !spread {
		return false, err
	}
	_, err = tx.Exec(ctx, "SET LOCAL citus.multi_shard_modify_mode TO 'sequential'")
	return true, err
}

func grantTo(ctx context.Context, tx pgx.Tx, role Role, spread bool) error {
	if err := runAnswer(ctx, tx, "roles/revoke.sql", role); err != nil {
		return err
	}
	if !spread {
		return runFile(ctx, tx.Conn(), "roles/"+string(role)+".sql")
	}
	// Citus refuses to hand on rights on columns. So the role's file is run here alone, and its rights are then given again on whole tables, everywhere.
	if _, err := tx.Exec(ctx, "SET LOCAL citus.enable_ddl_propagation TO off"); err != nil {
		return err
	}
	if err := runFile(ctx, tx.Conn(), "roles/"+string(role)+".sql"); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "SET LOCAL citus.enable_ddl_propagation TO on"); err != nil {
		return err
	}
	return runAnswer(ctx, tx, "citus/widen.sql", role)
}

// runAnswer runs the statements that a query about a role answers.
func runAnswer(ctx context.Context, tx pgx.Tx, name string, role Role) error {
	query, err := fs.ReadFile(migrations.FS(), name)
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, string(query), role)
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

// warnOfOtherOwner tells who migrates as somebody else than the Migrator, where that one has been let in, that it cannot go on from there.
func warnOfOtherOwner(ctx context.Context, tx pgx.Tx, log *slog.Logger) error {
	in, err := letIn(ctx, tx, Migrator)
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
