package main

import (
	"context"

	"payonce/lab/bench/load"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

// peers asks what another way to the same end comes to: a durable workflow (lab/dbos).
func (b *bench) peers(ctx context.Context, s *report.Section) error {
	s.Note = "One idempotent payment at 8 clients, PSP in process: Payonce, and a DBOS Go workflow of three steps (reserve, charge, complete) on the same " +
		"server. DBOS is a general engine, and lab/dbos has no authentication, no fingerprint and no limits: see its README."
	const clients, peer = 8, "dbos"
	b.progress("building the DBOS peer")
	if err := b.rig.Go(ctx, "lab/dbos", "build", "-buildvcs=false", "-o", b.rig.Program(peer), "."); err != nil {
		// Its modules may not be had: that says nothing about us.
		s.Note += " Not run: it could not be built here."
		b.progress("%v", err)
		return nil
	}
	d, err := b.rig.NewDatabase(ctx, peer)
	if err != nil {
		return err
	}
	other, err := b.start(ctx, d, rig.Spec{Program: peer})
	if err != nil {
		return err
	}
	api, err := b.start(ctx, b.db, rig.Spec{Program: rig.APIInProcess})
	if err != nil {
		return err
	}
	for _, each := range []struct {
		p *rig.Process
		d *rig.Database
	}{{api, b.db}, {other, d}} {
		if err := b.warmUp(ctx, each.p, each.d); err != nil {
			return err
		}
	}
	slices, err := b.roundsOf(ctx, b.settings.few(),
		b.loaded("API", api, load.Plan{Kind: load.New, Clients: clients, APIKey: b.db.APIKey}),
		b.loaded("DBOS", other, load.Plan{Kind: load.New, Clients: clients, APIKey: d.APIKey}))
	if err != nil {
		return err
	}
	ratio := report.PairUp("Payonce ÷ DBOS Go, one idempotent payment, 8 clients", by(slices[0], rate),
		by(slices[1], rate))
	s.Lines = append(s.Lines,
		line("Payonce", perSecond, report.Higher, by(slices[0], rate)),
		line("DBOS Go", perSecond, report.Higher, by(slices[1], rate)),
		line("Payonce, PostgreSQL", cpuMicros, report.Lower, by(slices[0], pgCPU)),
		line("DBOS Go, PostgreSQL", cpuMicros, report.Lower, by(slices[1], pgCPU)),
		line("Payonce, program", cpuMicros, report.Lower, by(slices[0], programCPU)), line(
			"DBOS Go, program", cpuMicros, report.Lower, by(slices[1], programCPU)))
	s.Ratios = append(s.Ratios, ratio)
	s.Bars = append(s.Bars, report.Bar{What: "÷ DBOS Go doing one idempotent payment, at 8", Op: report.AtLeast,
		Value: 3.5, Prototype: "3.4"}.Of(ratio.Samples()))
	return nil
}
