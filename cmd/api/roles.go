package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgconn"

	"payonce/internal/cli"
	"payonce/internal/postgres"
)

const rolesHelp = `Usage: api roles

Makes the database roles, or finds them, and gives them the database at DATABASE_URL, which names an administrator here: a superuser, or
a user that may create roles and owns the database. Then api migrate, as payonce_migrator, gives the others what they need. Safe to repeat.
Processes that still run as the former owner are refused from then on: restart them at once (README, "Run it for real").

  payonce_migrator    api migrate, api keys and api tenants: the tables are its own
  payonce_api         api serve
  payonce_reconciler  reconciler

Passwords are set where one is given, and sent as SCRAM verifiers only. Without one, a role keeps the password that it has; a new one has none, and
logs in by certificate, by your cloud's tokens, or with a password that you set.

Settings, as environment variables:
  MIGRATOR_PASSWORD, API_PASSWORD, RECONCILER_PASSWORD
`

func roles(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if asked, err := cli.Help(stdout, rolesHelp, "api roles", args); asked || err != nil {
		return err
	}
	settings, log, err := loadForTerminal(getenv, stderr)
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
	if err := postgres.CreateRoles(ctx, settings.DatabaseURL, given, log); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "The roles are there; passwords set: %d. Next: api migrate, as %s.\n", len(given),
		postgres.Migrator)
	return err
}

// lacksRight explains a refusal of the database's to who runs a command as a role that may not.
func lacksRight(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "42501" {
		return fmt.Errorf("%w; DATABASE_URL must be that of %s here", err, postgres.Migrator)
	}
	return err
}
