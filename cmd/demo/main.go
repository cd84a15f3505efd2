// Command demo runs everything in one process: PostgreSQL as a private child, the mock PSP, the API and the reconciler.
// It needs no settings, takes no port for the database, keeps its data between runs, and ends with Ctrl-C.
//
// The API keys that it makes are well known. They exist in the demo only.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"payonce/demo/mockpsp"
	"payonce/internal/app"
	"payonce/internal/cli"
	"payonce/internal/config"
	"payonce/internal/telemetry"
)

func main() {
	cli.Main("demo", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr) })
}

// demoOnly are the settings that the API process does not have.
type demoOnly struct {
	DataDir     string `env:"DEMO_DATA_DIR" envDefault:".demo" desc:"folder of the database and of the PSP's ledger; remove the folder to start with empty data"`
	MockPSPAddr string `env:"MOCKPSP_ADDR" envDefault:"127.0.0.1:8082" desc:"address of the mock PSP"`
}

// demoDefaults differ from those of the processes. Times are shorter, so that every path of the demo ends within a
// minute. The API keys are well known, so it listens on loopback. Faults are sent by hand here, and a row of them
// should not open the breaker.
func demoDefaults() map[string]string {
	return map[string]string{
		"HTTP_ADDR": "127.0.0.1:8080", "LEASE": "15s", "PSP_TIMEOUT": "5s", "DRAIN_LIMIT": "20s", "LOG_LEVEL": "warn",
		"PSP_SECRET": "demo-psp-secret", "PSP_URL": "(the mock PSP)", "PSP_BREAKER_FAILURES": "100",
		"WEBHOOK_SECRETS": mockpsp.DemoWebhookSecret,
		// A lost outcome waits 5 s for its webhook, then it is looked up; 25 s after it was lost, "not found" is
		// believed.
		"FIRST_LOOKUP": "5s", "PSP_LATE_LIMIT": "10s", "SWEEP_EVERY": "1s", "CLAIM_EVERY": "1s",
		"LOOKUP_BUDGET": "4", "LOOKUP_BASE": "1s", "LOOKUP_CAP": "5s", "LOOKUP_RECHECK": "30s",
		"RECONCILER_ADDR": "(OPERATOR_ADDR)", "SCAN_EVERY": "10s", "SCAN_OVERLAP": "2m", "PRUNE_EVERY": "10s",
		"STOP_LIMIT": "10s",
	}
}

const usage = `Usage: demo
       demo --version

Runs PostgreSQL, the mock PSP, the API and the reconciler until interrupted, and prints commands to try. If DATABASE_URL
is set, the demo uses the server at this address. If not, the demo looks for PostgreSQL's programs in PG_BINDIR, in PATH
and in the usual folders. If there is no PostgreSQL, the demo installs it.

Settings, as environment variables with their defaults:
`

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	switch command := strings.Join(args, " "); {
	case command == "help" || cli.AsksForHelp(args):
		fmt.Fprint(stdout, usage)
		return config.Describe(stdout, demoDefaults(), demoOnly{}, config.API{}, config.Reconciler{})
	case command == "version" || command == "--version" || command == "-version":
		return cli.PrintVersion(stdout, "demo")
	case command != "":
		return cli.Usagef("argument %q is not known; see demo --help", args[0])
	}
	began := time.Now()
	settings, reconciling, own, err := load(getenv)
	if err != nil {
		return err
	}
	level, err := settings.Level()
	if err != nil {
		return err
	}
	log := telemetry.NewTextLogger(stderr, level)
	say := func(line string) { fmt.Fprintln(stdout, line) }

	// The addresses first, all of them, and for good: PostgreSQL may take a minute to be installed, and nobody should
	// wait for a port that is taken.
	at, err := listen(ctx, settings, own)
	if err != nil {
		return err
	}
	defer at.close()
	database, err := startDatabase(ctx, own.DataDir, getenv, log, say)
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
	pspConfig := mockpsp.DefaultConfig()
	pspConfig.LedgerPath = filepath.Join(database.dir, "mockpsp-ledger.jsonl")
	pspConfig.Secret, pspConfig.Log = settings.PSPSecret, log
	pspConfig.WebhookURL, pspConfig.WebhookSecret = settings.LocalURL()+"/webhooks/psp", settings.WebhookSecrets[0]
	psp, err := mockpsp.New(pspConfig)
	if err != nil {
		return fmt.Errorf("open the mock PSP's ledger: %w", err)
	}
	settings.DatabaseURL, settings.PSPURL = database.api, "http://"+at.psp.Addr().String()
	settings.PSPPage = config.LocalURL(at.psp.Addr().String())
	reconciling.Shared = settings.Shared // the same PSP and URLs
	reconciling.DatabaseURL = database.reconciler
	ours, err := newProcesses(ctx, settings, reconciling, log)
	if err != nil {
		return errors.Join(err, psp.Close())
	}

	// The PSP stops last, so that payments and lookups in flight get their answers.
	pspContext, stopPSP := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPSP()
	context.AfterFunc(ctx, func() { say("stopping: payments in flight are finished first; Ctrl-C again ends at once") })
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return psp.Serve(pspContext, at.psp) })
	group.Go(func() error { return database.watch(ctx) })
	group.Go(func() error {
		defer stopPSP()
		return ours.run(ctx, at, func() { banner(stdout, settings, database, time.Since(began)) })
	})
	return group.Wait()
}

// processes are the two of ours that the demo runs in one.
type processes struct {
	api        *app.API
	reconciler *app.Reconciler
}

func newProcesses(
	ctx context.Context, settings config.API, reconciling config.Reconciler, log *slog.Logger,
) (*processes, error) {
	api, err := app.NewAPI(ctx, settings, log)
	if err != nil {
		return nil, err
	}
	reconciler, err := app.NewReconciler(ctx, reconciling, log, api.Telemetry())
	if err != nil {
		api.Close()
		return nil, err
	}
	return &processes{api, reconciler}, nil
}

func (p *processes) run(ctx context.Context, at listeners, ready func()) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.api.Serve(ctx, at.public, at.operator, ready) })
	group.Go(func() error { return p.reconciler.Work(ctx) }) // its figures are on the API's operator side
	return group.Wait()
}

// load reads the settings, with the demo's own defaults under them.
func load(getenv func(string) string) (config.API, config.Reconciler, demoOnly, error) {
	defaults := demoDefaults()
	delete(defaults, "PSP_URL") // known once the mock PSP listens
	delete(defaults, "RECONCILER_ADDR")
	layered := func(name string) string {
		if v := getenv(name); v != "" {
			return v
		}
		return defaults[name]
	}
	settings, err := config.Load(layered)
	reconciling, reconcilingErr := config.LoadReconciler(layered)
	if err == nil {
		err = reconcilingErr // what is shared would be said twice
	}
	own := demoOnly{DataDir: ".demo", MockPSPAddr: "127.0.0.1:8082"}
	if v := getenv("DEMO_DATA_DIR"); v != "" {
		own.DataDir = v
	}
	if v := getenv("MOCKPSP_ADDR"); v != "" {
		own.MockPSPAddr = v
	}
	return settings, reconciling, own, errors.Join(err, config.CheckAddress("MOCKPSP_ADDR", own.MockPSPAddr))
}
