package world

import (
	"context"
	"fmt"
	"strings"
	"time"

	"payonce/lab/program"
)

// AddTenant adds one with a limit of requests per second, and as many at once, and returns its API key.
func (w *World) AddTenant(ctx context.Context, name string, limit int) (string, error) {
	psp := w.plan.psp()
	_, err := w.site.run(ctx, w.URL, "tenants", "create", name, "--psp", string(psp), "--psp-account",
		AccountOf(psp, name))
	if err != nil {
		return "", err
	}
	out, err := w.site.run(ctx, w.URL, "keys", "create", "--tenant", name)
	if err != nil {
		return "", err
	}
	key, _, _ := strings.Cut(out, "\n")
	return key, w.Limit(ctx, name, limit)
}

// Limit changes a tenant's limit of requests. After a crash of one of several servers, the first statement of a session
// may fail.
func (w *World) Limit(ctx context.Context, tenant string, perSecond int) error {
	const tries = 10
	for try := 1; ; try++ {
		_, err := w.DB.Exec(ctx, "UPDATE tenants SET requests_per_second = $2, request_burst = $2 WHERE id = $1", tenant,
			perSecond)
		if err == nil {
			return nil
		}
		if try == tries || !program.Wait(ctx, time.Second) {
			return fmt.Errorf("limit a tenant: %w", err)
		}
	}
}
