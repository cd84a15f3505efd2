package main

import (
	"context"
	"fmt"

	"payonce/lab/bench/load"
	"payonce/lab/bench/pgbench"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

const (
	perSecond = "payments/s"
	cpuMicros = "µs-CPU"
	millis    = "ms"
)

// newPaymentBars are the ratios to pgbench that the design asks for, by clients.
var newPaymentBars = map[int]struct {
	atLeast   float64
	prototype string
}{1: {0.65, "0.71"}, 8: {0.60, "0.61"}, 32: {0.85, "0.85"}, 64: {1.50, "1.76"}}

// newPayments asks how near the API comes to what PostgreSQL itself can do with the same SQL.
func (b *bench) newPayments(ctx context.Context, s *report.Section) error {
	s.Note = "New payments, PSP in process, against pgbench with the very same SQL: two pipelined transactions each."
	api, err := b.start(ctx, b.db, rig.Spec{Program: rig.APIInProcess})
	if err != nil {
		return err
	}
	script, err := pgbench.NewPayment(b.queries, b.sample)
	if err != nil {
		return err
	}
	stepwise, err := pgbench.StepByStep(b.queries, b.sample)
	if err != nil {
		return err
	}
	if err := b.warmUp(ctx, api, b.db); err != nil {
		return err
	}
	for _, clients := range b.settings.Clients {
		contenders := []contender{
			b.scripted(b.db, script, clients),
			b.loaded(fmt.Sprintf("API, %d clients", clients), api,
				load.Plan{Kind: load.New, Clients: clients, APIKey: b.db.APIKey}),
		}
		if clients == 8 {
			contenders = append(contenders, b.scripted(b.db, stepwise, clients))
		}
		slices, err := b.rounds(ctx, contenders...)
		if err != nil {
			return err
		}
		b.tellNewPayments(s, clients, slices)
	}
	return nil
}

func (b *bench) tellNewPayments(s *report.Section, clients int, slices [][]taken) {
	pg, api := slices[0], slices[1]
	name := withClients(clients)
	ratio := report.PairUp(name("API ÷ pgbench"), by(api, rate), by(pg, rate))
	cpu := report.PairUp(name("PostgreSQL's CPU per payment, API ÷ pgbench"), by(api, pgCPU), by(pg, pgCPU))
	own := report.PairUp(name("CPU, API ÷ PostgreSQL"), by(api, programCPU), by(api, pgCPU))
	s.Lines = append(s.Lines,
		line(name("pgbench"), perSecond, report.Higher, by(pg, rate)),
		line(name("API"), perSecond, report.Higher, by(api, rate)),
		line(name("API, p50"), millis, report.Lower, by(api, p50)),
		line(name("API, p99"), millis, report.Lower, by(api, p99)),
		line(name("PostgreSQL under pgbench"), cpuMicros, report.Lower, by(pg, pgCPU)),
		line(name("PostgreSQL under the API"), cpuMicros, report.Lower, by(api, pgCPU)),
		line(name("API"), cpuMicros, report.Lower, by(api, programCPU)),
		line(name("load generator"), cpuMicros, report.Lower, by(api, clientCPU)),
	)
	if len(slices) > 2 {
		s.Lines = append(s.Lines, line(name("pgbench, statement by statement"), perSecond, report.Higher,
			by(slices[2], rate)))
	}
	s.Ratios = append(s.Ratios, ratio, cpu, own)
	if bar, found := newPaymentBars[clients]; found {
		s.Bars = append(s.Bars, report.Bar{
			What: fmt.Sprintf("new payment ÷ pgbench's same SQL, at %d", clients), Op: report.AtLeast,
			Value: bar.atLeast, Prototype: bar.prototype,
		}.Of(ratio.Samples()))
	}
	if clients == 8 {
		s.Bars = append(s.Bars, report.Bar{
			What: "PostgreSQL CPU per new payment ÷ pgbench's, at 8", Op: report.AtMost, Value: 0.7, Prototype: "1.06",
		}.Of(cpu.Samples()))
	}
	if clients >= 8 {
		s.Bars = append(s.Bars, report.Bar{
			What: fmt.Sprintf("API CPU ÷ PostgreSQL CPU, at %d", clients), Op: report.AtMost, Value: 0.6,
			Prototype: "0.4–0.54",
		}.Of(own.Samples()))
	}
}

// warmUp has every statement prepared on every connection, and pages that change written once.
func (b *bench) warmUp(ctx context.Context, p *rig.Process, d *rig.Database) error {
	b.progress("warming up")
	_, err := generate(ctx, load.Plan{Address: p.Address, Kind: load.New, Clients: 64, Seconds: 1, APIKey: d.APIKey},
		nil)
	return err
}

// pinned gives the database a core, and everything else the other one.
func (b *bench) pinned(ctx context.Context, s *report.Section) error {
	s.Note = "At 8 clients: the server, or pgbench, on one core with the load, PostgreSQL on the other."
	if b.report.Machine.Cores < 2 {
		s.Note += " Not run: this takes two cores."
		return nil
	}
	const clients, serverCore, databaseCore = 8, 0, 1
	unpin, err := b.rig.Pin(databaseCore)
	if err != nil {
		return err
	}
	defer unpin()
	api, err := b.start(ctx, b.db, rig.Spec{Program: rig.APIInProcess, CPUs: []int{serverCore}})
	if err != nil {
		return err
	}
	script, err := pgbench.NewPayment(b.queries, b.sample)
	if err != nil {
		return err
	}
	if err := b.warmUp(ctx, api, b.db); err != nil {
		return err
	}
	slices, err := b.rounds(ctx, b.scripted(b.db, script, clients, serverCore),
		b.loaded("API, pinned", api, load.Plan{Kind: load.New, Clients: clients, APIKey: b.db.APIKey}, serverCore))
	if err != nil {
		return err
	}
	ratio := report.PairUp("pinned to a core each, 8 clients: API ÷ pgbench", by(slices[1], rate), by(slices[0], rate))
	s.Lines = append(s.Lines, line("pgbench, pinned", perSecond, report.Higher, by(slices[0], rate)),
		line("API, pinned", perSecond, report.Higher, by(slices[1], rate)))
	s.Ratios = append(s.Ratios, ratio)
	s.Bars = append(s.Bars, report.Bar{
		What: "server and database pinned to a core each, at 8", Op: report.AtLeast, Value: 1, Prototype: "1.09",
	}.Of(ratio.Samples()))
	return nil
}
