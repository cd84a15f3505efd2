package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"payonce/internal/cli"
)

// healthLimit bounds one question.
const healthLimit = 3 * time.Second

const healthHelp = `Usage: %s healthcheck

Asks /readyz on %s. The exit code is 0 if the process is ready. The command is for containers without a shell.
`

// Healthcheck is the command healthcheck of a program. It asks /readyz at the address that a setting says, writes the
// answer to stdout, and fails unless the process is ready.
func Healthcheck(
	ctx context.Context, program, setting string, addr func() (string, error), args []string, stdout io.Writer,
) error {
	if asked, err := cli.Help(stdout, fmt.Sprintf(healthHelp, program, setting), program+" healthcheck",
		args); asked || err != nil {
		return err
	}
	at, err := addr()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	// Without a host, or with the unspecified one, this machine is asked: package net sees to it.
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("build request: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
	_, _ = stdout.Write(body)
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: status %d", res.StatusCode)
	}
	return nil
}
