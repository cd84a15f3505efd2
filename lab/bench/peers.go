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
	b.progress("building the DBOS peer")
	if err := b.rig.BuildPeer(ctx); err != nil {
		// Its modules may not be had: that says nothing about us.
		s.Note += " Not run: it could not be built here."
		b.progress("%v", err)
		return nil
	}
	d, err := b.rig.NewDatabase(ctx, rig.Peer)
	if err != nil {
		return err
	}
	other, err := b.start(ctx, d, rig.Peer)
	if err != nil {
		return err
	}
	if err := b.warmUp(ctx, other, d); err != nil {
		return err
	}
	api, err := b.serve(ctx, b.db)
	if err != nil {
		return err
	}
	slices, err := b.rounds(ctx, b.settings.few(),
		b.loaded("API", api, load.Plan{Kind: load.New, Clients: 8, APIKeys: []string{b.db.APIKey}}),
		b.loaded("DBOS", other, load.Plan{Kind: load.New, Clients: 8, APIKeys: []string{d.APIKey}}))
	if err != nil {
		return err
	}
	tell(s, "Payonce", paymentsUnit, slices[0])
	tell(s, "DBOS Go", paymentsUnit, slices[1])
	compare(s, "Payonce ÷ DBOS Go, one idempotent payment, 8 clients", slices[0], slices[1], rate, report.AtLeast(3.5))
	return nil
}
