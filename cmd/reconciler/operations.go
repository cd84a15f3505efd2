package main

import (
	"context"
	"io"
	"os"
	"time"

	"payonce/internal/app"
	"payonce/internal/cli"
	"payonce/internal/operator/commands"
	"payonce/internal/telemetry"
)

var _ operates = commandLine{}

func (commandLine) usage() string {
	return `  reconciler statement    compare a day's settlement files with our books; its help says its exit codes
  reconciler scan         read the PSP's lists to their ends; after a restore, before the API serves
  reconciler key show     show a key, its payment and its timeline
  reconciler timeline     draw what has happened to a key
`
}

func (c commandLine) operate(ctx context.Context, command string, args []string) (known bool, err error) {
	switch command {
	case "":
		err = cli.Usagef("name a command: run, statement, scan, key, timeline or healthcheck; see reconciler --help")
	case "statement":
		err = commands.Statement(ctx, args, commands.StatementDeps{
			Deps:   forTerminal(ctx, c, certain((*app.Reconciler).StatementConfig)),
			Stderr: c.stderr, Terminal: isTerminal(c.stderr), Now: time.Now,
		})
	case "scan":
		err = commands.Scan(ctx, args, forTerminal(ctx, c, certain((*app.Reconciler).Jobs)))
	case "key":
		err = commands.Key(ctx, args, forTerminal(ctx, c, books))
	case "timeline":
		err = commands.Timeline(ctx, args, forTerminal(ctx, c, books))
	default:
		return false, nil
	}
	return true, err
}

func books(r *app.Reconciler) (commands.Books, error) {
	operators, err := r.Operators()
	return commands.Books{Keys: r.Keys, Payments: r.Payments, Operators: operators}, err
}

// certain is a part that every reconciler has.
func certain[T any](part func(*app.Reconciler) T) func(*app.Reconciler) (T, error) {
	return func(r *app.Reconciler) (T, error) { return part(r), nil }
}

// forTerminal is what a command works with that a person waits for: a part of a reconciler. The reconciler is opened
// when the command line has been found to be right.
func forTerminal[T any](
	ctx context.Context, c commandLine, part func(*app.Reconciler) (T, error),
) commands.Deps[T] {
	return commands.Deps[T]{Stdout: c.stdout, Open: func() (opened T, done func(), err error) {
		reconciler, err := open(ctx, cli.Quiet(c.getenv), c.stderr, telemetry.NewTextLogger)
		if err != nil {
			return opened, nil, err
		}
		if opened, err = part(reconciler); err != nil {
			reconciler.Close()
		}
		return opened, reconciler.Close, err
	}}
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
