package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// healthLimit bounds one question.
const healthLimit = 3 * time.Second

// AskReady asks /readyz of the process that listens on addr, writes its answer to w, and fails unless it is ready.
func AskReady(ctx context.Context, addr string, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	// Without a host, or with the unspecified one, this machine is asked: package net sees to it.
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("build request: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
	_, _ = w.Write(body)
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: status %d", res.StatusCode)
	}
	return nil
}
