package main

import (
	"context"
	"fmt"

	"payonce/lab/bench/report"
)

// withoutGuards takes away what the database checks by itself when a payment is written, except for its keys and NOT
// NULLs.
const withoutGuards = "ALTER TABLE idempotency_keys DISABLE TRIGGER USER; ALTER TABLE payments DISABLE TRIGGER USER"

// guards asks what it costs that the database holds the state machine, too: the same API on two databases, of which one
// holds nothing.
func (b *bench) guards(ctx context.Context, s *report.Section) error {
	s.Note = fmt.Sprintf("The same API, PSP in process, on the schema and on one whose tables of keys and payments check nothing; each with %d payments to begin with.",
		againstPayments)
	versions := []version{{name: "no guards"}, {name: "as it is"}}
	for i, name := range []string{"guards_none", "guards_all"} {
		var err error
		if versions[i].db, err = b.rig.NewDatabase(ctx, name); err != nil {
			return err
		}
		if err := b.fill(ctx, versions[i]); err != nil {
			return err
		}
	}
	if _, err := versions[0].db.Admin.Exec(ctx, withoutGuards); err != nil {
		return err
	}
	apis, err := b.inProcess(ctx, versions)
	if err != nil {
		return err
	}
	for _, clients := range []int{1, 8, 64} {
		slices, err := b.sideBySide(ctx, b.settings.few(), versions, apis, clients)
		if err != nil {
			return err
		}
		name := withClients(clients)
		for i, each := range versions {
			s.Lines = append(s.Lines, line(name(each.name+", PostgreSQL"), cpuMicros, report.Lower,
				by(slices[i], pgCPU)))
		}
		cost := report.PairUp(name("PostgreSQL's CPU per payment ÷ without guards"), by(slices[1], pgCPU),
			by(slices[0], pgCPU))
		s.Ratios = append(s.Ratios, cost)
		s.Bars = append(s.Bars, report.Bar{
			What: fmt.Sprintf("PostgreSQL's CPU per payment ÷ without guards, at %d", clients), Op: report.AtMost,
			Value: 1.3,
		}.Of(cost.Samples()))
	}
	return nil
}
