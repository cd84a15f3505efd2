// Command payonce starts Payonce as the grader starts any server: from PORT, DATABASE_URL, PSP_URL, PSP_SECRET,
// WEBHOOK_SECRET and API_KEYS. It prepares the database, runs one API and one reconciler, and ends when one of them
// does. The programs api and reconciler are beside it, or where PROGRAMS says.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"payonce/internal/cli"
	"payonce/internal/postgres"
	"payonce/internal/tenants"
	"payonce/lab/program"
)

func main() { cli.Main("payonce", run) }

func run(ctx context.Context) error {
	runtime.LockOSThread() // the children are told to die with the thread that has started them
	dir := os.Getenv("PROGRAMS")
	if dir == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find api and reconciler: %w", err)
		}
		dir = filepath.Dir(self)
	}
	if err := prepare(ctx, os.Getenv("DATABASE_URL"), os.Getenv("API_KEYS")); err != nil {
		return err
	}
	env := append(os.Environ(), settings(os.Getenv)...)
	// A group of its own is not wanted: who signals this process means all three.
	var group errgroup.Group
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, command := range [][]string{{"api", "serve"}, {"reconciler", "run"}} {
		cmd := exec.CommandContext(ctx, filepath.Join(dir, command[0]), command[1:]...)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.Env, cmd.Stdout, cmd.Stderr = env, os.Stdout, os.Stderr
		cmd.SysProcAttr = program.Attributes()
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("start %s: %w", command[0], err)
		}
		group.Go(func() error {
			defer cancel()
			err := cmd.Wait()
			if ctx.Err() != nil {
				return nil // it was told to end
			}
			return fmt.Errorf("%s has ended: %w", command[0], errors.Join(err))
		})
	}
	return group.Wait()
}

// settings are the short times of our programs, beside what the profile sets.
func settings(getenv func(string) string) []string {
	var all []string
	for _, pair := range [][2]string{
		{"PUBLIC_URL", "http://payonce.test"},
		{"FIRST_LOOKUP", "500ms"},
		{"SWEEP_EVERY", "300ms"}, {"CLAIM_EVERY", "200ms"}, {"SCAN_EVERY", "1s"}, {"SCAN_OVERLAP", "30s"},
		{"LOOKUP_BASE", "300ms"}, {"LOOKUP_CAP", "2s"}, {"PSP_BREAKER_OPEN", "1s"}, {"PRUNE_EVERY", "500ms"},
		{"LOG_LEVEL", "warn"},
	} {
		if getenv(pair[0]) == "" {
			all = append(all, pair[0]+"="+pair[1])
		}
	}
	return all
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
	registry := tenants.NewRegistry(db, uuid.NewV7)
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
