package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"payonce/demo/windows"
	"payonce/internal/app"
	"payonce/internal/config"
)

// stopMargin is what a child has to stop beyond its own limit.
const stopMargin = 5 * time.Second

// children are our two processes.
type children struct{ api, reconciler *child }

// newChildren makes the children, and starts none.
func newChildren(
	ctx context.Context, set settings, at *listeners, stage *windows.Stage, stderr io.Writer, log *slog.Logger,
) (*children, error) {
	if err := check(ctx, set, log); err != nil {
		return nil, err
	}
	// A session in the browser must not end when the page's button kills the API.
	secret := rand.Text() + rand.Text()
	env := func(databaseURL, spokenURL string) []string {
		pspURL, stripeURL := spokenURL, set.api.StripeURL
		if set.stripe() {
			pspURL, stripeURL = set.api.PSPURL, spokenURL
		}
		return append(os.Environ(), set.environment(map[string]string{
			"DATABASE_URL": databaseURL, "PSP_URL": pspURL, "STRIPE_URL": stripeURL,
			"PUBLIC_URL":   set.api.PublicURL,
			pspPageSetting: config.LocalURL(at.psp.Addr().String()), demoPageSetting: demoPage(at),
			"CONSOLE_SECRET": cmp.Or(set.api.ConsoleSecret, secret),
		})...)
	}
	spoken := "http://" + at.spoken().Addr().String()
	apiEnv, reconcilerEnv := env(set.api.DatabaseURL, spoken), env(set.reconciler.DatabaseURL, spoken)
	if stage != nil {
		apiEnv = env(stage.DatabaseURL(windows.API), stage.PSPURL(windows.API))
		reconcilerEnv = env(stage.DatabaseURL(windows.Reconciler), stage.PSPURL(windows.Reconciler))
	}
	return &children{
		api: &child{
			name: "the API", argument: childAPI, env: apiEnv, files: []*os.File{at.public, at.api},
			stopLimit: set.api.DrainDelay + set.api.DrainLimit + stopMargin,
			stderr:    stderr, log: log, changed: func() {},
		},
		reconciler: &child{
			name: "the reconciler", argument: childReconciler, env: reconcilerEnv,
			files: []*os.File{at.reconciler}, stopLimit: set.reconciler.StopLimit + stopMargin,
			stderr: stderr, log: log, changed: func() {},
		},
	}, nil
}

// check makes both processes once and throws them away. They connect to nothing, and what is wrong with a setting is
// said before anything runs.
func check(ctx context.Context, set settings, log *slog.Logger) error {
	api, err := app.NewAPI(ctx, set.api, log)
	if err != nil {
		return fmt.Errorf("check the API's settings: %w", err)
	}
	api.Close()
	reconciler, err := app.NewReconciler(ctx, set.reconciler, log)
	if err != nil {
		return fmt.Errorf("check the reconciler's settings: %w", err)
	}
	reconciler.Close()
	return nil
}

// run keeps both running until ctx ends. ready is called each time the API serves.
func (c *children) run(ctx context.Context, ready func()) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.api.run(ctx, ready) })
	group.Go(func() error { return c.reconciler.run(ctx, func() {}) })
	return group.Wait()
}
