package main

import (
	"context"

	"payonce/lab/bench/load"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

// dialects asks what a payment at Stripe costs beside one at the provider native: one request more to the PSP, and one
// commit more, which stores the id of the PSP's object. The PSP is in process and takes no time, so a real one adds its
// own time for one request.
func (b *bench) dialects(ctx context.Context, s *report.Section) error {
	s.Note = "New payments at both providers, PSP in process, each on tables of its own with 20,000 payments to begin with."
	versions := []version{
		{name: "native"}, {name: "stripe", env: []string{"PSP=stripe", "STRIPE_SECRET=sk_test_bench"}},
	}
	var err error
	if versions[0].db, err = b.rig.NewDatabase(ctx, "at_native"); err != nil {
		return err
	}
	if versions[1].db, err = b.rig.NewDatabaseAtStripe(ctx, "at_stripe"); err != nil {
		return err
	}
	for _, each := range versions {
		if err := b.fill(ctx, each); err != nil {
			return err
		}
	}
	for i, each := range versions {
		if err := b.costAt(ctx, s, each, float64(2+i)); err != nil {
			return err
		}
	}
	b.stopAll()
	apis, err := b.inProcess(ctx, versions)
	if err != nil {
		return err
	}
	for _, clients := range b.settings.Clients {
		slices, err := b.sideBySide(ctx, b.settings.few(), versions, apis, clients)
		if err != nil {
			return err
		}
		name := withClients(clients)
		tellEach(s, versions, slices, name, "p50", p50)
		s.Ratios = append(s.Ratios,
			report.PairUp(name("payments, stripe ÷ native"), by(slices[1], rate), by(slices[0], rate)),
			report.PairUp(name("p50, stripe ÷ native"), by(slices[1], p50), by(slices[0], p50)),
			report.PairUp(name("PostgreSQL's CPU per payment, stripe ÷ native"), by(slices[1], pgCPU),
				by(slices[0], pgCPU)))
	}
	return nil
}

// costAt counts what one payment costs the database at one provider. Each step of a payment is a round trip and a
// commit.
func (b *bench) costAt(ctx context.Context, s *report.Section, of version, steps float64) error {
	counter, err := rig.CountRoundTrips(ctx, of.db.URL)
	if err != nil {
		return err
	}
	defer counter.Close()
	api, err := b.start(ctx, of.db, rig.Spec{Program: rig.APIInProcess,
		Env: append([]string{"DATABASE_URL=" + counter.URL()}, of.env...)})
	if err != nil {
		return err
	}
	if err := b.warmUp(ctx, api, of.db); err != nil {
		return err
	}
	return b.costOf(ctx, s, of.db, counter, "new payment at "+of.name, load.Plan{Kind: load.New, Address: api.Address,
		APIKey: of.db.APIKey, Clients: 1, Requests: 3000, Seconds: 30}, costBars{steps, steps, unboundWAL})
}
