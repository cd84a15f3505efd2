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

// Role is a login of the database server, named alike in every installation.
type Role string

// The three roles. Migrator owns the schema; what the other two may do is in db/migrations/roles.
const (
	Migrator   Role = "payonce_migrator"
	API        Role = "payonce_api"
	Reconciler Role = "payonce_reconciler"
)

// Roles lists them.
func Roles() []Role { return []Role{Migrator, API, Reconciler} }

// CreateRoles makes the roles, unless they exist, and gives them the database at url: what was migrated so far becomes the
// Migrator's. url is an administrator's: a superuser, or whoever may create roles and owns the database. Where the roles exist and the database is
// theirs, anybody who owns the database may run it. Safe to repeat, and at the same time in other databases of the server.
//
// A role without a password here keeps the one that it has; a new one has none, and logs in by other means. The server gets to see no password, only what
// it needs to verify it.
//
// The rights on tables come with Migrate.
func CreateRoles(ctx context.Context, url string, passwords map[Role]string, log *slog.Logger) error {
	verifiers := map[Role]string{}
	for role, password := range passwords {
		v, err := scramVerifier(password)
		if err != nil {
			return fmt.Errorf("password of %s: %w", role, err)
		}
		verifiers[role] = v
	}
	conn, err := connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := runFile(ctx, conn, "roles/create.sql"); err != nil {
		return fmt.Errorf("create roles: %w", err)
	}
	for _, role := range Roles() {
		if verifiers[role] == "" {
			continue
		}
		// A verifier holds nothing that a literal would have to escape.
		if _, err := conn.Exec(ctx, fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", role, verifiers[role])); err != nil {
			return fmt.Errorf("set password of %s: %w", role, err)
		}
	}
	log.InfoContext(ctx, "roles are there", slog.Int("passwords", len(verifiers)))
	return nil
}

// grantRights gives each role exactly what its file says, if there is such a role: who uses none is none the worse. One transaction, so that no
// process is without its rights in between.
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
		for _, role := range []Role{API, Reconciler} {
			if err := grantTo(ctx, tx, role); err != nil {
				return fmt.Errorf("grant rights to %s: %w", role, err)
			}
		}
		return warnOfOtherOwner(ctx, tx, log)
	})
}

func grantTo(ctx context.Context, tx pgx.Tx, role Role) error {
	var exists bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", role).Scan(&exists); err != nil || !exists {
		return err
	}
	revoke, err := fs.ReadFile(migrations.FS(), "roles/revoke.sql")
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, string(revoke), role)
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
	return runFile(ctx, tx.Conn(), "roles/"+string(role)+".sql")
}

// warnOfOtherOwner tells who migrates as somebody else than the Migrator that the Migrator cannot go on from there.
func warnOfOtherOwner(ctx context.Context, tx pgx.Tx, log *slog.Logger) error {
	var owner string
	err := tx.QueryRow(ctx, `SELECT pg_get_userbyid(c.relowner) FROM pg_class AS c
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'v') AND pg_get_userbyid(c.relowner) <> $1
		  AND pg_has_role(c.relowner, 'USAGE') AND EXISTS (SELECT FROM pg_roles WHERE rolname = $1) LIMIT 1`, Migrator).Scan(&owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err == nil {
		log.WarnContext(ctx, "not everything in the schema is the migrator's; run api roles to hand it over",
			slog.String("migrator", string(Migrator)), slog.String("owner", owner))
	}
	return err
}

func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errUnreadableURL
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

// runFile runs a file of statements as one message, which makes it one transaction where there is none.
func runFile(ctx context.Context, conn *pgx.Conn, name string) error {
	sql, err := fs.ReadFile(migrations.FS(), name)
	if err != nil {
		return err
	}
	_, err = conn.PgConn().Exec(ctx, string(sql)).ReadAll()
	return err
}
