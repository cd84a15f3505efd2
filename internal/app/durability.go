package app

import (
	"context"
	"log/slog"
	"strings"
	"time"
)

// warnIfForgetful says once that the server may lose what it acknowledges; see docs/failover.md. It refuses nothing:
// who tries things out may want the speed. It waits for a database that is not there yet.
func (p *parts) warnIfForgetful(ctx context.Context) {
	poll := time.NewTicker(schemaPoll)
	defer poll.Stop()
	for {
		settings, err := p.db.Forgetful(ctx)
		if err == nil {
			if len(settings) > 0 {
				p.log.WarnContext(ctx,
					"this PostgreSQL may forget payments that it has acknowledged, when it crashes or fails over",
					slog.String("settings", strings.Join(settings, ", ")))
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		}
	}
}
