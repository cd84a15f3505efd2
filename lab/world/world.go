package world

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/demo/mockpsp"
	"payonce/internal/postgres"
	"payonce/internal/tenants"
	"payonce/test/heldport"
	"payonce/test/httpproxy"
	"payonce/test/pgproxy"
)

// Plan says how a world differs from the ordinary.
type Plan struct {
	PSP        tenants.PSP       // the provider that all tenants are at; native unless it is given
	Env        map[string]string // settings of the API and the reconciler, beside Times
	PSPEnv     map[string]string // of the mock PSP
	NoWebhooks bool              // the PSP tells nobody what it has done
	// Arrived sees each call to the PSP before it is passed on, from every program.
	Arrived func(httpproxy.Call)
	// Programs replace those of the site.
	Programs *Programs
	// DatabaseURL is where programs find the database, instead of the proxy of each.
	DatabaseURL func(postgres.Role) (string, error)
	// Program replaces the api program by a step of the course. Its tables are in a schema of their own.
	Program string
}

// World is one database and what runs on it.
type World struct {
	Name  string
	URL   string        // of the database, straight, as the superuser
	DB    *pgxpool.Pool // likewise
	Keys  Keys
	PSP   *Process         // the mock PSP itself; at its address are its ledger and its faults, whatever is spoken
	Front *httpproxy.Proxy // through which webhooks come to the APIs

	site *Site
	plan Plan
	dir  string
	wire string // host:port where the PSP speaks the dialect of the plan

	mu        sync.Mutex
	apis      []*Process
	processes []*Process
	ports     []*heldport.Port // of the processes
	turn      int
}

const (
	// PSPSecret opens the native dialect of a world's PSP. It is the demo's, as the webhook secret is.
	PSPSecret = "demo-psp-secret"
	publicURL = "http://payonce.test"
)

// OtherSchema has the tables of Plan.Program.
const OtherSchema = "step01"

// superuser of the embedded server.
const superuser postgres.Role = "payonce"

// New makes a world with a PSP and nothing else.
func (s *Site) New(ctx context.Context, plan Plan) (_ *World, err error) {
	name, err := s.clone(ctx)
	if err != nil {
		return nil, err
	}
	w := &World{Name: name, URL: s.URL(name), Keys: s.Keys, site: s, plan: plan, dir: filepath.Join(s.Dir, name)}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return nil, err
	}
	if w.DB, err = pgxpool.New(ctx, w.URL); err != nil {
		return nil, err
	}
	if w.Front, err = httpproxy.Open(httpproxy.Options{Upstream: w.nextAPI,
		Name: func(*http.Request) string { return Webhook }}); err != nil {
		return nil, err
	}
	if err := w.moveTenants(ctx); err != nil {
		return nil, err
	}
	return w, w.startPSP(ctx)
}

// nextAPI is the API whose turn it is. One that does not run is passed over, as by a load balancer.
func (w *World) nextAPI() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range w.apis {
		w.turn++
		if p := w.apis[w.turn%len(w.apis)]; p.Running() {
			return p.Address
		}
	}
	return ""
}

func (w *World) startPSP(ctx context.Context) error {
	address, err := w.address()
	if err != nil {
		return err
	}
	settings := pspTimes()
	settings["MOCKPSP_ADDR"], settings["MOCKPSP_SECRET"] = address, PSPSecret
	settings["MOCKPSP_LEDGER"] = filepath.Join(w.dir, "ledger.jsonl")
	if !w.plan.NoWebhooks && w.plan.psp() == tenants.Native {
		settings["MOCKPSP_WEBHOOK_URL"], settings["MOCKPSP_WEBHOOK_SECRET"] = w.Front.URL()+"/webhooks/psp",
			mockpsp.DemoWebhookSecret
	}
	if err := w.dialectOfPSP(address, settings); err != nil {
		return err
	}
	maps.Copy(settings, w.plan.PSPEnv)
	w.PSP = &Process{
		Name: MockPSP, Address: address, Operator: address, Log: filepath.Join(w.dir, "mockpsp.log"),
		Program: w.programs().Path(MockPSP), Env: environment(settings), Probe: "http://" + address + "/_faults",
	}
	return w.PSP.Start(ctx)
}

// Start adds so many APIs and reconcilers.
func (w *World) Start(ctx context.Context, apis, reconcilers int) (started, behind []*Process, err error) {
	for i := range apis {
		api, err := w.StartAPI(ctx, fmt.Sprintf("api-%d", i+1))
		if err != nil {
			return nil, nil, err
		}
		started = append(started, api)
	}
	for i := range reconcilers {
		reconciler, err := w.StartReconciler(ctx, fmt.Sprintf("reconciler-%d", i+1))
		if err != nil {
			return nil, nil, err
		}
		behind = append(behind, reconciler)
	}
	return started, behind, nil
}

// StartAPI adds an API process.
func (w *World) StartAPI(ctx context.Context, name string) (*Process, error) {
	p, err := w.AddAPI(ctx, name)
	if err != nil {
		return nil, err
	}
	return p, p.Start(ctx)
}

// AddAPI adds one that does not run yet.
func (w *World) AddAPI(ctx context.Context, name string) (*Process, error) {
	p, err := w.process(name, API)
	if err != nil {
		return nil, err
	}
	if w.plan.Program != "" {
		if _, err := w.DB.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+OtherSchema); err != nil {
			return nil, err
		}
		_, port, err := net.SplitHostPort(p.Address)
		if err != nil {
			return nil, err
		}
		p.Program, p.Args, p.Operator, p.Probe = w.plan.Program, nil, p.Address, "http://"+p.Address+"/readyz"
		p.Env = append(p.Env, "PORT="+port, "PGOPTIONS=-c search_path="+OtherSchema,
			fmt.Sprintf("API_KEYS=%s=acme,%s=globex", w.Keys.Acme, w.Keys.Globex))
	}
	w.mu.Lock()
	w.apis = append(w.apis, p)
	w.mu.Unlock()
	return p, nil
}

// StartReconciler adds a reconciler process.
func (w *World) StartReconciler(ctx context.Context, name string) (*Process, error) {
	p, err := w.AddReconciler(name)
	if err != nil {
		return nil, err
	}
	return p, p.Start(ctx)
}

// AddReconciler adds one that does not run yet: its proxies can be told what to do with the first that it sends.
func (w *World) AddReconciler(name string) (*Process, error) {
	return w.process(name, Reconciler)
}

// process is one between two proxies of its own, not started yet.
func (w *World) process(name, program string) (*Process, error) {
	public, err := w.address()
	if err != nil {
		return nil, err
	}
	operator, err := w.address()
	if err != nil {
		return nil, err
	}
	p := &Process{
		Name: name, Address: public, Operator: operator, Log: filepath.Join(w.dir, name+".log"),
		Program: w.programs().Path(program), Args: []string{map[string]string{API: "serve",
			Reconciler: "run"}[program]},
		Probe: "http://" + operator + "/readyz",
	}
	if p.DB, err = pgproxy.Open(w.site.URLAs(w.role(program), w.Name)); err != nil {
		return nil, err
	}
	p.PSP, err = httpproxy.Open(httpproxy.Options{Upstream: func() string { return w.wire }, Name: w.nameOfCall,
		Arrived: w.plan.Arrived})
	if err != nil {
		return nil, errors.Join(err, p.DB.Close())
	}
	settings := Times()
	maps.Copy(settings, w.provider(p.PSP.URL()))
	maps.Copy(settings, map[string]string{
		"DATABASE_URL": p.DB.URL(), "PUBLIC_URL": publicURL, "LOG_LEVEL": "info",
		"WEBHOOK_SECRETS": mockpsp.DemoWebhookSecret,
		"HTTP_ADDR":       public, "OPERATOR_ADDR": operator, "RECONCILER_ADDR": operator,
	})
	if w.plan.DatabaseURL != nil {
		if settings["DATABASE_URL"], err = w.plan.DatabaseURL(w.role(program)); err != nil {
			return nil, errors.Join(err, p.DB.Close())
		}
	}
	maps.Copy(settings, w.plan.Env)
	p.Env = environment(settings)
	w.mu.Lock()
	w.processes = append(w.processes, p)
	w.mu.Unlock()
	return p, nil
}

// role is who a program is to the database. One that is not ours makes its own tables.
func (w *World) role(program string) postgres.Role {
	switch {
	case program == Reconciler:
		return postgres.Reconciler
	case w.plan.Program != "":
		return superuser
	}
	return postgres.API
}

func environment(settings map[string]string) []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		env = append(env, name+"="+settings[name])
	}
	return env
}

// Close kills what runs, and drops the database. Logs stay.
func (w *World) Close() error {
	w.mu.Lock()
	processes := slices.Clone(w.processes)
	w.mu.Unlock()
	var errs []error
	for _, p := range processes {
		p.Kill()
		p.PSP.Close()
		errs = append(errs, p.DB.Close())
	}
	if w.PSP != nil {
		w.PSP.Kill()
	}
	if w.Front != nil {
		w.Front.Close()
	}
	for _, port := range w.ports {
		port.Close()
	}
	if w.DB != nil {
		w.DB.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if err := w.site.admin(ctx, "DROP DATABASE IF EXISTS "+w.Name+" WITH (FORCE)"); err != nil {
		errs = append(errs, fmt.Errorf("close world: %w", err))
	}
	return errors.Join(errs...)
}
