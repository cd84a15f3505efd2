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

// operate runs a command of operators.
func operate(
	ctx context.Context, command string, args []string, getenv func(string) string, stdout, stderr io.Writer,
) error {
	switch command {
	case "statement":
		return commands.Statement(ctx, args, commands.StatementDeps{
			Deps:   forTerminal(ctx, getenv, stdout, stderr, (*app.Reconciler).StatementConfig),
			Stderr: stderr, Terminal: isTerminal(stderr), Now: time.Now,
		})
	case "scan":
		return commands.Scan(ctx, args, forTerminal(ctx, getenv, stdout, stderr, (*app.Reconciler).Jobs))
	case "key":
		return commands.Key(ctx, args, forTerminal(ctx, getenv, stdout, stderr, books))
	default:
		return commands.Timeline(ctx, args, forTerminal(ctx, getenv, stdout, stderr, books))
	}
}

func books(r *app.Reconciler) commands.Books {
	return commands.Books{Keys: r.Keys, Payments: r.Payments, Operators: r.Operators}
}

// forTerminal is what a command works with that a person waits for: a part of a reconciler. The reconciler is opened
// when the command line has been found to be right.
func forTerminal[T any](
	ctx context.Context, getenv func(string) string, stdout, stderr io.Writer, part func(*app.Reconciler) T,
) commands.Deps[T] {
	return commands.Deps[T]{Stdout: stdout, Open: func() (opened T, done func(), err error) {
		reconciler, err := open(ctx, cli.Quiet(getenv), stderr, telemetry.NewTextLogger)
		if err != nil {
			return opened, nil, err
		}
		return part(reconciler), reconciler.Close, nil
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
