package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"payonce/lab/bench/load"
	"payonce/lab/bench/meter"
	"payonce/lab/bench/pgbench"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
	"payonce/lab/world"
)

// bench is one run.
type bench struct {
	settings settings
	rig      *rig.Rig
	db       *rig.Database // with as many rows as asked for
	meter    *meter.Meter
	queries  map[string]pgbench.Query
	sample   pgbench.Sample
	pgbench  string           // path
	running  []*world.Process // their CPU is ours, and not somebody else's
	began    time.Time

	kept, dropped int // slices
}

// section is one question.
type section struct {
	name  string
	depth depth
	run   func(*bench, context.Context, *report.Section) error
}

// depth is in which runs a section has its place.
type depth int

const (
	quick  depth = iota // in all
	normal              // not in a quick one
	named               // only where it is asked for by name
)

const (
	againstSection = "against"
	freshSection   = "fresh"
)

// sections in the order in which they run.
func sections() []section {
	return []section{
		{"new", quick, (*bench).newPayments},
		{"replay", quick, (*bench).replays},
		{"resolve", normal, (*bench).resolve},
		{"sweep", normal, (*bench).sweep},
		{"prune", normal, (*bench).prune},
		{"webhook", normal, (*bench).webhooks},
		{"peers", normal, (*bench).peers},
		{"size", named, (*bench).size},
		{againstSection, named, (*bench).against},
		{freshSection, named, (*bench).fresh},
		{"events", named, (*bench).events},
		{"deliveries", named, (*bench).deliveries},
		{"inflight", named, (*bench).inFlight},
	}
}

// measure runs the sections and prints what they have found.
func measure(ctx context.Context, s settings) (err error) {
	b := &bench{settings: s, began: time.Now()}
	if b.meter, err = meter.New(); err != nil {
		return err
	}
	root, err := world.Root(ctx)
	if err != nil {
		return err
	}
	if b.queries, err = pgbench.Queries(root); err != nil {
		return err
	}
	if b.rig, err = rig.Start(ctx, root, func(text string) { b.progress("%s", text) }); err != nil {
		return err
	}
	defer b.rig.Stop()
	b.pgbench = b.rig.Server.Program("pgbench")
	if _, err := os.Stat(b.pgbench); err != nil {
		return fmt.Errorf("find pgbench of PostgreSQL %s: %w; install the whole package, or set PG_BINDIR",
			b.rig.Server.Version(), err)
	}
	if b.db, err = b.database(ctx, "payonce", s.Rows); err != nil {
		return err
	}
	var done []report.Section
	for _, each := range sections() {
		if !s.wants(each) {
			continue
		}
		found, err := b.runSection(ctx, each)
		if err != nil {
			return fmt.Errorf("section %s: %w", each.name, err)
		}
		done = append(done, found)
	}
	return report.Table(os.Stdout, b.conditions(ctx, root), done)
}

// runSection begins with tables at rest, and leaves no process behind.
func (b *bench) runSection(ctx context.Context, s section) (report.Section, error) {
	defer b.stopAll()
	r := report.Section{Name: s.name}
	if err := b.db.Rest(ctx); err != nil {
		return r, err
	}
	return r, s.run(b, ctx, &r)
}

// conditions are what the run was measured on, and how. What is not known is left out.
func (b *bench) conditions(ctx context.Context, root string) []string {
	cpu := "CPU not known"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if model := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(text); model != nil {
			cpu = string(model[1])
		}
	}
	git := exec.CommandContext(ctx, "git", "-c", "safe.directory=*", "describe", "--always", "--dirty", "--abbrev=12")
	git.Dir = root
	commit, err := git.Output()
	if err != nil {
		commit = []byte("commit not known")
	}
	s := b.settings
	return []string{
		fmt.Sprintf("%s, %d cores, %s, PostgreSQL %s, %s", cpu, runtime.NumCPU(), runtime.Version(),
			b.rig.Server.Version(), strings.TrimSpace(string(commit))),
		fmt.Sprintf("%s: %d rows, %d rounds of %s, %d slices kept, %d dropped, took %s",
			b.began.UTC().Format(time.RFC3339), s.Rows, s.Rounds, s.slice(), b.kept, b.dropped,
			time.Since(b.began).Round(time.Second)),
	}
}

// database makes one, has the API make a payment in it, and loads copies of that.
func (b *bench) database(ctx context.Context, name string, rows int) (*rig.Database, error) {
	d, err := b.rig.NewDatabase(ctx, name)
	if err != nil {
		return nil, err
	}
	defer b.stopAll()
	p, err := b.start(ctx, d, rig.API)
	if err != nil {
		return nil, err
	}
	if _, err := generate(ctx, load.Plan{Address: p.Address, Kind: load.New, Clients: 1, Requests: 1, Seconds: 10,
		APIKeys: []string{d.APIKey}}); err != nil {
		return nil, err
	}
	if b.sample, err = sampleOf(ctx, d); err != nil {
		return nil, err
	}
	return d, d.Load(ctx, rows)
}

// start runs a program until the section ends.
func (b *bench) start(ctx context.Context, d *rig.Database, program string, env ...string) (*world.Process, error) {
	p, err := d.Run(ctx, program, env...)
	if err == nil {
		b.running = append(b.running, p)
	}
	return p, err
}

// serve starts the API and warms it up: every statement is prepared on every connection, and pages that change have
// been written once.
func (b *bench) serve(ctx context.Context, d *rig.Database, env ...string) (*world.Process, error) {
	api, err := b.start(ctx, d, rig.API, env...)
	if err != nil {
		return nil, err
	}
	return api, b.warmUp(ctx, api, d)
}

func (b *bench) warmUp(ctx context.Context, p *world.Process, d *rig.Database) error {
	b.progress("warming up")
	_, err := generate(ctx, load.Plan{Address: p.Address, Kind: load.New, Clients: 64, Seconds: 1,
		APIKeys: []string{d.APIKey}})
	return err
}

func (b *bench) stopAll() {
	for _, p := range slices.Backward(b.running) { // a later one may depend on an earlier one
		p.Stop()
	}
	b.running = nil
}

// sampleOf reads back what the API has written.
func sampleOf(ctx context.Context, d *rig.Database) (pgbench.Sample, error) {
	var s pgbench.Sample
	err := d.Admin.QueryRow(ctx, `SELECT k.operation, p.tenant_id, p.currency, p.customer_id, p.payment_method, p.amount_minor,
			k.response_content_type, convert_from(k.response_body, 'UTF8'), k.response_schema_version
		FROM idempotency_keys AS k JOIN payments AS p ON p.id = k.subject WHERE k.status = 'completed' LIMIT 1`).
		Scan(&s.Operation, &s.Tenant, &s.Currency, &s.CustomerID, &s.PaymentMethod, &s.AmountMinor, &s.ContentType,
			&s.Body, &s.SchemaVersion)
	if err != nil {
		return s, fmt.Errorf("read the sample payment: %w", err)
	}
	return s, nil
}

// progress writes one line, with the time since the beginning.
func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}
