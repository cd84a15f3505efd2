package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"payonce/demo/controls"
	"payonce/demo/mockpsp"
	"payonce/internal/telemetry"
)

// serve starts everything, and stops it in the opposite order when ctx ends.
func serve(ctx context.Context, getenv func(string) string, stdout, stderr io.Writer) error {
	began := time.Now()
	set, err := load(getenv)
	if err != nil {
		return err
	}
	level, err := set.api.Level()
	if err != nil {
		return err
	}
	log := telemetry.NewTextLogger(stderr, level)
	say := func(line string) { fmt.Fprintln(stdout, line) }

	// The addresses first, all of them, and for good: PostgreSQL may take a minute to be installed, and nobody should
	// wait for a port that is taken.
	at, err := listen(ctx, set)
	if err != nil {
		return err
	}
	defer at.close()
	database, err := startDatabase(ctx, set.own.DataDir, getenv, log, say)
	if err != nil {
		return err
	}
	defer database.stop(say)
	if err := database.migrate(ctx, log); err != nil {
		return err
	}
	if err := seed(ctx, database.migrator); err != nil {
		return err
	}
	psp, err := newPSP(set, database.dir, log)
	if err != nil {
		return err
	}
	set.api.DatabaseURL, set.api.PSPURL = database.api, "http://"+at.psp.Addr().String()
	set.reconciler.Shared = set.api.Shared // the same PSP and URLs
	set.reconciler.DatabaseURL = database.reconciler
	stage, err := openWindows(set, at, database)
	if err != nil {
		return errors.Join(err, psp.Close())
	}
	if stage != nil {
		defer func() { _ = stage.Close() }() // what is left of its socket's folder is removed by the next start
		defer context.AfterFunc(ctx, stage.Release)()
	}
	ours, err := newChildren(ctx, set, at, stage, stderr, log)
	if err != nil {
		return errors.Join(err, psp.Close())
	}
	read, err := openRows(ctx, database.api)
	if err != nil {
		return errors.Join(err, psp.Close())
	}
	defer read.close()
	page, link := newControls(set, at, database, stage, read, ours, log)
	if page != nil {
		defer page.Close()
	}
	wrong, err := startNaive(ctx, set, database, stderr)
	if err != nil {
		return errors.Join(err, psp.Close())
	}
	return runAll(ctx, parts{set, at, database, psp, ours, wrong, page, log, say}, func() {
		banner(stdout, set, database, link, time.Since(began))
	})
}

// parts are what the demo consists of while it runs.
type parts struct {
	set      settings
	at       *listeners
	database *database
	psp      *mockpsp.Server
	children *children
	naive    *naive             // nil if nobody has asked for it
	controls *controls.Controls // nil where the page is absent
	log      *slog.Logger
	say      func(string)
}

// runAll runs the parts until ctx or one of them ends. The children stop first. The operator's listener and the PSP
// stop last, so that payments and lookups in flight get their answers.
func runAll(ctx context.Context, p parts, ready func()) error {
	last, stopLast := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLast()
	context.AfterFunc(ctx, func() {
		p.say("stopping: payments in flight are finished first; Ctrl-C again ends at once")
	})
	side := newOperatorSide(p)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.psp.Serve(last, p.at.psp) })
	group.Go(func() error { return p.database.watch(ctx) })
	group.Go(func() error { return p.naive.run(ctx) })
	var first sync.Once
	serves := make(chan struct{})
	// A client that connects before the API serves for the first time waits for its answer.
	group.Go(func() error {
		select {
		case <-serves:
			return side.serve(last, p.at.operator)
		case <-last.Done():
			return nil
		}
	})
	group.Go(func() error {
		defer stopLast()
		return p.children.run(ctx, func() { first.Do(func() { close(serves); ready() }) })
	})
	return group.Wait()
}

func newPSP(set settings, dir string, log *slog.Logger) (*mockpsp.Server, error) {
	c := mockpsp.DefaultConfig()
	c.LedgerPath = filepath.Join(dir, "mockpsp-ledger.jsonl")
	c.Secret, c.Log = set.api.PSPSecret, log
	// The latest that is allowed, so that a lookup before it says "not found".
	c.LateDelay = set.api.PSPLate * 9 / 10
	c.WebhookURL, c.WebhookSecret = set.api.LocalURL()+"/webhooks/psp", set.api.WebhookSecrets[0]
	psp, err := mockpsp.New(c)
	if err != nil {
		return nil, fmt.Errorf("open the mock PSP's ledger: %w", err)
	}
	return psp, nil
}
