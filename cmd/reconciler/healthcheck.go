package main

import (
	"context"
	"io"

	"payonce/internal/app"
	"payonce/internal/cli"
	"payonce/internal/config"
)

const healthHelp = `Usage: reconciler healthcheck

Asks /readyz on RECONCILER_ADDR. The exit code is 0 if the reconciler is ready. The command is for containers without a shell.
`

func healthcheck(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	if asked, err := cli.Help(stdout, healthHelp, "reconciler healthcheck", args); asked || err != nil {
		return err
	}
	settings, err := config.LoadReconciler(getenv)
	if err != nil {
		return err
	}
	return app.AskReady(ctx, settings.Addr, stdout)
}
