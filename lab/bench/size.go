package main

import (
	"context"
	"fmt"

	"payonce/lab/bench/load"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

// sizeUnknown is how many keys are resolved in each round.
const sizeUnknown = 2000

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
	versions := []version{{name: "small", db: small}, {name: "big", db: b.db}}
	var contenders []contender
	for _, each := range versions {
		keys, err := each.db.Keys(ctx, rig.LoadedMark, replayKeys)
		if err != nil {
			return err
		}
		api, err := b.serve(ctx, each.db)
		if err != nil {
			return err
		}
		plan := load.Plan{Kind: load.New, Clients: clients, APIKeys: []string{each.db.APIKey},
			Seconds: max(b.settings.slice().Seconds()/2, 1)}
		contenders = append(contenders, b.loaded("new, "+each.name, api, plan))
		plan.Kind, plan.Keys = load.Replay, keys
		contenders = append(contenders, b.loaded("replay, "+each.name, api, plan))
	}
	slices, err := b.rounds(ctx, b.settings.few(), contenders...)
	if err != nil {
		return err
	}
	tellSize(s, "new payment", paymentsUnit, slices[0], slices[2])
	tellSize(s, "replay", replaysUnit, slices[1], slices[3])
	b.stopAll()
	resolved, err := b.resolveTurns(ctx, versions, sizeUnknown)
	if err != nil {
		return err
	}
	tellSize(s, "resolution", keysUnit, resolved[0], resolved[1])
	return nil
}

// tellSize turns the rates around: half as many a second take twice the time.
func tellSize(s *report.Section, what, unit string, small, big []taken) {
	tell(s, what+", small tables", unit, small)
	tell(s, what+", big tables", unit, big)
	compare(s, what+", big tables ÷ small ones, time", small, big, rate, report.AtMost(1.3))
}
