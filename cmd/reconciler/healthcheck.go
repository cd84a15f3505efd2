package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

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
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	// Without a host, or with the unspecified one, this machine is asked: package net sees to it.
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+settings.Addr+"/readyz", nil)
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
