package main

import (
	"context"
	"fmt"

	"payonce/lab/bench/load"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

// The rounds of each size are few: there are two databases, and three questions.
const (
	sizeRounds  = 3
	sizeUnknown = 2000
	sizeAtMost  = 1.3
)

// size asks whether big tables are slower than small ones.
func (b *bench) size(ctx context.Context, s *report.Section) error {
	const clients = 8
	s.Note = fmt.Sprintf("Tables of %d completed keys against tables that began with %d, each with an API of its own, at %d clients; and %d unknown keys resolved in each. "+
		"Time of the big ones ÷ time of the small ones; the bars are meant for 10 000 000 keys.", b.settings.Rows, smallRows, clients, sizeUnknown)
	small, err := b.database(ctx, "small", smallRows)
	if err != nil {
		return err
	}
	if err := small.Rest(ctx); err != nil {
		return err
	}
	var contenders []contender
	for _, each := range []struct {
		name string
		d    *rig.Database
		rows int
	}{{"small", small, smallRows}, {"big", b.db, b.settings.Rows}} {
		api, err := b.start(ctx, each.d, rig.Spec{Program: rig.APIInProcess})
		if err != nil {
			return err
		}
		if err := b.warmUp(ctx, api, each.d); err != nil {
			return err
		}
		plan := load.Plan{Clients: clients, APIKey: each.d.APIKey, Seconds: max(b.settings.slice().Seconds()/2, 1)}
		plan.Kind = load.New
		contenders = append(contenders, b.loaded("new, "+each.name, api, plan))
		plan.Kind, plan.KeyList = load.Replay, keysOf(each.rows)
		contenders = append(contenders, b.loaded("replay, "+each.name, api, plan))
	}
	rounds := min(b.settings.Rounds, sizeRounds)
	slices, err := b.roundsOf(ctx, rounds, contenders...)
	if err != nil {
		return err
	}
	tellSize(s, "new payment", perSecond, slices[0], slices[2])
	tellSize(s, "replay", perSecondReplays, slices[1], slices[3])
	b.stopAll()
	return b.resolveSizes(ctx, s, small, rounds)
}

func (b *bench) resolveSizes(ctx context.Context, s *report.Section, small *rig.Database, rounds int) error {
	psp, err := b.rig.PSP()
	if err != nil {
		return err
	}
	b.running = append(b.running, psp)
	for _, d := range []*rig.Database{small, b.db} {
		if err := b.warmUpQueue(ctx, d, psp); err != nil {
			return err
		}
	}
	var slices [2][]taken
	for round := range rounds {
		for i, d := range []*rig.Database{small, b.db} {
			b.progress("resolving %d keys in the %s tables, round %d of %d", sizeUnknown, []string{"small", "big"}[i],
				round+1, rounds)
			t, err := b.resolving(ctx, d, psp, sizeUnknown)
			if err != nil {
				return err
			}
			slices[i] = append(slices[i], t)
		}
	}
	tellSize(s, "resolution", perSecondKeys, slices[0], slices[1])
	return nil
}

// tellSize turns the rates around: half as many a second take twice the time.
func tellSize(s *report.Section, what, unit string, small, big []taken) {
	ratio := report.PairUp(what+", time, big ÷ small", by(small, rate), by(big, rate))
	s.Lines = append(s.Lines, line(what+", small tables", unit, report.Higher, by(small, rate)),
		line(what+", big tables", unit, report.Higher, by(big, rate)))
	s.Ratios = append(s.Ratios, ratio)
	s.Bars = append(s.Bars, report.Bar{What: what + ", big tables ÷ small ones, time", Op: report.AtMost,
		Value: sizeAtMost}.Of(ratio.Samples()))
}
