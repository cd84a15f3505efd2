// Command api serves the public API, makes its database's roles and schema, and administers tenants and API keys. It is
// wiring only: what a process is made of is in internal/app, and what an administrator types is in internal/admin.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"payonce/internal/admin"
	"payonce/internal/app"
	"payonce/internal/cli"
	"payonce/internal/config"
	"payonce/internal/telemetry"
)

func main() {
	cli.Main("api", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr) })
}

const usage = `Payonce: charge once, whatever fails.

Usage:
  api serve         serve the API until interrupted
  api roles         create the database roles that the processes log in with
  api migrate       bring the database to the newest schema
  api installation  show the id of this installation, renew that of a copy, or set it
  api keys          create, list and expire API keys
  api tenants       create and list tenants, and set the rate limit of a tenant
  api healthcheck   ask /readyz of a running server; exit code 0 if the server is ready
  api COMMAND --help
  api --version

Exit code: 0 done, 1 failed, 2 the command line is wrong.

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
		return admin.Roles(ctx, args, getenv, stdout, stderr)
	case "migrate":
		return admin.Migrate(ctx, args, getenv, stdout, stderr)
	case "installation":
		return admin.Installation(ctx, args, getenv, stdout)
	case "keys":
		return admin.Keys(ctx, args, getenv, stdout)
	case "tenants":
		return admin.Tenants(ctx, args, getenv, stdout)
	case "healthcheck":
		return app.Healthcheck(ctx, "api", "OPERATOR_ADDR", func() (string, error) {
			settings, err := config.Load(getenv)
			return settings.OperatorAddr, err
		}, args, stdout)
	case "help", "--help", "-help", "-h":
		fmt.Fprint(stdout, usage)
		return config.Describe(stdout, nil, config.API{})
	case "version", "--version", "-version":
		return cli.PrintVersion(stdout, "api")
	case "":
		return cli.Usagef("name a command: serve, roles, migrate, installation, keys, tenants or healthcheck; see api --help")
	}
	return cli.Usagef("command %q is not known; see api --help", command)
}

const serveHelp = `Usage: api serve

Serves the public API on HTTP_ADDR. Serves the operator API, /livez, /readyz and /metrics on OPERATOR_ADDR. After SIGINT or
SIGTERM, the process finishes the payments in flight, refuses new requests, and ends.

Settings, as environment variables with their defaults:
`

func serve(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if asked, err := cli.Help(stdout, serveHelp, "api serve", args); asked || err != nil {
		if asked {
			return config.Describe(stdout, nil, config.API{})
		}
		return err
	}
	settings, err := config.Load(getenv)
	if err != nil {
		return err
	}
	if err := settings.CheckProcess(); err != nil {
		return err
	}
	api, err := app.NewAPI(ctx, settings, telemetry.NewLogger(stderr, settings.LogLevel))
	if err != nil {
		return err
	}
	if tuned, ok := any(api).(app.Tuned); ok {
		tuned.Tune(ctx, getenv)
	}
	return api.Run(ctx, func() {})
}
