package main

import (
	"context"
	"fmt"

	"payonce/lab/bench/report"
	"payonce/lab/world"
)

// events asks what it costs a payment that an event is written with it. Nobody delivers the events meanwhile.
func (b *bench) events(ctx context.Context, s *report.Section) error {
	versions := []version{{name: "without events"}, {name: "with events"}}
	s.Note = fmt.Sprintf("New payments, PSP in process, one tenant, each with %d payments of its own making to begin with. No reconciler runs.", againstPayments)
	apis := make([]*world.Process, len(versions))
	for i := range versions {
		var err error
		if versions[i].db, err = b.rig.NewDatabase(ctx, fmt.Sprintf("events_%d", i)); err != nil {
			return err
		}
		if i == 1 {
			if _, err := versions[i].db.Admin.Exec(ctx, "UPDATE tenants SET tells = true"); err != nil {
				return fmt.Errorf("switch events on: %w", err)
			}
		}
		if err := b.fill(ctx, versions[i]); err != nil {
			return err
		}
	}
	for i, each := range versions {
		var err error
		if apis[i], err = b.serve(ctx, each.db); err != nil {
			return err
		}
	}
	for _, clients := range []int{1, 8, 64} {
		slices, err := b.sideBySide(ctx, s, versions, apis, clients)
		if err != nil {
			return err
		}
		name, bar := withClients(clients), report.Bar{}
		if clients == 64 {
			bar = report.AtMost(1.2)
		}
		compare(s, name("PostgreSQL's CPU, with events ÷ without"), slices[1], slices[0], pgCPU, bar)
		compare(s, name("payments, with events ÷ without"), slices[1], slices[0], rate, report.Bar{})
	}
	return nil
}
