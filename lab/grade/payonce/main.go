// Command payonce runs an API and a reconciler in one process, from what the grader gives to any server: PORT,
// DATABASE_URL, PSP_URL, PSP_SECRET, WEBHOOK_SECRET and API_KEYS. It prepares the database, and ends when one of the
// two does. Without DATABASE_URL, it runs a PostgreSQL of its own, and the mock PSP, for somebody who looks around.
//
// It is wiring only. tools/start gives it to a copy of the core as cmd/local.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"payonce/internal/app"
	"payonce/internal/cli"
	"payonce/internal/config"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/internal/tenants"
)

func main() {
	cli.Main("payonce", func(ctx context.Context) error { return run(ctx, os.Getenv, os.Stdout) })
}

func run(ctx context.Context, getenv func(string) string, stdout io.Writer) (err error) {
	group, ctx := errgroup.WithContext(ctx)
	defaults := shortTimes()
	if getenv("DATABASE_URL") == "" {
		server, err := startPostgres(ctx, getenv, defaults)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
		psp, l, err := openPSP(ctx, server.DataDir(), getenv, defaults)
		if err != nil {
			return err
		}
		group.Go(func() error { return psp.Serve(ctx, l) })
	}
	settings := under(getenv, defaults)
	group.Go(func() error {
		if err := prepare(ctx, settings("DATABASE_URL"), settings("API_KEYS")); err != nil {
			return err
		}
		api, reconciler, err := parts(ctx, settings)
		if err != nil {
			return err
		}
		group.Go(func() error { return reconciler.Run(ctx, func() {}) })
		return api.Run(ctx, func() { fmt.Fprintln(stdout, "the API listens on", settings("HTTP_ADDR")) })
	})
	return group.Wait()
}

func parts(ctx context.Context, getenv func(string) string) (*app.API, *app.Reconciler, error) {
	public, err := config.Load(getenv)
	if err == nil {
		err = public.CheckProcess()
	}
	if err != nil {
		return nil, nil, err
	}
	background, err := config.LoadReconciler(getenv)
	if err == nil {
		err = background.CheckProcess()
	}
	if err != nil {
		return nil, nil, err
	}
	log := telemetry.NewLogger(os.Stderr, public.LogLevel)
	api, err := app.NewAPI(ctx, public, log)
	if err != nil {
		return nil, nil, err
	}
	reconciler, err := app.NewReconciler(ctx, background, log)
	if err != nil {
		api.Close()
		return nil, nil, err
	}
	return api, reconciler, nil
}

// under has the defaults for what getenv lacks.
func under(getenv func(string) string, defaults map[string]string) func(string) string {
	return func(name string) string { return cmp.Or(getenv(name), defaults[name]) }
}

// shortTimes are those of somebody who waits for what happens. The profile sets further ones.
func shortTimes() map[string]string {
	return map[string]string{
		"PUBLIC_URL": "http://payonce.test", "LOG_LEVEL": "warn",
		"FIRST_LOOKUP": "500ms", "LOOKUP_BASE": "300ms", "LOOKUP_CAP": "2s", "PSP_BREAKER_OPEN": "1s",
		"SWEEP_EVERY": "300ms", "CLAIM_EVERY": "200ms", "SCAN_EVERY": "1s", "SCAN_OVERLAP": "30s",
		"PRUNE_EVERY": "500ms",
	}
}

// prepare makes the schema, the tenants and their keys. Two servers that start at once do it one after the other.
func prepare(ctx context.Context, url, keys string) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to DATABASE_URL: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtext('grade: prepare'))"); err != nil {
		return fmt.Errorf("wait for another server: %w", err)
	}
	if err := postgres.Migrate(ctx, url, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	db, err := postgres.Open(ctx, url, postgres.DefaultLimits())
	if err != nil {
		return err
	}
	defer db.Close()
	registry := tenants.NewRegistry(db, app.NewID)
	for pair := range strings.SplitSeq(keys, ",") {
		secret, tenant, _ := strings.Cut(pair, "=")
		if err := registry.EnsureTenant(ctx, tenant); err != nil {
			return err
		}
		_, err := registry.AddKey(ctx, tenant, secret, "grade",
			[]tenants.Permission{tenants.PaymentsWrite, tenants.PaymentsRead})
		if err != nil && !errors.Is(err, tenants.ErrSecretInUse) {
			return err
		}
	}
	return nil
}
