// Package rig is what the bench measures: a durable PostgreSQL of its own, the real programs built from this tree or
// from another commit, and tables with as many rows as asked for.
//
// It owns the life of these processes and their data, which it removes at the end. It refuses to know what is measured.
//
// The API differs in one file from the one that people run (go build -overlay): instead of a way to the PSP over HTTP
// it has a PSP within, so that what is measured is Payonce and PostgreSQL, and not a second HTTP server on the same two
// cores.
package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/demo/embeddedpg"
	"payonce/lab/world"
	"payonce/test/heldport"
)

// Tenant and its account at the PSP; no limit of requests slows it down.
const Tenant = "bench"

// Programs.
const (
	API        = world.API // with a PSP within
	Reconciler = world.Reconciler
	Peer       = "dbos" // lab/dbos; see BuildPeer
)

// Rig is set up.
type Rig struct {
	Server *embeddedpg.Server

	root, dir string
	say       func(string)
	databases []*Database
	ports     []*heldport.Port // of the processes, until the rig is stopped
}

// Database is a migrated one, with one tenant.
type Database struct {
	URL    string
	Admin  *pgx.Conn
	APIKey string

	rig *Rig
	bin string // where the programs are that run on it
}

// settings of the server. Durability is PostgreSQL's default: fsync, synchronous_commit and full_page_writes are on.
// Memory and checkpoints are what anybody sets who runs one in earnest: with the defaults, a checkpoint would begin in
// the middle of every other slice.
func settings() map[string]string {
	return map[string]string{
		"shared_buffers": "2GB", "max_wal_size": "8GB", "min_wal_size": "2GB", "checkpoint_timeout": "30min",
		"max_connections": "300",
		"track_io_timing": "off",
		// To the bench an autovacuum is somebody else on the machine. It vacuums itself, before each section.
		"autovacuum": "off",
	}
}

// Start builds the programs of the source tree and starts the server.
func Start(ctx context.Context, root string, say func(string)) (_ *Rig, err error) {
	dir, err := os.MkdirTemp("", "payonce-bench-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as another user
		return nil, err
	}
	r := &Rig{root: root, dir: dir, say: say}
	defer func() {
		if err != nil {
			r.Stop()
		}
	}()
	say("building the programs")
	if err := r.build(ctx, root, r.bin("this")); err != nil {
		return nil, err
	}
	say("starting PostgreSQL")
	r.Server, err = embeddedpg.Start(ctx, embeddedpg.Options{
		DataDir: filepath.Join(dir, "postgres"), Durable: true, Install: true, Progress: say, Settings: settings(),
	})
	return r, err
}

func (r *Rig) bin(of string) string { return filepath.Join(r.dir, "bin-"+of) }

// build makes the programs of a source tree.
func (r *Rig) build(ctx context.Context, root, bin string) error {
	// It was in package gateway while there was one provider.
	replaced := filepath.Join("internal", "gateway", "wire", "transport.go")
	if _, err := os.Stat(filepath.Join(root, replaced)); err != nil {
		replaced = filepath.Join("internal", "gateway", "transport.go")
	}
	overlay, err := world.WriteOverlay(root, bin, map[string]string{
		replaced: filepath.Join(root, "lab", "bench", "testdata", "inprocess.go"),
	})
	if err != nil {
		return err
	}
	return errors.Join(runIn(ctx, root, "go", "build", "-buildvcs=false", "-o", bin, "-overlay", overlay, "./cmd/api"),
		runIn(ctx, root, "go", "build", "-buildvcs=false", "-o", bin, "./cmd/reconciler"))
}

// BuildPeer builds the peer beside the programs of this tree.
func (r *Rig) BuildPeer(ctx context.Context) error {
	return runIn(ctx, filepath.Join(r.root, "lab", "dbos"), "go", "build", "-buildvcs=false", "-o",
		filepath.Join(r.bin("this"), Peer), ".")
}

func runIn(ctx context.Context, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

// Commit is the full hash of a commit, which may be named as git takes it.
func (r *Rig) Commit(ctx context.Context, ref string) (string, error) {
	commit, err := world.Commit(ctx, r.root, ref)
	if err != nil {
		return "", fmt.Errorf("REF=%w", err)
	}
	return commit, nil
}

// NewDatabase makes a database with one tenant, by the commands that an operator would use.
func (r *Rig) NewDatabase(ctx context.Context, name string) (*Database, error) {
	return r.newDatabase(ctx, name, r.bin("this"))
}

// NewDatabaseOf builds the programs of another commit, and makes a database by them. From then on, they are what runs
// on it.
func (r *Rig) NewDatabaseOf(ctx context.Context, name, commit string) (*Database, error) {
	bin, tree := r.bin(commit), filepath.Join(r.dir, commit)
	if _, err := os.Stat(bin); err != nil { // not yet built for another section
		if err := errors.Join(world.CheckOut(ctx, r.root, commit, tree), r.build(ctx, tree, bin)); err != nil {
			return nil, fmt.Errorf("build %s: %w", commit, err)
		}
	}
	return r.newDatabase(ctx, name, bin)
}

func (r *Rig) newDatabase(ctx context.Context, name, bin string) (*Database, error) {
	admin, err := pgx.Connect(ctx, r.Server.URL("postgres"))
	if err != nil {
		return nil, err
	}
	_, err = admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	if err := errors.Join(err, admin.Close(ctx)); err != nil {
		return nil, err
	}
	d := &Database{URL: r.Server.URL(name), rig: r, bin: bin}
	if _, err := d.output(ctx, "migrate"); err != nil {
		return nil, err
	}
	secret, err := d.output(ctx, "keys", "create", "--tenant", Tenant)
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

// output is what a command of the API's says.
func (d *Database) output(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, API), args...)
	cmd.Env = []string{"DATABASE_URL=" + d.URL}
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("api %s: %w\n%s", strings.Join(args, " "), err, problems.String())
	}
	return string(out), nil
}

// Run starts a program on the database and returns when it is ready.
func (d *Database) Run(ctx context.Context, program string, env ...string) (*world.Process, error) {
	var addresses [2]string
	for i := range addresses {
		port, err := heldport.Hold()
		if err != nil {
			return nil, err
		}
		d.rig.ports = append(d.rig.ports, port)
		addresses[i] = port.Address
	}
	public, operator := addresses[0], addresses[1]
	p := &world.Process{
		Name: program, Address: public, Operator: operator, Log: filepath.Join(d.rig.dir, program+"-"+public+".log"),
		Program: filepath.Join(d.bin, program), Probe: "http://" + operator + "/readyz",
		Env: append([]string{
			"DATABASE_URL=" + d.URL, "HTTP_ADDR=" + public, "ADDR=" + public, "OPERATOR_ADDR=" + operator,
			"RECONCILER_ADDR=" + operator, "PSP_SECRET=demo-psp-secret",
		}, env...),
	}
	switch program {
	case API:
		p.Args = []string{"serve"}
	case Reconciler:
		p.Args = []string{"run"}
	case Peer:
		p.Probe = "http://" + public + "/livez"
	}
	return p, p.Start(ctx)
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
	for _, port := range r.ports {
		port.Close()
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
