package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"payonce/lab/bench/load"
	"payonce/lab/bench/pgbench"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

const (
	perSecondReplays = "replays/s"
	perSecondQueries = "queries/s"
	perSecondGets    = "requests/s"
)

// replayKeys is how many of the loaded keys are replayed, drawn at random over all of them.
const replayKeys = 100_000

// keysOf draws keys of loaded rows.
func keysOf(rows int) []string {
	random := rand.New(rand.NewPCG(1, uint64(rows))) //nolint:gosec // the same ones in every run
	keys := make([]string, min(rows, replayKeys))
	for i := range keys {
		keys[i] = fmt.Sprintf("load-%020d", random.IntN(rows)+1)
	}
	return keys
}

// replays asks what a repeated request costs.
func (b *bench) replays(ctx context.Context, s *report.Section) error {
	s.Note = "Replays of loaded keys at 8 clients, against the one SELECT that they cannot do without, and against what carries them."
	const clients = 8
	api, err := b.start(ctx, b.db, rig.Spec{Program: rig.APIInProcess})
	if err != nil {
		return err
	}
	find, err := pgbench.Find(b.queries, b.sample, b.settings.Rows)
	if err != nil {
		return err
	}
	same, err := pgbench.Replay(b.queries, b.sample, b.settings.Rows)
	if err != nil {
		return err
	}
	if err := b.warmUp(ctx, api, b.db); err != nil {
		return err
	}
	slices, err := b.roundsOf(ctx, b.settings.few(),
		b.scripted(b.db, find, clients),
		b.scripted(b.db, same, clients),
		b.loaded("API, replay", api, load.Plan{Kind: load.Replay, KeyList: keysOf(b.settings.Rows), Clients: clients,
			APIKey: b.db.APIKey}),
		b.loaded("API, new", api, load.Plan{Kind: load.New, Clients: clients, APIKey: b.db.APIKey}),
		b.scripted(b.db, pgbench.Select1(), clients),
		b.loaded("API, GET /openapi.yaml", api, load.Plan{Kind: load.Get, Path: "/openapi.yaml", Clients: clients}),
	)
	if err != nil {
		return err
	}
	toSelect := report.PairUp("replay ÷ pgbench's SELECT of the key", by(slices[2], rate), by(slices[0], rate))
	toSame := report.PairUp("replay ÷ pgbench with the statements of a replay", by(slices[2], rate),
		by(slices[1], rate))
	toNew := report.PairUp("replay ÷ new payment", by(slices[2], rate), by(slices[3], rate))
	s.Lines = append(s.Lines,
		line("pgbench, SELECT 1", perSecondQueries, report.Higher, by(slices[4], rate)),
		line("pgbench, SELECT of the key", perSecondQueries, report.Higher, by(slices[0], rate)),
		line("pgbench, statements of a replay", perSecondReplays, report.Higher, by(slices[1], rate)),
		line("API, GET of a page (no database)", perSecondGets, report.Higher, by(slices[5], rate)),
		line("API, replay", perSecondReplays, report.Higher, by(slices[2], rate)),
		line("API, replay, p99", millis, report.Lower, by(slices[2], p99)),
		line("API", cpuMicros, report.Lower, by(slices[2], programCPU)),
		line("PostgreSQL", cpuMicros, report.Lower, by(slices[2], pgCPU)),
	)
	s.Ratios = append(s.Ratios, toSelect, toSame, toNew)
	s.Bars = append(s.Bars,
		report.Bar{What: "replay ÷ pgbench's same SELECT, at 8", Op: report.AtLeast, Value: 0.2,
			Prototype: "0.2–0.27"}.Of(toSelect.Samples()),
		report.Bar{What: "replay ÷ new payment, at 8", Op: report.AtLeast, Value: 3.5,
			Prototype: "4.2"}.Of(toNew.Samples()))
	return nil
}
