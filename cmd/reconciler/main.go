// Command reconciler works off what the request path left open, and gives operators their tools. It is wiring only: what a process
// is made of is in internal/app.
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
	"time"

	"payonce/internal/app"
	"payonce/internal/config"
	"payonce/internal/telemetry"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "reconciler: %v\n", err)
		os.Exit(statementExit(err)) // 1 for breaks in the books, 2 for everything else
	}
}

const usage = `Payonce's reconciler: no outcome stays unknown.

Usage:
  reconciler run          work until interrupted: sweep, resolve, webhooks, ledger scan, statements, pruning
  reconciler statement    compare a day's settlement files with our books; exit code 1 when they differ
  reconciler dlq          list, show and resolve dead letters
  reconciler healthcheck  ask /readyz of a running reconciler; exit code 0 when ready
  reconciler COMMAND --help

Settings, as environment variables with their defaults:
`

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch command {
	case "run":
		return work(ctx, args, getenv, stdout, stderr)
	case "statement":
		return compareStatement(ctx, args, getenv, stdout, stderr)
	case "dlq":
		return workDesk(ctx, args, getenv, stdout, stderr)
	case "healthcheck":
		return healthcheck(ctx, args, getenv, stdout)
	case "help", "--help", "-help", "-h":
		fmt.Fprint(stdout, usage)
		return config.Describe(stdout, nil, config.Reconciler{})
	case "":
		return errors.New("name a command: run, statement, dlq or healthcheck; see reconciler --help")
	}
	return fmt.Errorf("command %q is not known; see reconciler --help", command)
}

func asksForHelp(arg string) bool { return arg == "--help" || arg == "-help" || arg == "-h" }

const runHelp = `Usage: reconciler run

Works until SIGINT or SIGTERM; then running jobs are finished. Any number of reconcilers may run on one database. Serves /livez, /readyz and
/metrics on RECONCILER_ADDR.

Settings, as environment variables with their defaults:
`

func work(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if slices.ContainsFunc(args, asksForHelp) {
		fmt.Fprint(stdout, runHelp)
		return config.Describe(stdout, nil, config.Reconciler{})
	}
	if len(args) > 0 {
		return fmt.Errorf("argument %q is not known", args[0])
	}
	reconciler, err := open(ctx, getenv, stderr)
	if err != nil {
		return err
	}
	return reconciler.Run(ctx, func() {})
}

// open makes a reconciler of the settings, for its parts or to run it.
func open(ctx context.Context, getenv func(string) string, stderr io.Writer) (*app.Reconciler, error) {
	settings, err := config.LoadReconciler(getenv)
	if err != nil {
		return nil, err
	}
	switch {
	case settings.DatabaseURL == "":
		return nil, errors.New("DATABASE_URL is not set, such as postgres://user:password@host:5432/payonce; " +
			"make demo runs everything without settings, the reconciler too")
	case settings.PSPSecret == "":
		return nil, errors.New("PSP_SECRET is not set; the mock PSP's own default is demo-psp-secret")
	}
	level, err := settings.Level()
	if err != nil {
		return nil, err
	}
	app.TuneMemory(getenv)
	return app.NewReconciler(ctx, settings, telemetry.NewLogger(stderr, level), nil)
}

func compareStatement(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	deps := statementDeps{stdout: stdout, stderr: stderr, now: time.Now}
	if slices.ContainsFunc(args, asksForHelp) {
		return runStatement(ctx, args, deps) // needs no settings
	}
	reconciler, err := open(ctx, getenv, stderr)
	if err != nil {
		return err
	}
	defer reconciler.Close()
	deps.config, deps.terminal = reconciler.StatementConfig(), isTerminal(stderr)
	return runStatement(ctx, args, deps)
}

// isTerminal reports whether w is a terminal, or another device that a line can be rewritten on.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func workDesk(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if len(args) == 0 || args[0] == "help" || slices.ContainsFunc(args, asksForHelp) {
		return runDLQ(ctx, args, dlqDeps{stdout: stdout}) // needs no settings
	}
	reconciler, err := open(ctx, getenv, stderr)
	if err != nil {
		return err
	}
	defer reconciler.Close()
	return runDLQ(ctx, args, dlqDeps{desk: reconciler.Desk(), stdout: stdout})
}
