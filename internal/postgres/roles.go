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

// Role is a login of the database server. It has the same name in every installation.
type Role string

// The three roles. Migrator owns the schema. The rights of the other two are in db/migrations/roles.
const (
	Migrator   Role = "payonce_migrator"
	API        Role = "payonce_api"
	Reconciler Role = "payonce_reconciler"
)

// Roles lists all roles.
func Roles() []Role { return []Role{Migrator, API, Reconciler} }

// CreateRoles creates the roles that do not exist yet, and gives them access to the database at url. The tables that
// exist become the Migrator's. url must be that of a superuser, or of a user who may create roles and owns the
// database. If the roles exist already and have this database, the owner of the database may run it without the right
// to create roles. CreateRoles may be repeated, and may run at the same time in other databases of the server.
//
// A role without a password here keeps its password. A new role without one has no password, and logs in by other
// means. The server does not get the passwords, but only the verifiers that it stores.
//
// Migrate grants the rights on tables. A former owner of the tables keeps only the rights of a member of the Migrator.
func CreateRoles(ctx context.Context, url string, passwords map[Role]string, log *slog.Logger) error {
	verifiers := map[Role]string{}
	for role, password := range passwords {
		v, err := scramVerifier(password)
		if err != nil {
			return fmt.Errorf("password of %s: %w", role, err)
		}
		verifiers[role] = v
	}
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return errUnreadableURL
	}
	return connected(ctx, cfg, func(conn *pgx.Conn) error {
		if err := runFile(ctx, conn, "roles/create.sql"); err != nil {
			return fmt.Errorf("create roles: %w", err)
		}
		for _, role := range Roles() {
			if verifiers[role] == "" {
				continue
			}
			// A verifier has no character that must be escaped in a literal.
			if _, err := conn.Exec(ctx, fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", role, verifiers[role])); err != nil {
				return fmt.Errorf("set password of %s: %w", role, err)
			}
		}
		log.InfoContext(ctx, "roles are there", slog.Int("passwords", len(verifiers)))
		return nil
	})
}

// DatabaseRights are the statements that give the roles their rights on a database itself, as CreateRoles does. They
// are for a database that is copied from a template. The copy has the rights inside the template, but not the rights on
// the template. The statements must be run by the owner of the copy or a superuser, who need not be connected to it.
func DatabaseRights(database string) string {
	name := pgx.Identifier{database}.Sanitize()
	return fmt.Sprintf(`REVOKE TEMPORARY ON DATABASE %[1]s FROM PUBLIC;
		GRANT CONNECT ON DATABASE %[1]s TO %[2]s, %[3]s, %[4]s;
		GRANT TEMPORARY ON DATABASE %[1]s TO %[4]s`, name, Migrator, API, Reconciler)
}

// connected runs do with a connection of its own.
func connected(ctx context.Context, cfg *pgx.ConnConfig, do func(*pgx.Conn) error) error {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return errors.Join(do(conn), conn.Close(context.WithoutCancel(ctx)))
}

// runFile runs a file of statements as one message. If no transaction is open, the message is a transaction of its own.
func runFile(ctx context.Context, conn *pgx.Conn, name string) error {
	sql, err := fs.ReadFile(migrations.FS(), name)
	if err != nil {
		return err
	}
	_, err = conn.PgConn().Exec(ctx, string(sql)).ReadAll()
	return err
}
