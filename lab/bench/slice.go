package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"time"

	"payonce/lab/bench/load"
	"payonce/lab/bench/meter"
	"payonce/lab/bench/pgbench"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
	"payonce/lab/world"
)

// contender is one side of a comparison: something that does as much as it can for a while.
type contender struct {
	name    string
	process *world.Process // the program under load, or nil
	run     func(context.Context) (effort, error)
}

// effort is what a contender has got done.
type effort struct {
	perSecond float64
	requests  float64            // those that the CPU was spent on
	p50, p99  float64            // milliseconds
	figures   map[string]float64 // what a contender has measured by itself, by name
}

// taken is one slice.
type taken struct {
	effort

	dropped            bool
	program, pg, ended float64 // CPU microseconds per request; ended: of processes that ended within the slice
	commits, wal       float64 // per request; the WAL in kilobytes
}

// quietLimit is how long a slice waits for the rest of the machine to calm down.
const quietLimit = 3 * time.Second

// rounds lets the contenders take turns, so that whatever happens to the machine happens to all. It returns their
// slices in the order of the rounds.
func (b *bench) rounds(ctx context.Context, rounds int, contenders ...contender) ([][]taken, error) {
	slices := make([][]taken, len(contenders))
	for round := range rounds {
		for i, c := range contenders {
			b.progress("%s, round %d of %d", c.name, round+1, rounds)
			t, err := b.slice(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			slices[i] = append(slices[i], t)
		}
	}
	return slices, nil
}

// slice lets one contender work and takes down what it has cost.
func (b *bench) slice(ctx context.Context, c contender) (taken, error) {
	self := os.Getpid()
	sources := []meter.Source{
		b.meter.Tree("postgres", b.rig.Server.PID()), b.meter.Ended("ended", self), b.meter.Process("harness", self),
	}
	for _, p := range b.running {
		sources = append(sources, b.meter.Process(p.Log, p.PID()))
	}
	if err := b.meter.Quiet(ctx, quietLimit, sources...); err != nil {
		return taken{}, err
	}
	written, err := b.written(ctx)
	if err != nil {
		return taken{}, err
	}
	started, err := b.meter.Begin(sources...)
	if err != nil {
		return taken{}, err
	}
	done, err := c.run(ctx)
	if err != nil {
		return taken{}, err
	}
	cost, err := started.End()
	if err != nil {
		return taken{}, err
	}
	after, err := b.written(ctx)
	if err != nil {
		return taken{}, err
	}
	t := taken{effort: done, dropped: cost.Disturbed()}
	if t.dropped {
		b.dropped++
	} else {
		b.kept++
	}
	per := func(spent float64) float64 { return spent / max(done.requests, 1) }
	t.pg, t.ended = per(1e6*cost.CPU["postgres"]), per(1e6*cost.CPU["ended"])
	t.commits, t.wal = per(after[0]-written[0]), per(after[1]-written[1])
	if c.process != nil {
		t.program = per(1e6 * cost.CPU[c.process.Log])
	}
	return t, nil
}

// written is how many transactions have written to the server so far (each has taken a number), and how many kilobytes
// of WAL there are.
func (b *bench) written(ctx context.Context) (w [2]float64, err error) {
	err = b.db.Admin.QueryRow(ctx, `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::float8,
		(pg_current_wal_insert_lsn() - '0/0')::float8 / 1000`).Scan(&w[0], &w[1])
	return w, err
}

// loaded is a contender that sends requests to a program.
func (b *bench) loaded(name string, p *world.Process, plan load.Plan) contender {
	plan.Address = p.Address
	if plan.Seconds == 0 {
		plan.Seconds = b.settings.slice().Seconds()
	}
	return contender{name: name, process: p, run: func(ctx context.Context) (effort, error) {
		return generate(ctx, plan)
	}}
}

// scripted is a contender that runs statements by pgbench.
func (b *bench) scripted(d *rig.Database, s pgbench.Script, clients int) contender {
	return contender{name: "pgbench, " + s.Name, run: func(ctx context.Context) (effort, error) {
		result, err := pgbench.Run{Program: b.pgbench, URL: d.URL, Clients: clients,
			Seconds: b.settings.Seconds}.Do(ctx, s)
		return effort{perSecond: result.PerSecond, requests: float64(result.Transactions)}, err
	}}
}

// generate carries out a plan.
func generate(ctx context.Context, plan load.Plan) (effort, error) {
	_, wait, err := startLoad(ctx, plan)
	if err != nil {
		return effort{}, err
	}
	return wait(0)
}

// startLoad starts the load generator, as a process of its own, so that its CPU is told apart. wait returns what came
// of it. A generator that is interrupted loses the answers that are under way, one for each client: so many may be
// lost.
func startLoad(ctx context.Context, plan load.Plan) (_ *os.Process, wait func(lost int64) (effort, error), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(plan)
	if err != nil {
		return nil, nil, err
	}
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, self, "load")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(raw), &out, &problems
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("generate load: %w", err)
	}
	return cmd.Process, func(lost int64) (effort, error) {
		if err := cmd.Wait(); err != nil {
			return effort{}, fmt.Errorf("generate load: %w: %s", err, bytes.TrimSpace(problems.Bytes()))
		}
		var r load.Result
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			return effort{}, fmt.Errorf("read the load generator's result: %w", err)
		}
		return effort{perSecond: r.PerSecond, requests: float64(r.Requests), p50: r.P50Micros / 1000,
			p99: r.P99Micros / 1000}, r.Clean(lost)
	}, nil
}

// by picks a figure of each slice, with a place kept for those that were dropped.
func by(slices []taken, figure func(taken) float64) []float64 {
	figures := make([]float64, len(slices))
	for i, t := range slices {
		figures[i] = math.NaN()
		if !t.dropped {
			figures[i] = figure(t)
		}
	}
	return figures
}

func rate(t taken) float64    { return t.perSecond }
func p50(t taken) float64     { return t.p50 }
func p99(t taken) float64     { return t.p99 }
func pgCPU(t taken) float64   { return t.pg }
func apiCPU(t taken) float64  { return t.program }
func commits(t taken) float64 { return t.commits }
func wal(t taken) float64     { return t.wal }

// own is one of those that a contender has measured by itself.
func own(name string) func(taken) float64 { return func(t taken) float64 { return t.figures[name] } }

const (
	millis    = "ms"
	cpuMicros = "µs-CPU"
)

// tell adds what there is to say of one contender. unit is of what it does, in a second.
func tell(s *report.Section, name, unit string, slices []taken) {
	add := func(what, unit string, of func(taken) float64) {
		for _, t := range slices {
			if of(t) != 0 { // of what a contender does not have, nothing is said
				s.Figures = append(s.Figures, report.Figure{What: name + what, Unit: unit, Rounds: by(slices, of)})
				return
			}
		}
	}
	add("", unit, rate)
	add(", p50", millis, p50)
	add(", p99", millis, p99)
	add(", PostgreSQL", cpuMicros, pgCPU)
	add(", program", cpuMicros, apiCPU)
}

// compare adds a ratio of two contenders.
func compare(s *report.Section, what string, a, b []taken, of func(taken) float64, bar report.Bar) {
	s.Figures = append(s.Figures, report.Ratio(what, by(a, of), by(b, of), bar))
}
