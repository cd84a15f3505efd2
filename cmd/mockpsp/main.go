// Command mockpsp serves the mock payment provider: its API under /v1, its back doors under /_ledger, /_faults and
// /_requests, and a page at / for people.
//
// It is wiring only: it owns the settings, the port and the order of stopping. What a provider does, and how it fails,
// is in internal/gateway/mockpsp. It ends cleanly at Ctrl-C, also while requests are held that never get an answer.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"payonce/internal/gateway/mockpsp"
)

// shutdownLimit is how long answers that are being sent may take after Ctrl-C.
const shutdownLimit = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mockpsp:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, or does what its one argument says. A clean end returns nil.
func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	set, err := readSettings(getenv)
	switch command := strings.Join(args, " "); {
	case command == "--help" || command == "-h" || command == "help":
		return printHelp(stdout)
	case command != "" && command != "healthcheck":
		return fmt.Errorf("unknown argument %q; try --help", command)
	case err != nil:
		return err
	case command == "healthcheck":
		return healthcheck(ctx, set.Addr)
	}
	log := slog.New(slog.NewTextHandler(stdout, nil))

	// The port first: whoever cannot have it should not open the ledger.
	listener, err := listen(ctx, set.Addr)
	if err != nil {
		return err
	}
	psp, err := mockpsp.New(set.pspConfig(log))
	if err != nil {
		return errors.Join(fmt.Errorf("start with MOCKPSP_LEDGER=%s: %w", set.Ledger, err), listener.Close())
	}
	log.Info("mock PSP is ready", "url", "http://"+listener.Addr().String(), "ledger", set.Ledger, "seed", set.Seed)
	return serve(ctx, listener, psp, set.SlowDelay)
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken by another process; set MOCKPSP_ADDR to a free address", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on MOCKPSP_ADDR=%s: %w", addr, err)
	}
	return listener, nil
}

func serve(ctx context.Context, listener net.Listener, psp *mockpsp.Server, slowDelay time.Duration) error {
	server := &http.Server{
		Handler:           psp,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      60*time.Second + slowDelay,
		// Longer than a client keeps idle connections (30 s), so that it is never the server that closes one first.
		IdleTimeout:    120 * time.Second,
		MaxHeaderBytes: 16 << 10,
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return stop(server, psp)
	})
	return group.Wait()
}

// stop closes both at once: Shutdown waits for the requests that only Close ends.
func stop(server *http.Server, psp *mockpsp.Server) error {
	limit, cancel := context.WithTimeout(context.Background(), shutdownLimit)
	defer cancel()
	var group errgroup.Group
	group.Go(psp.Close)
	group.Go(func() error {
		if err := server.Shutdown(limit); err != nil {
			return fmt.Errorf("shut down: %w", errors.Join(err, server.Close()))
		}
		return nil
	})
	return group.Wait()
}

// pspConfig turns the settings into the PSP's config.
func (s settings) pspConfig(log *slog.Logger) mockpsp.Config {
	config := mockpsp.DefaultConfig()
	config.LedgerPath = s.Ledger
	config.Secret = s.Secret
	config.Rand = rand.New(rand.NewPCG(s.Seed, s.Seed))
	config.Log = log
	config.SlowDelay, config.HangLimit, config.LateDelay = s.SlowDelay, s.HangLimit, s.LateDelay
	return config
}
