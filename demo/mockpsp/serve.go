package mockpsp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// stopLimit is how long answers that are being sent may take at the end.
const stopLimit = 10 * time.Second

// Serve serves the PSP until ctx ends, and closes it. It ends cleanly, also while requests are held that never get an
// answer.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.ServeDialect(ctx, l, s, s.Close)
}

// ServeDialect serves a handler with the limits of the PSP until ctx ends, and closes it. It serves another dialect
// beside [Server.Serve], which ends the requests that are held.
func (s *Server) ServeDialect(ctx context.Context, l net.Listener, handler http.Handler, close func() error) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      60*time.Second + s.config.SlowDelay,
		// Longer than a client keeps idle connections (20 s), so that it is never the server that closes one first.
		IdleTimeout:    120 * time.Second,
		MaxHeaderBytes: 16 << 10,
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve mock PSP: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return stop(context.WithoutCancel(ctx), server, close)
	})
	return group.Wait()
}

// stop closes both at once: Shutdown waits for the requests that only Close ends.
func stop(ctx context.Context, server *http.Server, close func() error) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	var group errgroup.Group
	group.Go(close)
	group.Go(func() error {
		if err := server.Shutdown(ctx); err != nil {
			return fmt.Errorf("shut down mock PSP: %w", errors.Join(err, server.Close()))
		}
		return nil
	})
	return group.Wait()
}
