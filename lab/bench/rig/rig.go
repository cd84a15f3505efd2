// Package rig is what the bench measures: a durable PostgreSQL of its own, the real programs built from this tree, and
// tables with as many rows as asked for.
//
// It owns the life of these processes and their data, which it removes at the end. It refuses to know what is measured.
//
// Two binaries of the API are built. One is what people run. The other differs in one file (go build -overlay): instead
// of a way to the PSP over HTTP it has a PSP within, so that what is measured is Payonce and PostgreSQL, and not a
// second HTTP server on the same two cores.
package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/demo/embeddedpg"
)

// Tenant and its account at the PSP; no limit of requests slows it down.
const Tenant = "bench"

// Options say what to set up.
type Options struct {
	Root string // of the source tree
	Say  func(string)
}

// Rig is set up.
type Rig struct {
	Server *embeddedpg.Server

	root, dir string
	say       func(string)
	databases []*Database
}

// Database is a migrated one.
type Database struct {
	URL    string
	Admin  *pgx.Conn
	APIKey string

	rig *Rig
	of  string // whose programs run on it: otherMark, or "" for this tree's
}

// Settings of the server. Durability is PostgreSQL's default: fsync, synchronous_commit and full_page_writes are on.
// Memory and checkpoints are what anybody sets who runs one in earnest: with the defaults, a checkpoint would begin in
// the middle of every other slice.
func Settings() map[string]string {
	return map[string]string{
		"shared_buffers": "2GB", "max_wal_size": "8GB", "min_wal_size": "2GB", "checkpoint_timeout": "30min",
		"max_connections": "300",
		"track_io_timing": "off",
		// To the bench an autovacuum is somebody else on the machine. It vacuums itself, before each section.
		"autovacuum": "off",
	}
}

// Start builds the programs and starts the server.
func Start(ctx context.Context, o Options) (_ *Rig, err error) {
	dir, err := os.MkdirTemp("", "payonce-bench-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	r := &Rig{root: o.Root, dir: dir, say: o.Say}
	defer func() {
		if err != nil {
			r.Stop()
		}
	}()
	o.Say("building the programs")
	if err := r.build(ctx, r.root, ""); err != nil {
		return nil, err
	}
	o.Say("starting PostgreSQL")
	r.Server, err = embeddedpg.Start(ctx, embeddedpg.Options{
		DataDir: filepath.Join(dir, "postgres"), Durable: true, Install: true, Progress: o.Say, Settings: Settings(),
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Programs.
const (
	API          = "api"
	APIInProcess = "api-inprocess" // with a PSP within
	Reconciler   = "reconciler"
)

// build makes the programs of a source tree. mark is what their names end with.
func (r *Rig) build(ctx context.Context, root, mark string) error {
	overlay := filepath.Join(r.dir, "overlay"+mark+".json")
	replaced, err := transportOf(root)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(map[string]any{"Replace": map[string]string{
		replaced: filepath.Join(root, "lab", "bench", "testdata", "inprocess.go"),
	}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(overlay, raw, 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"-o", r.Program(API) + mark, "./cmd/api"},
		{"-o", r.Program(APIInProcess) + mark, "-overlay", overlay, "./cmd/api"},
		{"-o", r.Program(Reconciler) + mark, "./cmd/reconciler"},
	} {
		if err := runGo(ctx, root, append([]string{"build", "-buildvcs=false"}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// transportOf finds the file that the overlay replaces. It was in package gateway while there was one provider. A
// replacement of a file that is not there would be added without a word, and the API measured would be another one.
func transportOf(root string) (path string, err error) {
	for _, dir := range []string{"wire", "."} {
		path = filepath.Join(root, "internal", "gateway", dir, "transport.go")
		if _, err = os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find what the overlay replaces: %w", err)
}

// Go runs the go command in a directory below the root.
func (r *Rig) Go(ctx context.Context, dir string, args ...string) error {
	return runGo(ctx, filepath.Join(r.root, dir), args...)
}

func runGo(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// PostgresProgram is the path of one that came with the server.
func (r *Rig) PostgresProgram(name string) (string, error) {
	path := r.Server.Program(name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find %s of PostgreSQL %s: %w; install the whole package, or set PG_BINDIR", name,
			r.Server.Version(), err)
	}
	return path, nil
}

// Pin puts the server on one core, until the function that it returns is called. Sessions inherit it when they begin.
func (r *Rig) Pin(core int) (func(), error) {
	all := fmt.Sprintf("0-%d", runtime.NumCPU()-1)
	set := func(cpus string) error {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", r.Server.PID()))
		if err != nil {
			return fmt.Errorf("find the server's processes: %w", err)
		}
		for _, pid := range append(strings.Fields(string(children)), strconv.Itoa(r.Server.PID())) {
			// One that has ended meanwhile needs no core.
			_ = exec.Command("taskset", "-cp", cpus, pid).Run() //nolint:noctx // over at once
		}
		return nil
	}
	return func() { _ = set(all) }, set(strconv.Itoa(core))
}

// Program is the path of one that was built.
func (r *Rig) Program(name string) string { return filepath.Join(r.dir, "bin", name) }

// Path is a file of the rig's own.
func (r *Rig) Path(name string) string { return filepath.Join(r.dir, name) }

// NewDatabase makes a database with one tenant, by the commands that an operator would use.
func (r *Rig) NewDatabase(ctx context.Context, name string) (*Database, error) {
	return r.newDatabase(ctx, name, "")
}

// NewDatabaseAtStripe makes one whose tenant is at Stripe: its programs need PSP=stripe and a secret.
func (r *Rig) NewDatabaseAtStripe(ctx context.Context, name string) (*Database, error) {
	return r.newDatabase(ctx, name, "", "--psp", "stripe", "--psp-account", "acct_bench")
}

func (r *Rig) newDatabase(ctx context.Context, name, of string, tenant ...string) (*Database, error) {
	admin, err := pgx.Connect(ctx, r.Server.URL("postgres"))
	if err != nil {
		return nil, err
	}
	_, err = admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	if err := errors.Join(err, admin.Close(ctx)); err != nil {
		return nil, err
	}
	d := &Database{URL: r.Server.URL(name), rig: r, of: of}
	if _, err := d.output(ctx, API, "migrate"); err != nil {
		return nil, err
	}
	if tenant != nil {
		if _, err := d.output(ctx, API, append([]string{"tenants", "create", Tenant}, tenant...)...); err != nil {
			return nil, err
		}
	}
	secret, err := d.output(ctx, API, "keys", "create", "--tenant", Tenant)
	if err != nil {
		return nil, err
	}
	d.APIKey, _, _ = strings.Cut(secret, "\n")
	if d.Admin, err = pgx.Connect(ctx, d.URL); err != nil {
		return nil, err
	}
	r.databases = append(r.databases, d)
	_, err = d.Admin.Exec(ctx, "UPDATE tenants SET requests_per_second = 100000, request_burst = 100000")
	return d, err
}

func (d *Database) output(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, d.rig.Program(program)+d.of, args...)
	cmd.Env = []string{"DATABASE_URL=" + d.URL}
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, problems.String())
	}
	return string(out), nil
}

// Rest brings the tables to rest: no dead rows, fresh statistics, nothing left for a checkpoint to write.
func (d *Database) Rest(ctx context.Context) error {
	for _, sql := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		if _, err := d.Admin.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// stopLimit is how long PostgreSQL may take to stop.
const stopLimit = 20 * time.Second

// Stop ends the server and removes everything.
func (r *Rig) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	for _, d := range r.databases {
		_ = d.Admin.Close(ctx)
	}
	if r.Server != nil {
		if err := r.Server.Stop(ctx); err != nil {
			r.say(err.Error())
		}
		if dir := r.Server.DataDir(); !strings.HasPrefix(dir, r.dir) {
			_ = os.RemoveAll(dir)
		}
	}
	if err := os.RemoveAll(r.dir); err != nil {
		r.say(err.Error())
	}
}
