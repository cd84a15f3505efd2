package supervisor

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"payonce/demo/windows"
	"payonce/internal/app"
	"payonce/internal/cli"
	"payonce/internal/config"
	"payonce/internal/telemetry"
)

// naiveStartLimit is how long the demo waits for the naive server. It starts within a tenth of a second.
const naiveStartLimit = 3 * time.Second

// stopMargin is what a child has to stop beyond its own limit.
const stopMargin = 5 * time.Second

// children are our two processes, and the naive server if there is one.
type children struct {
	api, reconciler, naive *child

	withoutNaive string // why there is no naive server
}

// newChildren makes the children, and starts none.
func newChildren(
	ctx context.Context, set settings, at *listeners, d *database, stage *windows.Stage, stderr io.Writer,
	log *slog.Logger,
) (*children, error) {
	if err := check(ctx, set, log); err != nil {
		return nil, err
	}
	env := func(databaseURL, spokenURL string) []string {
		pspURL, stripeURL := spokenURL, set.api.StripeURL
		if set.stripe() {
			pspURL, stripeURL = set.api.PSPURL, spokenURL
		}
		return append(os.Environ(), set.environment(map[string]string{
			"DATABASE_URL": databaseURL, "PSP_URL": pspURL, "STRIPE_URL": stripeURL,
			"PUBLIC_URL":   set.api.PublicURL,
			pspPageSetting: config.LocalURL(at.psp.Addr().String()), demoPageSetting: demoPage(at),
		})...)
	}
	spoken := "http://" + at.spoken().Addr().String()
	apiEnv, reconcilerEnv := env(set.api.DatabaseURL, spoken), env(set.reconciler.DatabaseURL, spoken)
	if stage != nil {
		// PostgreSQL itself must not end a transaction whose commit is held.
		idle := fmt.Sprintf("&idle_in_transaction_session_timeout=%d", (2 * stage.Limit()).Milliseconds())
		held := holdSetting + "=" + stage.Limit().String()
		apiEnv = append(env(stage.DatabaseURL(windows.API)+idle, stage.PSPURL(windows.API)), held)
		reconcilerEnv = append(env(stage.DatabaseURL(windows.Reconciler)+idle, stage.PSPURL(windows.Reconciler)), held)
	}
	naive, why := newNaive(ctx, set, d, log)
	return &children{
		api: &child{
			name: "the API", argument: childAPI, env: apiEnv, files: []*os.File{at.public, at.api},
			stopLimit: set.api.DrainDelay + set.api.DrainLimit + stopMargin,
			stderr:    stderr, log: log,
		},
		reconciler: &child{
			name: "the reconciler", argument: childReconciler, env: reconcilerEnv,
			files: []*os.File{at.reconciler}, stopLimit: set.reconciler.StopLimit + stopMargin,
			stderr: stderr, log: log,
		},
		naive: naive, withoutNaive: why,
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

// run keeps them running until ctx ends. ready is called each time the API serves. A naive server that cannot run ends
// nothing: the demo is about the other two.
func (c *children) run(ctx context.Context, ready func()) error {
	group, ctx := errgroup.WithContext(ctx)
	if c.naive != nil {
		serves := make(chan struct{})
		group.Go(func() error {
			if err := c.naive.run(ctx, sync.OnceFunc(func() { close(serves) })); err != nil {
				c.naive.log.WarnContext(ctx, "the naive server stays away", slog.Any("error", err))
			}
			return nil
		})
		select { // When the banner says that all is ready, this is, too.
		case <-serves:
		case <-time.After(naiveStartLimit):
		case <-ctx.Done():
		}
	}
	group.Go(func() error { return c.api.run(ctx, ready) })
	group.Go(func() error { return c.reconciler.run(ctx, func() {}) })
	return group.Wait()
}

// The first arguments that make this program a child of the demo. They are not for people.
const (
	childAPI        = "child-api"
	childReconciler = "child-reconciler"
)

// The files that a child inherits, from the first number after those of stdin, stdout and stderr.
const firstInherited = 3

// pspPageSetting tells the API's child where a browser finds the page of the mock PSP. It is no setting for people: see
// config.API.PSPPage.
const pspPageSetting = "DEMO_PSP_PAGE"

// demoPageSetting tells the API's child the path of the page with the buttons, for config.API.DemoPage.
const demoPageSetting = "DEMO_PAGE"

// noticeSetting tells it what the pages say at the top, for config.API.Notice.
const noticeSetting = "DEMO_NOTICE"

// eventsSetting tells it the path of the file with the events, for config.API.EventsFile.
const eventsSetting = "DEMO_EVENTS"

// holdSetting tells the children for how long a message of theirs may be held, for config.Shared.Hold. It is no setting
// for people: tests hold for a shorter time.
const holdSetting = "DEMO_HOLD"

// consoleSetting tells the reconciler's child where a browser finds the console, for config.Reconciler.ConsoleURL.
const consoleSetting = "DEMO_CONSOLE"

// announced is what a child writes to its stdout when it serves.
const announced = "ready\n"

// childWork is the work of a child, or nil if the arguments do not make this program one.
func childWork(args []string) func(context.Context, func(string) string, io.Writer, io.Writer) error {
	if len(args) != 1 {
		return nil
	}
	return map[string]func(context.Context, func(string) string, io.Writer, io.Writer) error{
		childAPI: runAPI, childReconciler: runReconciler,
	}[args[0]]
}

// endWithSupervisor ends this process at once when the demo is gone. The demo holds the other end of stdin and writes
// nothing, so a read returns when the demo has ended, also after a kill -9, on every system.
func endWithSupervisor(stdin io.Reader) {
	_, _ = io.Copy(io.Discard, stdin)
	os.Exit(1)
}

func runAPI(ctx context.Context, getenv func(string) string, stdout, stderr io.Writer) error {
	settings, err := config.Load(getenv)
	if err != nil {
		return err
	}
	settings.PSPPage, settings.DemoPage = getenv(pspPageSetting), getenv(demoPageSetting)
	settings.Notice, settings.EventsFile = getenv(noticeSetting), getenv(eventsSetting)
	settings.Hold(holdOf(getenv, 0))
	log := telemetry.NewTextLogger(stderr, settings.LogLevel)
	public, err := inherited(firstInherited)
	if err != nil {
		return err
	}
	operator, err := inherited(firstInherited + 1)
	if err != nil {
		return err
	}
	api, err := app.NewAPI(ctx, settings, log)
	if err != nil {
		return err
	}
	return api.Serve(ctx, public, operator, func() { fmt.Fprint(stdout, announced) })
}

func runReconciler(ctx context.Context, getenv func(string) string, stdout, stderr io.Writer) error {
	settings, err := config.LoadReconciler(getenv)
	if err != nil {
		return err
	}
	settings.ConsoleURL = getenv(consoleSetting)
	settings.Hold(holdOf(getenv, 0))
	log := telemetry.NewTextLogger(stderr, settings.LogLevel)
	operator, err := inherited(firstInherited)
	if err != nil {
		return err
	}
	reconciler, err := app.NewReconciler(ctx, settings, log)
	if err != nil {
		return err
	}
	return reconciler.Serve(ctx, operator, func() { fmt.Fprint(stdout, announced) })
}

// inherited is the listener that the demo has opened and handed down.
func inherited(number uintptr) (net.Listener, error) {
	file := os.NewFile(number, "listener")
	defer func() { _ = file.Close() }()
	l, err := net.FileListener(file)
	if err != nil {
		return nil, cli.Usagef("only the demo starts this: it inherits its listeners: %w", err)
	}
	return l, nil
}
