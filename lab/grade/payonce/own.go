package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"payonce/demo/embeddedpg"
	"payonce/demo/mockpsp"
	"payonce/internal/app"
	"payonce/internal/config"
)

const (
	ownDir      = ".local" // of the database, and of the ledger of the mock PSP
	ownDatabase = "local"
)

// startPostgres runs a PostgreSQL of our own, with well-known API keys, and says so in the settings.
func startPostgres(
	ctx context.Context, getenv func(string) string, settings map[string]string,
) (_ *embeddedpg.Server, err error) {
	server, err := embeddedpg.Start(ctx, embeddedpg.Options{
		DataDir: ownDir, Durable: true, Install: true, Getenv: getenv, Log: slog.New(slog.DiscardHandler),
		Progress: func(step string) { fmt.Fprintln(os.Stderr, step) },
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, server.Stop(context.WithoutCancel(ctx)))
		}
	}()
	conn, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var exists bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", ownDatabase).Scan(&exists)
	if err == nil && !exists {
		_, err = conn.Exec(ctx, "CREATE DATABASE "+ownDatabase)
	}
	if err != nil {
		return nil, fmt.Errorf("create the database: %w", err)
	}
	maps.Copy(settings, map[string]string{
		"DATABASE_URL": server.URL(ownDatabase), "API_KEYS": "demo-acme-key=acme,demo-globex-key=globex",
	})
	return server, nil
}

// openPSP makes the mock PSP, and says in the settings where it is and what it signs with. It listens already.
func openPSP(
	ctx context.Context, dir string, getenv func(string) string, settings map[string]string,
) (*mockpsp.Server, net.Listener, error) {
	public := cmp.Or(getenv("HTTP_ADDR"), "127.0.0.1:8080")
	at := app.Address{Setting: "MOCKPSP_ADDR", Addr: cmp.Or(getenv("MOCKPSP_ADDR"), "127.0.0.1:8082")}
	opened, err := app.Listen(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	c := mockpsp.DefaultConfig()
	c.LedgerPath, c.WebhookURL = filepath.Join(dir, "ledger.jsonl"), config.LocalURL(public)+"/webhooks/psp"
	psp, err := mockpsp.New(c)
	if err != nil {
		return nil, nil, errors.Join(err, opened[0].Close())
	}
	maps.Copy(settings, map[string]string{
		"HTTP_ADDR": public, "PUBLIC_URL": config.LocalURL(public),
		"PSP_URL": config.LocalURL(at.Addr), "PSP_SECRET": c.Secret, "WEBHOOK_SECRETS": c.WebhookSecret,
		"LEASE": "15s", "PSP_TIMEOUT": "5s", "PSP_LATE_LIMIT": "10s", "SCAN_OVERLAP": "2m",
	})
	return psp, opened[0], nil
}
