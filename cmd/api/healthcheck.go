package main

import (
	"context"
	"io"

	"payonce/internal/app"
	"payonce/internal/cli"
	"payonce/internal/config"
)

const healthHelp = `Usage: api healthcheck

Asks /readyz on OPERATOR_ADDR. Exit code 0 when the server is ready. For containers without a shell.
`

func healthcheck(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	if asked, err := cli.Help(stdout, healthHelp, "api healthcheck", args); asked || err != nil {
		return err
	}
	settings, err := config.Load(getenv)
	if err != nil {
		return err
	}
	return app.AskReady(ctx, settings.OperatorAddr, stdout)
}
