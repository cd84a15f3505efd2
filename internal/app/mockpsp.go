package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"payonce/internal/gateway/mockpsp"
)

// mockPSPStopLimit is how long answers of the mock PSP that are being sent may take at the end.
const mockPSPStopLimit = 10 * time.Second

// ServeMockPSP serves psp until ctx ends. It ends cleanly, also while requests are held that never get an answer.
func ServeMockPSP(ctx context.Context, l net.Listener, psp *mockpsp.Server, slowDelay time.Duration) error {
	server := &http.Server{
		Handler:           psp,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      60*time.Second + slowDelay,
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
		return stopMockPSP(context.WithoutCancel(ctx), server, psp)
	})
	return group.Wait()
}

// stopMockPSP closes both at once: Shutdown waits for the requests that only Close ends.
func stopMockPSP(ctx context.Context, server *http.Server, psp *mockpsp.Server) error {
	ctx, cancel := context.WithTimeout(ctx, mockPSPStopLimit)
	defer cancel()
	var group errgroup.Group
	group.Go(psp.Close)
	group.Go(func() error {
		if err := server.Shutdown(ctx); err != nil {
			return fmt.Errorf("shut down mock PSP: %w", errors.Join(err, server.Close()))
		}
		return nil
	})
	return group.Wait()
}
