package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"

	"payonce/internal/tenants"
	"payonce/lab/chaos/plan"
	"payonce/lab/chaos/tally"
	"payonce/lab/history"
	"payonce/lab/invariants"
	"payonce/lab/program"
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// stage is what a run plays on.
type stage struct {
	site        *world.Site
	world       *world.World
	apis        []*world.Process
	reconcilers []*world.Process
	dir         string // what goes away in the end
	keep        string // what may stay
	file        *os.File
	recorder    *history.Recorder
	tally       *tally.Tally
	keys        map[string]string // API key by tenant
	plan        world.Plan
	watched     atomic.Pointer[invariants.Reservations] // who asks for a reservation at each send
	say         func(string)
}

// open starts everything. The history goes to a file from the first request on: what a crash of this program leaves can
// be read.
func open(ctx context.Context, s settings, say func(string)) (_ *stage, err error) {
	g := &stage{keep: s.keep(), tally: tally.New(), say: say}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	if g.dir, err = program.TempDir("chaos"); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(g.keep, 0o755); err != nil {
		return nil, err
	}
	if g.file, err = os.Create(filepath.Join(g.keep, "history.jsonl")); err != nil {
		return nil, err
	}
	g.recorder = history.New(g.file)
	programs, err := world.FindOrBuild(ctx, s.Programs, g.dir, say)
	if err != nil {
		return nil, err
	}
	say("starting PostgreSQL and the programs")
	if g.site, err = world.Open(ctx, world.Options{Programs: programs, Dir: g.dir, Say: say,
		Servers: s.Servers}); err != nil {
		return nil, err
	}
	return g, g.start(ctx, s)
}

func (g *stage) start(ctx context.Context, s settings) error {
	p := world.Plan{
		PSP: tenants.PSP(s.PSP),
		// A breaker that opens is to close again within the storm, and what the PSP never answers is to become an
		// operator's case. Keys end within the storm, in the relations that the programs demand.
		Env: map[string]string{
			"PSP_BREAKER_OPEN": "1s", "LOOKUP_BUDGET": "8", "KEY_RETENTION": s.retention().String(),
			"KEY_AUDIT":      audit.String(),
			"PSP_KEY_MEMORY": s.memory().String(), "PRUNE_EVERY": "1s",
			// The merchants' endpoints are on loopback, and an endpoint that hangs is to be given up within the storm.
			"EVENTS_ALLOW_HTTP": "true", "EVENTS_ALLOW_NETWORKS": "127.0.0.0/8,::1/128",
			"EVENTS_DISPATCH_EVERY": "200ms", "EVENTS_TIMEOUT": "2s",
		},
		PSPEnv:  map[string]string{"MOCKPSP_SEED": fmt.Sprint(s.Seed%(1<<62) + 1)},
		Arrived: g.arrived,
	}
	if s.Target == naive {
		program, err := buildNaive(ctx, g.dir)
		if err != nil {
			return err
		}
		p.Program = program
	}
	g.plan = p
	var err error
	if g.world, err = g.site.New(ctx, p); err != nil {
		return err
	}
	if err := g.addTenants(ctx, s); err != nil {
		return err
	}
	if s.Servers.Can(world.EndKeys) {
		if err := invariants.Archive(ctx, g.world.DB); err != nil {
			return err
		}
	}
	if s.Target == naive {
		g.apis, _, err = g.world.Start(ctx, 2, 0)
		return err
	}
	if g.apis, g.reconcilers, err = g.world.Start(ctx, 2, 2); err != nil {
		return err
	}
	watched, err := invariants.WatchReservations(ctx, g.world.URL)
	if err != nil {
		return err
	}
	g.watched.Store(watched)
	return nil
}

// arrived sees each call on its way to the PSP.
func (g *stage) arrived(c httpproxy.Call) {
	g.tally.One("psp call", c.Name)
	watched := g.watched.Load()
	if watched != nil {
		g.plan.Watch(context.Background(), watched, c)
	}
}

// buildNaive builds the wrong implementation.
func buildNaive(ctx context.Context, dir string) (string, error) {
	root, err := world.Root(ctx)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "bin", naive)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", program, "./steps/01")
	cmd.Dir = filepath.Join(root, "course")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build step 01 of the course: %w\n%s", err, out)
	}
	return program, nil
}

func (g *stage) addresses(of func(*world.Process) string) []string {
	var all []string
	for _, p := range g.apis {
		all = append(all, of(p))
	}
	return all
}

// smallLimits are the requests per second of the small tenants, at each API. They are refused as soon as they hurry.
var smallLimits = []int{3, 2}

const noLimit = 100_000

// addTenants adds the small ones, which the wrong implementation knows nothing of.
func (g *stage) addTenants(ctx context.Context, s settings) error {
	g.keys = map[string]string{"acme": g.site.Keys.Acme, "globex": g.site.Keys.Globex}
	if s.Target == naive {
		return nil
	}
	for i, name := range plan.SmallTenants() {
		key, err := g.world.AddTenant(ctx, name, smallLimits[i])
		if err != nil {
			return err
		}
		g.keys[name] = key
	}
	return nil
}

// liftLimits is for those who ask for everything once more.
func (g *stage) liftLimits(ctx context.Context) error {
	for _, name := range plan.SmallTenants() {
		if err := g.world.Limit(ctx, name, noLimit); err != nil {
			return err
		}
	}
	return nil
}

// endPruning keeps all keys as they are from here on. Otherwise, a repeated request could begin the next life of a key.
func (g *stage) endPruning(ctx context.Context) error {
	for _, p := range g.reconcilers {
		p.Stop()
		p.Set("PRUNE_EVERY", "24h")
	}
	// Those of a reconciler that was killed would be run again later. A new one runs at the start.
	if _, err := g.world.DB.Exec(ctx, "DELETE FROM river_job WHERE kind = 'prune'"); err != nil {
		return fmt.Errorf("end pruning: %w", err)
	}
	for _, p := range g.reconcilers {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	return g.untilHolds(ctx,
		`SELECT count(*) > 0 AND bool_and(state IN ('completed', 'cancelled', 'discarded')) FROM river_job WHERE kind = 'prune'`)
}

// untilHolds asks the database until it says yes.
func (g *stage) untilHolds(ctx context.Context, question string) error {
	ctx, cancel := context.WithTimeout(ctx, againLimit)
	defer cancel()
	err := world.Until(ctx, againEvery, func() (so bool, err error) {
		return so, g.world.DB.QueryRow(ctx, question).Scan(&so)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", question, err)
	}
	return nil
}

// keepEvidence copies the logs and the PSP's ledger beside the history.
func (g *stage) keepEvidence() error {
	logs := filepath.Join(g.keep, "logs")
	return errors.Join(os.RemoveAll(logs), os.CopyFS(logs, os.DirFS(filepath.Join(g.dir, g.world.Name))))
}

// close ends everything.
func (g *stage) close() error {
	var errs []error
	if g.recorder != nil {
		errs = append(errs, g.recorder.Close())
	}
	if g.file != nil {
		errs = append(errs, g.file.Close())
	}
	if watched := g.watched.Load(); watched != nil {
		watched.Close()
	}
	if g.world != nil {
		errs = append(errs, g.world.Close())
	}
	if g.site != nil {
		errs = append(errs, g.site.Close())
	}
	if g.dir != "" {
		errs = append(errs, os.RemoveAll(g.dir))
	}
	return errors.Join(errs...)
}
