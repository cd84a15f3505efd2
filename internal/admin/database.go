package admin

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgconn"

	"payonce/internal/cli"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
)

const rolesHelp = `Usage: api roles

Creates the database roles that do not exist yet, and gives the roles access to the database at DATABASE_URL. If the
database has tables already, payonce_migrator becomes their owner. The database then refuses processes that still use the
former owner: restart these processes at once (README, "Run it for real").

For this command, DATABASE_URL must name an administrator: a superuser, or a user that may create roles and owns the
database. Afterwards, run api migrate as payonce_migrator, which gives the other roles their rights. You may run api roles
again at any time.

  payonce_migrator    for api migrate, api keys and api tenants; this role owns the tables
  payonce_api         for api serve
  payonce_reconciler  for reconciler

If you give a password, the role gets this password. The database gets only a SCRAM verifier of the password. If you give
no password, an existing role keeps its password. A new role then has no password, and logs in with a certificate, with a
token of your cloud, or with a password that you set later.

Settings, as environment variables:
  MIGRATOR_PASSWORD, API_PASSWORD, RECONCILER_PASSWORD
`

// Roles is the command api roles.
func Roles(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if asked, err := cli.Help(stdout, rolesHelp, "api roles", args); asked || err != nil {
		return err
	}
	settings, err := load(cli.Quiet(getenv))
	if err != nil {
		return err
	}
	// Settings of this command alone: no process that serves gets to see them.
	given := map[postgres.Role]string{}
	for role, name := range map[postgres.Role]string{
		postgres.Migrator: "MIGRATOR_PASSWORD", postgres.API: "API_PASSWORD",
		postgres.Reconciler: "RECONCILER_PASSWORD",
	} {
		if password := getenv(name); password != "" {
			given[role] = password
		}
	}
	log := telemetry.NewTextLogger(stderr, settings.LogLevel)
	if err := postgres.CreateRoles(ctx, settings.DatabaseURL, given, log); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "The roles exist; passwords set: %d. Next: api migrate, as %s.\n", len(given),
		postgres.Migrator)
	return err
}

// lacksRight explains a refusal of the database's to who runs a command as a role that may not.
func lacksRight(err error) error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42501" {
		return fmt.Errorf("%w; DATABASE_URL must be that of %s here", err, postgres.Migrator)
	}
	return err
}

const migrateHelp = `Usage: api migrate [--distribute]

Brings the database at DATABASE_URL to the newest schema. If api roles has created roles, gives these roles the rights that
they need. You may run the command in several processes at the same time, and again after an interruption.

  --distribute   distribute the tables of tenants over the workers of Citus, too (docs/citus.md). DATABASE_URL must name the
                 coordinator, and no api and no reconciler may run. The tables stay distributed, so later runs do not need
                 this flag.
`

// Migrate is the command api migrate.
func Migrate(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	distribute := len(args) == 1 && args[0] == "--distribute"
	if distribute {
		args = nil
	}
	if asked, err := cli.Help(stdout, migrateHelp, "api migrate", args); asked || err != nil {
		return err
	}
	settings, err := load(cli.Quiet(getenv))
	if err != nil {
		return err
	}
	m, err := postgres.NewMigration(settings.DatabaseURL, telemetry.NewTextLogger(stderr, settings.LogLevel))
	if err != nil {
		return err
	}
	do := m.Run
	if distribute {
		many, ok := any(m).(interface {
			Distribute(ctx context.Context) error
		})
		if !ok {
			return cli.Usagef("this program knows no --distribute")
		}
		do = many.Distribute
	}
	if err := do(ctx); err != nil {
		return err
	}
	ours, err := postgres.SchemaVersion()
	if err != nil {
		return err
	}
	db, err := open(ctx, settings)
	if err != nil {
		return err
	}
	defer db.Close()
	version, err := db.AppliedVersion(ctx)
	if err != nil {
		return err
	}
	done := "The schema is at version %d.\n"
	if version > ours {
		done = "The schema is at version %d, that of a later release. Nothing was changed.\n"
	}
	_, err = fmt.Fprintf(stdout, done, version)
	return err
}
