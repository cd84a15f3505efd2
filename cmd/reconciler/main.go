// Command reconciler works off what the request path left open, and has the commands of operators. It is wiring only:
// what a process is made of is in internal/app.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"payonce/internal/app"
	"payonce/internal/cli"
	"payonce/internal/config"
	"payonce/internal/telemetry"
)

func main() {
	cli.Main("reconciler", func(ctx context.Context) error {
		return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	})
}

const usage = `Payonce's reconciler: no outcome stays unknown.

Usage:
  reconciler run          work until interrupted: sweep, resolve, webhooks, ledger scan, statements, pruning
%s  reconciler healthcheck  ask /readyz of a running reconciler; exit code 0 if the reconciler is ready
  reconciler COMMAND --help
  reconciler --version

Exit code: 0 done, 1 failed, 2 the command line is wrong.

Settings, as environment variables with their defaults:
`

// commandLine is what a command is run with.
type commandLine struct {
	getenv         func(string) string
	stdout, stderr io.Writer
}

// operates are the commands of operators. A command line has these methods if operations.go is there. A service of
// one's own may do without the file, so no other file names anything that is in it.
type operates interface {
	// operate runs a command. If it has no such command, known is false.
	operate(ctx context.Context, command string, args []string) (known bool, err error)
	usage() string
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	operators, operations := any(commandLine{getenv, stdout, stderr}).(operates)
	switch command {
	case "run":
		return work(ctx, args, getenv, stdout, stderr)
	case "healthcheck":
		return app.Healthcheck(ctx, "reconciler", "RECONCILER_ADDR", func() (string, error) {
			settings, err := config.LoadReconciler(getenv)
			return settings.Addr, err
		}, args, stdout)
	case "help", "--help", "-help", "-h":
		further := ""
		if operations {
			further = operators.usage()
		}
		fmt.Fprintf(stdout, usage, further)
		return config.Describe(stdout, nil, config.Reconciler{})
	case "version", "--version", "-version":
		return cli.PrintVersion(stdout, "reconciler")
	}
	if operations {
		if known, err := operators.operate(ctx, command, args); known {
			return err
		}
	}
	if command == "" {
		return cli.Usagef("name a command: run or healthcheck; see reconciler --help")
	}
	return cli.Usagef("command %q is not known; see reconciler --help", command)
}

const runHelp = `Usage: reconciler run

Works until SIGINT or SIGTERM. Then the process finishes the running jobs and ends. Any number of reconcilers may use one
database. Serves /livez, /readyz and /metrics on RECONCILER_ADDR.

Settings, as environment variables with their defaults:
`

func work(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if asked, err := cli.Help(stdout, runHelp, "reconciler run", args); asked || err != nil {
		if asked {
			return config.Describe(stdout, nil, config.Reconciler{})
		}
		return err
	}
	reconciler, err := open(ctx, getenv, stderr, telemetry.NewLogger)
	if err != nil {
		return err
	}
	return reconciler.Run(ctx, func() {})
}

// open makes a reconciler of the settings, for its parts or to run it.
func open(
	ctx context.Context, getenv func(string) string, stderr io.Writer, log func(io.Writer, slog.Level) *slog.Logger,
) (*app.Reconciler, error) {
	settings, err := config.LoadReconciler(getenv)
	if err != nil {
		return nil, err
	}
	if err := settings.CheckProcess(); err != nil {
		return nil, err
	}
	reconciler, err := app.NewReconciler(ctx, settings, log(stderr, settings.LogLevel))
	if tuned, ok := any(reconciler).(app.Tuned); ok && err == nil {
		tuned.Tune(ctx, getenv)
	}
	return reconciler, err
}
