package main

import (
	"context"
	"io"

	"payonce/internal/app"
	"payonce/internal/cli"
	"payonce/internal/config"
)

const healthHelp = `Usage: api healthcheck

Asks /readyz on OPERATOR_ADDR. The exit code is 0 if the server is ready. The command is for containers without a shell.
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
