package supervisor

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
	"payonce/demo/mockpsp/stripe"
	"payonce/demo/shop"
	"payonce/internal/telemetry"
)

// serve starts everything, and stops it in the opposite order when ctx ends.
func serve(ctx context.Context, getenv func(string) string, stdout, stderr io.Writer) error {
	began := time.Now()
	set, err := load(getenv)
	if err != nil {
		return err
	}
	log := telemetry.NewTextLogger(stderr, set.api.LogLevel)
	say := func(line string) { fmt.Fprintln(stdout, line) }

	// The addresses first, all of them, and for good: PostgreSQL may take a minute to be installed, and nobody should
	// wait for a port that is taken.
	at, err := listen(ctx, set)
	if err != nil {
		return err
	}
	defer at.close()
	database, err := startDatabase(ctx, set.own.DataDir, set.getenv, log, say)
	if err != nil {
		return err
	}
	defer database.stop(say)
	if err := database.migrate(ctx, log); err != nil {
		return err
	}
	if err := seed(ctx, database.migrator, set.provider()); err != nil {
		return err
	}
	psp, dialect, err := newPSP(set, database.dir, log)
	if err != nil {
		return err
	}
	set = set.found(at, database)
	stage, err := openWindows(set, at, database)
	if err != nil {
		return errors.Join(err, psp.Close())
	}
	if stage != nil {
		defer func() { _ = stage.Close() }() // what is left of its socket's folder is removed by the next start
		defer context.AfterFunc(ctx, stage.Release)()
	}
	ours, err := newChildren(ctx, set, at, database, stage, stderr, log)
	if err != nil {
		return errors.Join(err, psp.Close())
	}
	if why := ours.withoutNaive; why != "" {
		say("without the naive server, nothing can be compared: " + why)
	}
	seen := openEvents(set.api.EventsFile, log)
	ours.api.tell, ours.reconciler.tell, database.tell = seen.of("API"), seen.of("reconciler"), seen.of("database")
	read, closeRows, err := openRows(ctx, database.api)
	if err != nil {
		return errors.Join(err, psp.Close())
	}
	defer closeRows()
	page, link := newControls(set, at, database, stage, read, ours, log)
	if page != nil {
		defer page.Close()
	}
	merchant, closeShop, err := openShop(ctx, set, at, database, log)
	if err != nil {
		return errors.Join(fmt.Errorf("open the shop: %w", err), psp.Close())
	}
	defer closeShop()
	return runAll(ctx, parts{set, at, database, psp, dialect, ours, page, merchant, log, say}, func() {
		if merchant != nil {
			merchant.Open()
		}
		banner(stdout, set, database, link, time.Since(began))
	})
}

// parts are what the demo consists of while it runs.
type parts struct {
	set      settings
	at       *listeners
	database *database
	psp      *mockpsp.Server
	dialect  *stripe.Server // nil unless the tenants are at Stripe
	children *children
	controls *controls.Controls // nil where the page is absent
	shop     *shop.Shop         // likewise
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
	if p.dialect != nil {
		group.Go(func() error { return p.dialect.Serve(last, p.at.stripe) })
	}
	group.Go(func() error { return p.database.watch(ctx) })
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

// newPSP makes the mock PSP. dialect speaks Stripe's dialect for it; it is nil unless the tenants are at Stripe.
func newPSP(set settings, dir string, log *slog.Logger) (psp *mockpsp.Server, dialect *stripe.Server, err error) {
	c := mockpsp.DefaultConfig()
	c.LedgerPath = filepath.Join(dir, "mockpsp-ledger.jsonl")
	c.Secret, c.Log = set.api.PSPSecret, log
	// The latest that is allowed, so that a lookup before it says "not found".
	c.LateDelay = set.api.PSPLate * 9 / 10
	c.WebhookURL, c.WebhookSecret = set.api.LocalURL()+"/webhooks/psp", set.api.WebhookSecrets[0]
	c.WebhookTimeout += set.hold() // Otherwise it would send a webhook again while that one is held.
	c.SilentAccount = naiveAccount
	psp, err = mockpsp.New(c)
	if err != nil {
		return nil, nil, fmt.Errorf("open the mock PSP's ledger: %w", err)
	}
	if !set.stripe() {
		return psp, nil, nil
	}
	d := stripe.DefaultConfig()
	d.Secret = set.api.StripeSecret
	d.WebhookURL, d.WebhookSecrets = set.api.LocalURL()+"/webhooks/stripe", set.api.StripeWebhookSecrets
	if dialect, err = stripe.New(psp, d); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start the Stripe dialect: %w", err), psp.Close())
	}
	return psp, dialect, nil
}
