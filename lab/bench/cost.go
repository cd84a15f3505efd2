package main

import (
	"context"

	"payonce/lab/bench/load"
	"payonce/lab/bench/meter"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

// cost counts what does not depend on the machine: round trips, commits, WAL, HOT updates. The tests hold the same
// figures (test/e2e/cost_test.go).
func (b *bench) cost(ctx context.Context, s *report.Section) error {
	s.Note = "What one payment and one replay cost the database, one client, on warm tables; keys are UUIDs of version 7."
	counter, err := rig.CountRoundTrips(ctx, b.db.URL)
	if err != nil {
		return err
	}
	defer counter.Close()
	api, err := b.start(ctx, b.db, rig.Spec{Program: rig.APIInProcess, Env: []string{"DATABASE_URL=" + counter.URL()}})
	if err != nil {
		return err
	}
	if err := b.warmUp(ctx, api, b.db); err != nil {
		return err
	}
	for _, each := range []struct {
		what string
		plan load.Plan
		bars costBars
	}{
		{"new payment", load.Plan{Kind: load.New}, costBars{2, 2, 1.6}},
		{"replay", load.Plan{Kind: load.Replay, KeyList: keysOf(b.settings.Rows)}, costBars{1, 0, 0}},
	} {
		each.plan.Address, each.plan.APIKey, each.plan.Clients, each.plan.Requests, each.plan.Seconds = api.Address,
			b.db.APIKey, 1, 3000, 30
		if err := b.costOf(ctx, s, b.db, counter, each.what, each.plan, each.bars); err != nil {
			return err
		}
	}
	return nil
}

// costBars are what a request may cost at most.
type costBars struct{ roundTrips, commits, wal float64 } // wal in kilobytes

// unboundWAL is for tables that have just been vacuumed: what is written then goes to pages that were not written since
// the checkpoint, and PostgreSQL logs each of them whole.
const unboundWAL = 1000

func (b *bench) costOf(
	ctx context.Context, s *report.Section, db *rig.Database, counter *rig.RoundTrips, what string, plan load.Plan,
	bars costBars,
) error {
	b.progress("counting, %s", what)
	tables := []string{"idempotency_keys", "payments"}
	before, err := meter.ReadCounters(ctx, db.Admin, tables...)
	if err != nil {
		return err
	}
	rounds := counter.Count()
	result, err := generate(ctx, plan, nil)
	if err != nil {
		return err
	}
	n := float64(result.Requests)
	roundTrips := float64(counter.Count()-rounds) / n
	after, err := meter.AtRest(ctx, db.Admin, tables...)
	if err != nil {
		return err
	}
	spent := after.Since(before)
	commits, wal := float64(spent.Writers)/n, float64(spent.InsertLSN)/n/1000
	s.Lines = append(s.Lines,
		line(what, "round-trips", report.Lower, []float64{roundTrips}),
		line(what, "commits", report.Lower, []float64{commits}),
		line(what, "kB-WAL", report.Lower, []float64{wal}), line(
			what, "full-page-images", report.Lower, []float64{float64(spent.WALFullPageImages) / n}))
	for _, table := range tables {
		if share, updated := spent.Tables[table].HOTShare(); updated {
			s.Lines = append(s.Lines, line(what+": HOT updates of "+table, "share", report.Higher, []float64{share}))
		}
	}
	// The pool looks after a connection that was idle: a few round trips in thousands are not the payment's.
	const slack = 0.01
	s.Bars = append(s.Bars,
		report.Bar{What: "round trips per " + what, Op: report.AtMost, Value: bars.roundTrips + slack,
			Prototype: "same"}.Of([]float64{roundTrips}),
		report.Bar{What: "commits per " + what, Op: report.AtMost, Value: bars.commits + slack,
			Prototype: "same"}.Of([]float64{commits}))
	if bars.wal < unboundWAL {
		s.Bars = append(s.Bars, report.Bar{What: "WAL per " + what, Op: report.AtMost, Value: bars.wal + slack,
			Unit: "kB", Prototype: "1.3–1.6 / none"}.Of([]float64{wal}))
	}
	return nil
}
