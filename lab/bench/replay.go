package main

import (
	"context"

	"payonce/lab/bench/load"
	"payonce/lab/bench/pgbench"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

const (
	replaysUnit = "replays/s"
	// replayKeys is how many of the loaded keys are replayed.
	replayKeys = 100_000
)

// replays asks what a repeated request costs.
func (b *bench) replays(ctx context.Context, s *report.Section) error {
	s.Note = "Replays of loaded keys at 8 clients, against the one SELECT that they cannot do without."
	const clients = 8
	find, err := pgbench.Find(b.queries, b.sample, b.settings.Rows)
	if err != nil {
		return err
	}
	same, err := pgbench.Replay(b.queries, b.sample, b.settings.Rows)
	if err != nil {
		return err
	}
	keys, err := b.db.Keys(ctx, rig.LoadedMark, replayKeys)
	if err != nil {
		return err
	}
	api, err := b.serve(ctx, b.db)
	if err != nil {
		return err
	}
	slices, err := b.rounds(ctx, b.settings.few(),
		b.scripted(b.db, find, clients),
		b.scripted(b.db, same, clients),
		b.loaded("API, replay", api, load.Plan{Kind: load.Replay, Keys: keys, Clients: clients,
			APIKeys: []string{b.db.APIKey}}),
		b.loaded("API, new", api, load.Plan{Kind: load.New, Clients: clients, APIKeys: []string{b.db.APIKey}}),
	)
	if err != nil {
		return err
	}
	replay := slices[2]
	tell(s, "pgbench, SELECT of the key", replaysUnit, slices[0])
	tell(s, "pgbench, statements of a replay", replaysUnit, slices[1])
	tell(s, "API, replay", replaysUnit, replay)
	compare(s, "replay ÷ pgbench's SELECT of the key", replay, slices[0], rate, report.AtLeast(0.2))
	compare(s, "replay ÷ pgbench with the statements of a replay", replay, slices[1], rate, report.Bar{})
	compare(s, "replay ÷ new payment", replay, slices[3], rate, report.AtLeast(3.5))
	s.Figures = append(s.Figures,
		report.Figure{What: "commits per replay", Rounds: by(replay, commits), Bar: report.AtMost(slack)},
		report.Figure{What: "WAL per replay", Unit: "kB", Rounds: by(replay, wal), Bar: report.AtMost(slack)})
	return nil
}
