// Command api serves the public API, makes its database's roles and schema, and makes API keys. It is wiring only: what a process is made of
// is in internal/app.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"payonce/internal/app"
	"payonce/internal/config"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "api: %v\n", err)
		os.Exit(1)
	}
}

const usage = `Payonce: charge once, whatever fails.

Usage:
  api serve         serve the API until interrupted
  api roles         make the database roles that the processes log in as
  api migrate       bring the database up to the newest schema
  api keys          create, list and expire API keys
  api healthcheck   ask /readyz of a running server; exit code 0 when ready
  api COMMAND --help

Settings, as environment variables with their defaults:
`

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch command {
	case "serve":
		return serve(ctx, args, getenv, stdout, stderr)
	case "roles":
		return roles(ctx, args, getenv, stdout, stderr)
	case "migrate":
		return migrate(ctx, args, getenv, stdout, stderr)
	case "keys":
		return keys(ctx, args, getenv, stdout)
	case "healthcheck":
		return healthcheck(ctx, args, getenv, stdout)
	case "help", "--help", "-help", "-h":
		return help(stdout)
	case "":
		return errors.New("name a command: serve, roles, migrate, keys or healthcheck; see api --help")
	}
	return fmt.Errorf("command %q is not known; see api --help", command)
}

func help(w io.Writer) error {
	fmt.Fprint(w, usage)
	return config.Describe(w, nil, config.API{})
}

func asksForHelp(arg string) bool { return arg == "--help" || arg == "-help" || arg == "-h" }

// wantsHelp prints a command's own text when it is asked for, and refuses arguments that the command does not take.
func wantsHelp(args []string, w io.Writer, text string) (bool, error) {
	if slices.ContainsFunc(args, asksForHelp) {
		fmt.Fprint(w, text)
		return true, nil
	}
	if len(args) > 0 {
		return false, fmt.Errorf("argument %q is not known", args[0])
	}
	return false, nil
}

const serveHelp = `Usage: api serve

Serves the public API on HTTP_ADDR, and /livez, /readyz and /metrics on OPERATOR_ADDR, until SIGINT or SIGTERM. Then payments
in flight are finished and new ones turned away.

Settings, as environment variables with their defaults:
`

func serve(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if asked, err := wantsHelp(args, stdout, serveHelp); asked || err != nil {
		if asked {
			return config.Describe(stdout, nil, config.API{})
		}
		return err
	}
	settings, err := load(getenv)
	if err != nil {
		return err
	}
	level, err := settings.Level()
	if err != nil {
		return err
	}
	if settings.PSPSecret == "" {
		return errors.New("PSP_SECRET is not set; the mock PSP's own default is demo-psp-secret")
	}
	app.TuneMemory(getenv)
	api, err := app.NewAPI(ctx, settings, telemetry.NewLogger(stderr, level))
	if err != nil {
		return err
	}
	return api.Run(ctx, func() {})
}

const migrateHelp = `Usage: api migrate

Brings the database at DATABASE_URL up to the newest schema, and gives the roles of api roles, if there are any, the rights that it takes. Safe to run from many
places at once, and again after an interruption.
`

func migrate(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if asked, err := wantsHelp(args, stdout, migrateHelp); asked || err != nil {
		return err
	}
	settings, err := load(getenv)
	if err != nil {
		return err
	}
	level, err := settings.Level()
	if err != nil {
		return err
	}
	return postgres.Migrate(ctx, settings.DatabaseURL, telemetry.NewLogger(stderr, level))
}

func load(getenv func(string) string) (config.API, error) {
	settings, err := config.Load(getenv)
	if err != nil {
		return config.API{}, err
	}
	if settings.DatabaseURL == "" {
		return config.API{}, errors.New("DATABASE_URL is not set, such as postgres://user:password@host:5432/payonce; " +
			"make demo runs everything without settings")
	}
	return settings, nil
}
