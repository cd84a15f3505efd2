package main

import (
	"context"
	"fmt"

	"payonce/lab/bench/report"
)

// events asks what it costs a payment that an event is written with it. Nobody delivers the events meanwhile.
func (b *bench) events(ctx context.Context, s *report.Section) error {
	versions := []version{{name: "without events"}, {name: "with events"}}
	s.Note = fmt.Sprintf("New payments, PSP in process, one tenant, each with %d payments of its own making to begin with. No reconciler runs.", againstPayments)
	for i := range versions {
		var err error
		if versions[i].db, err = b.rig.NewDatabase(ctx, fmt.Sprintf("events_%d", i)); err != nil {
			return err
		}
	}
	if _, err := versions[1].db.Admin.Exec(ctx, "UPDATE tenants SET tells = true"); err != nil {
		return fmt.Errorf("switch events on: %w", err)
	}
	apis, err := b.filled(ctx, versions)
	if err != nil {
		return err
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
