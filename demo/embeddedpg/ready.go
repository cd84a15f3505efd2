package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// readyTimeout bounds the start, recovery after a crash included.
	readyTimeout = 2 * time.Minute
	// readyRetry is short because a start takes some 50 ms.
	readyRetry = 10 * time.Millisecond
)

var errNotReady = errors.New("no connection accepted within two minutes")

// awaitReady returns when the server has accepted a connection.
func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, errNotReady)
	defer cancel()
	for {
		err := connect(ctx, s.URL("postgres"))
		if err == nil {
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("start PostgreSQL: it gave up (%w):\n%s", s.exit, logTail(s.logPath))
		case <-ctx.Done():
			return fmt.Errorf("start PostgreSQL: %w: %w:\n%s", context.Cause(ctx), err, logTail(s.logPath))
		case <-time.After(readyRetry):
		}
	}
}

func connect(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// abandon ends a server that did not become ready.
func (s *Server) abandon() {
	s.stopping.Store(true)
	s.quit()
}
