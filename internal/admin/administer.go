// Package admin is what an administrator types: api roles, migrate, installation, keys and tenants. It reads the
// command line before it asks for settings or a database, and writes for a person.
//
// It decides nothing: package postgres makes roles, schema and the id of the installation, and package tenants keeps
// tenants and keys. The secret of a key is shown once, and is never in a log.
package admin

import (
	"context"
	"fmt"
	"io"

	"github.com/google/uuid"

	"payonce/internal/cli"
	"payonce/internal/config"
	"payonce/internal/postgres"
	"payonce/internal/tenants"
)

// group is a set of commands about one thing that the database holds, such as api keys.
type group struct {
	name     string // as its help is asked for
	help     string
	choice   string // its commands, in words
	commands map[string]func(args []string) (action, error)
}

// action is a command whose arguments have been read.
type action func(ctx context.Context, stdout io.Writer, registry registry) error

// registry is what the commands change: the tenants and their keys, and in db the id of the installation.
type registry struct {
	*tenants.Registry

	db  *postgres.DB
	psp tenants.PSP // the provider of a new tenant that names none
}

// administer reads the whole command line before it asks for settings or a database: what is wrong with it is said
// first.
func administer(ctx context.Context, g group, args []string, getenv func(string) string, stdout io.Writer) error {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	parse := g.commands[command]
	switch {
	case command == "help", cli.AsksForHelp([]string{command}), parse != nil && cli.AsksForHelp(args):
		_, err := io.WriteString(stdout, g.help)
		return err
	case parse == nil:
		return cli.Usagef("say %s %s; see %[1]s --help", g.name, g.choice)
	}
	do, err := parse(args)
	if err != nil {
		return err
	}
	settings, err := load(getenv)
	if err != nil {
		return err
	}
	db, err := open(ctx, settings)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.AppliedVersion(ctx); err != nil {
		return fmt.Errorf("%w; if the database is new, run api migrate first", err)
	}
	return lacksRight(do(ctx, stdout, registry{tenants.NewRegistry(db, uuid.NewV7), db, tenants.PSP(settings.PSP)}))
}

// open has few connections: a command does one thing after the other.
func open(ctx context.Context, settings config.API) (*postgres.DB, error) {
	limits := postgres.DefaultLimits()
	limits.MaxConns = 2
	return postgres.Open(ctx, settings.DatabaseURL, limits)
}

func withoutArgs(name string, do action) func(args []string) (action, error) {
	return func(args []string) (action, error) { return do, cli.Parse(cli.NewFlags(name), args, 0) }
}

func load(getenv func(string) string) (config.API, error) {
	settings, err := config.Load(getenv)
	if err != nil {
		return config.API{}, err
	}
	return settings, settings.CheckDatabase()
}
