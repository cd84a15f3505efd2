package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"payonce/internal/app"
	"payonce/internal/config"
)

const healthHelp = `Usage: reconciler healthcheck

Asks /readyz on RECONCILER_ADDR. Exit code 0 when the reconciler is ready. For containers without a shell.
`

func healthcheck(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	if slices.ContainsFunc(args, asksForHelp) {
		_, err := io.WriteString(stdout, healthHelp)
		return err
	}
	if len(args) > 0 {
		return fmt.Errorf("argument %q is not known", args[0])
	}
	settings, err := config.LoadReconciler(getenv)
	if err != nil {
		return err
	}
	return app.AskReady(ctx, settings.Addr, stdout)
}
