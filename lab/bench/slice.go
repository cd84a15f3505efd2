package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"payonce/lab/bench/load"
	"payonce/lab/bench/meter"
	"payonce/lab/bench/pgbench"
	"payonce/lab/bench/rig"
)

// contender is one side of a comparison: something that does as much as it can for a while.
type contender struct {
	name    string
	process *rig.Process // the program under load, or nil
	run     func(context.Context) (effort, error)
}

// effort is what a contender has got done.
type effort struct {
	perSecond float64
	requests  float64 // those that the CPU was spent on
	load      load.Result

	commits, wal float64            // per request, where they were counted; the WAL in kilobytes
	figures      map[string]float64 // what a contender has measured by itself, by name
}

// taken is one slice.
type taken struct {
	effort

	dropped             bool
	program, pg, client float64         // CPU microseconds per request
	each                map[int]float64 // the same of each program that runs, by process id
}

// quietLimit is how long a slice waits for the rest of the machine to calm down.
const quietLimit = 3 * time.Second

// rounds lets the contenders take turns, so that whatever happens to the machine happens to all. It returns their
// slices in the order of the rounds.
func (b *bench) rounds(ctx context.Context, contenders ...contender) ([][]taken, error) {
	return b.roundsOf(ctx, b.settings.Rounds, contenders...)
}

// roundsOf is rounds for those of whom each turn takes long.
func (b *bench) roundsOf(ctx context.Context, rounds int, contenders ...contender) ([][]taken, error) {
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
		b.meter.Tree("postgres", b.rig.Server.PID()), b.meter.Ended("client", self), b.meter.Process("harness", self),
	}
	for _, p := range b.running {
		sources = append(sources, b.meter.Process(strconv.Itoa(p.PID), p.PID))
	}
	if _, err := b.meter.Quiet(ctx, quietLimit, sources...); err != nil {
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
	b.counted(cost.Disturbed())
	t := taken{effort: done, dropped: cost.Disturbed(), each: map[int]float64{}}
	per := func(seconds float64) float64 { return seconds / max(done.requests, 1) * 1e6 }
	t.pg, t.client = per(cost.CPU["postgres"]), per(cost.CPU["client"])
	for _, p := range b.running {
		t.each[p.PID] = per(cost.CPU[strconv.Itoa(p.PID)])
	}
	if c.process != nil {
		t.program = t.each[c.process.PID]
	}
	return t, nil
}

// loaded is a contender that sends requests to a program.
func (b *bench) loaded(name string, p *rig.Process, plan load.Plan, cpus ...int) contender {
	if plan.Address == "" {
		plan.Address = p.Address
	}
	if plan.Seconds == 0 {
		plan.Seconds = b.settings.slice().Seconds()
	}
	return contender{name: name, process: p, run: func(ctx context.Context) (effort, error) {
		result, err := generate(ctx, plan, cpus)
		return effort{perSecond: result.PerSecond, requests: float64(result.Requests), load: result}, err
	}}
}

// scripted is a contender that runs statements by pgbench.
func (b *bench) scripted(d *rig.Database, s pgbench.Script, clients int, cpus ...int) contender {
	return contender{name: "pgbench, " + s.Name, run: func(ctx context.Context) (effort, error) {
		result, err := pgbench.Run{
			Program: b.pgbench, URL: d.URL, Clients: clients, Threads: 2, Seconds: b.settings.Seconds, CPUs: cpus,
		}.Do(ctx, s)
		return effort{perSecond: result.PerSecond, requests: float64(result.Transactions)}, err
	}}
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

// figure is one of those that a contender has measured by itself.
func figure(name string) func(taken) float64 { return func(t taken) float64 { return t.figures[name] } }

func rate(t taken) float64       { return t.perSecond }
func programCPU(t taken) float64 { return t.program }
func pgCPU(t taken) float64      { return t.pg }
func clientCPU(t taken) float64  { return t.client }
func p50(t taken) float64        { return t.load.P50Micros / 1000 }
func p99(t taken) float64        { return t.load.P99Micros / 1000 }
