package postgres

import (
	"context"
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
// The rights on tables come with Migrate. Whoever owned the tables until now has no more right to them than he has as a member of the Migrator.
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

// DatabaseRights are statements that give the roles what of a database itself is theirs, as CreateRoles does. They are for a copy of a database
// that has them: what is granted inside of it comes along with a template, what is granted on it does not. Who runs them
// owns the copy, or is a superuser, and need not be connected to it.
func DatabaseRights(database string) string {
	name := pgx.Identifier{database}.Sanitize()
	return fmt.Sprintf(`REVOKE TEMPORARY ON DATABASE %[1]s FROM PUBLIC;
		GRANT CONNECT ON DATABASE %[1]s TO %[2]s, %[3]s, %[4]s;
		GRANT TEMPORARY ON DATABASE %[1]s TO %[4]s`, name, Migrator, API, Reconciler)
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
