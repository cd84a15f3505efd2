package admin

import (
	"context"
	"fmt"
	"io"

	"github.com/google/uuid"

	"payonce/internal/cli"
)

const installationHelp = `Usage:
  api installation show
      prints the id of this installation. The mark "origin" of each object that it makes at Stripe has this id
  api installation renew
      makes a copy of a database another installation. Run this command before the first api or reconciler of the copy
      starts. A process that runs keeps the old id until it starts again
  api installation set ID
      gives a database the id that it must have: a new one that replaces another, whose charges are at Stripe;
      or one that was renewed by mistake

Two installations may use one account at Stripe, if each has its own id. api migrate makes the id once. A restored database
has the id of the original:
  - It replaces the original: keep the id. The charges at Stripe stay its own.
  - It runs beside the original: renew the id. What the original has made at Stripe, and will make, stays the original's:
    the copy counts these charges as foreign, and never cancels one. So a payment that was open in the backup stays open in
    the copy until the original has ended it, or somebody cancels its intent in Stripe's dashboard; and a statement of
    the copy misses the payments of the original.

If the database has roles (api roles), run renew as payonce_migrator.
`

// Installation are the commands api installation.
func Installation(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	return administer(ctx, group{name: "api installation", help: installationHelp, choice: "show, renew or set",
		commands: map[string]func([]string) (action, error){
			"show":  withoutArgs("api installation", showInstallation),
			"renew": withoutArgs("api installation", renewInstallation),
			"set":   setInstallation,
		}}, args, getenv, stdout)
}

func showInstallation(ctx context.Context, stdout io.Writer, registry registry) error {
	id, err := registry.db.Installation(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, id)
	return err
}

func renewInstallation(ctx context.Context, stdout io.Writer, registry registry) error {
	return changeInstallation(ctx, stdout, registry, uuid.New())
}

func setInstallation(args []string) (action, error) {
	flags := cli.NewFlags("api installation")
	if err := cli.Parse(flags, args, 1); err != nil {
		return nil, err
	}
	if flags.NArg() == 0 {
		return nil, cli.Usagef("name the id that this database must have: api installation set ID")
	}
	id, err := uuid.Parse(flags.Arg(0))
	if err != nil {
		return nil, cli.Usagef("%q is no id of an installation: it is a UUID, as in the mark of its objects at Stripe",
			flags.Arg(0))
	}
	return func(ctx context.Context, stdout io.Writer, registry registry) error {
		return changeInstallation(ctx, stdout, registry, id)
	}, nil
}

func changeInstallation(ctx context.Context, stdout io.Writer, registry registry, id uuid.UUID) error {
	former, err := registry.db.Installation(ctx)
	if err != nil {
		return err
	}
	if former == id.String() {
		_, err = fmt.Fprintf(stdout, "This installation is %s already.\n", id)
		return err
	}
	if err := registry.db.SetInstallation(ctx, id); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "This installation was %s, and is %s. What the former one has made at Stripe stays the former one's.\n"+
		"Start each api and reconciler of this database again.\n", former, id)
	return err
}
