package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"payonce/lab/bench/load"
	"payonce/lab/bench/meter"
	"payonce/lab/bench/pgbench"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

// bench is one run.
type bench struct {
	settings settings
	rig      *rig.Rig
	db       *rig.Database // with as many rows as asked for
	meter    *meter.Meter
	queries  map[string]pgbench.Query
	sample   pgbench.Sample
	pgbench  string
	running  []*rig.Process // their CPU is ours, and not somebody else's
	report   report.Report
	began    time.Time
	out      io.Writer // of progress

	kept, dropped int
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
	long                // in a long one only, or where it is asked for by name
	named               // only where it is asked for by name
)

func (d depth) String() string { return [...]string{"quick", "normal", "long", "named"}[d] }

// sections in the order in which they run.
func sections() []section {
	return []section{
		{"cost", quick, (*bench).cost}, // before others have left holes in the tables
		{"new", quick, (*bench).newPayments},
		{"pinned", quick, (*bench).pinned},
		{"guards", normal, (*bench).guards},
		{"replay", quick, (*bench).replays},
		{"delay", quick, (*bench).delayedPSP},
		{"footprint", quick, (*bench).footprint},
		{"race", normal, (*bench).race},
		{"resolve", normal, (*bench).resolve},
		{"sweep", normal, (*bench).sweep},
		{"prune", normal, (*bench).prune},
		{"webhook", normal, (*bench).webhooks},
		{"dialects", normal, (*bench).dialects},
		{"peers", normal, (*bench).peers},
		{"size", long, (*bench).size},
		{"scale", long, (*bench).scale},
		{"cache", long, (*bench).cache},
		{againstSection, named, (*bench).against},
		{freshSection, named, (*bench).fresh},
	}
}

func runBench(ctx context.Context, s settings, out io.Writer) (_ report.Report, err error) {
	b := &bench{settings: s, began: time.Now(), out: out}
	if b.meter, err = meter.New(); err != nil {
		return report.Report{}, err
	}
	root, err := sourceTree()
	if err != nil {
		return report.Report{}, err
	}
	if b.queries, err = pgbench.Queries(root); err != nil {
		return report.Report{}, err
	}
	if b.rig, err = rig.Start(ctx, rig.Options{Root: root,
		Say: func(text string) { b.progress("%s", text) }}); err != nil {
		return report.Report{}, err
	}
	defer b.rig.Stop()
	if b.pgbench, err = b.rig.PostgresProgram("pgbench"); err != nil {
		return report.Report{}, err
	}
	if b.db, err = b.database(ctx, "payonce", s.Rows); err != nil {
		return report.Report{}, err
	}
	b.report.Taken = b.began.UTC().Format(time.RFC3339)
	if b.report.Machine, err = meter.Describe(ctx, b.db.Admin, root); err != nil {
		return report.Report{}, err
	}
	for _, each := range s.list() {
		b.report.Settings = append(b.report.Settings, report.Setting{Name: each[0], Value: each[1]})
	}
	for _, each := range sections() {
		if !s.wants(each) {
			continue
		}
		if err := b.runSection(ctx, each); err != nil {
			return report.Report{}, fmt.Errorf("section %s: %w", each.name, err)
		}
	}
	b.report.Settings = append(b.report.Settings,
		report.Setting{Name: "slices", Value: fmt.Sprintf("%d kept, %d dropped", b.kept, b.dropped)},
		report.Setting{Name: "took", Value: time.Since(b.began).Round(time.Second).String()})
	return b.report, b.report.Check()
}

// runSection begins with tables at rest, and leaves no process behind.
func (b *bench) runSection(ctx context.Context, s section) error {
	defer b.stopAll()
	if err := b.db.Rest(ctx); err != nil {
		return err
	}
	r := report.Section{Name: s.name}
	if err := s.run(b, ctx, &r); err != nil {
		return err
	}
	b.report.Sections = append(b.report.Sections, r)
	return nil
}

// database makes one, has the API make a payment in it, and loads copies of that.
func (b *bench) database(ctx context.Context, name string, rows int) (*rig.Database, error) {
	d, err := b.rig.NewDatabase(ctx, name)
	if err != nil {
		return nil, err
	}
	defer b.stopAll()
	p, err := b.start(ctx, d, rig.Spec{Program: rig.APIInProcess})
	if err != nil {
		return nil, err
	}
	if _, err := generate(ctx, load.Plan{Address: p.Address, Kind: load.New, Clients: 1, Requests: 1, Seconds: 10,
		APIKey: d.APIKey}, nil); err != nil {
		return nil, err
	}
	if b.sample, err = sampleOf(ctx, d); err != nil {
		return nil, err
	}
	return d, d.Load(ctx, rows)
}

// start runs a program until the section ends.
func (b *bench) start(ctx context.Context, d *rig.Database, s rig.Spec) (*rig.Process, error) {
	if len(s.Args) == 0 && (s.Program == rig.API || s.Program == rig.APIInProcess) {
		s.Args = []string{"serve"}
	}
	p, err := d.Run(ctx, s)
	if err == nil {
		b.running = append(b.running, p)
	}
	return p, err
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

// counted keeps the books of the slices.
func (b *bench) counted(dropped bool) {
	if dropped {
		b.dropped++
	} else {
		b.kept++
	}
}

// progress writes one line, with the time since the beginning.
func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(b.out, "%6.1f s  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// line makes a line of figures that go by rounds.
func line(name, unit string, better report.Better, figures []float64) report.Line {
	l := report.Line{Name: name, Unit: unit, Better: better}
	for _, f := range figures {
		if math.IsNaN(f) {
			l.Drop()
		} else {
			l.Keep(f)
		}
	}
	return l
}

// samples are the figures of slices that were kept.
func samples(figures []float64) []float64 { return line("", "", "", figures).Samples }

// sourceTree is the module's root: programs are built and queries read from there.
func sourceTree() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "lab", "bench", "testdata", "inprocess.go")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", errors.New("run the bench within the source tree: it builds the programs from there")
		}
	}
}
