package main

import (
	"context"
	"fmt"

	"payonce/lab/bench/load"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
	"payonce/lab/world"
)

// What both databases begin with, made by the programs themselves: the schemas may differ, so that rows cannot be
// copied in.
const (
	againstPayments = 20_000
	againstUnknown  = 4000
)

// refBars are those of two commits: what came after eee957c was to bring array statements and cheaper guards, and what
// came after 87d65db plans that do not depend on statistics, and a path that costs less.
var refBars = map[string]map[string]report.Bar{
	"eee957c": {
		"payments, 1": report.AtLeast(1.15), "payments, 8": report.AtLeast(1.2), "payments, 64": report.AtLeast(1.45),
		"PostgreSQL's CPU, 1": report.AtMost(0.75), "PostgreSQL's CPU, 8": report.AtMost(0.70),
		"PostgreSQL's CPU, 64": report.AtMost(0.50),
		"p99, 1":               report.AtMost(1), "p99, 8": report.AtMost(1), "p99, 64": report.AtMost(1),
		"replays": report.AtLeast(1), "unknown → final": report.AtLeast(1.3),
	},
	"87d65db": {
		"payments on fresh tables": report.AtLeast(1.5),
		"payments, 1":              report.AtLeast(1.2), "payments, 8": report.AtLeast(1.15),
		"payments, 64":        report.AtLeast(1.1),
		"PostgreSQL's CPU, 1": report.AtMost(0.85), "PostgreSQL's CPU, 8": report.AtMost(0.85),
		"PostgreSQL's CPU, 64": report.AtMost(0.95),
		"API's CPU, 1":         report.AtMost(0.75), "API's CPU, 8": report.AtMost(0.8),
		"API's CPU, 64": report.AtMost(0.85),
		"replays":       report.AtLeast(1.25), "webhooks": report.AtLeast(1.4),
	},
}

// version is one of two that are compared, such as a commit.
type version struct {
	name string
	db   *rig.Database
}

// versions are those that are compared, on empty tables: the other commit, and this tree.
func (b *bench) versions(ctx context.Context, section string) (_ []version, short string, err error) {
	commit, err := b.rig.Commit(ctx, b.settings.Ref)
	if err != nil {
		return nil, "", err
	}
	short = commit[:7]
	b.progress("building %s", short)
	versions := []version{{name: short}, {name: "this tree"}}
	if versions[0].db, err = b.rig.NewDatabaseOf(ctx, section+"_other", commit); err != nil {
		return nil, "", err
	}
	versions[1].db, err = b.rig.NewDatabase(ctx, section+"_this")
	return versions, short, err
}

// against asks how this program stands beside that of another commit: on one server, each on tables of its own, turn by
// turn.
func (b *bench) against(ctx context.Context, s *report.Section) error {
	versions, short, err := b.versions(ctx, "against")
	if err != nil {
		return err
	}
	s.Note = fmt.Sprintf("This tree beside commit %s, both on one server, PSP in process, each with %d payments of its own making to begin with.", short, againstPayments)
	apis, err := b.filled(ctx, versions)
	if err != nil {
		return err
	}
	bars := refBars[short]
	for _, clients := range []int{1, 8, 64} {
		slices, err := b.sideBySide(ctx, s, versions, apis, clients)
		if err != nil {
			return err
		}
		for _, each := range []struct {
			what string
			of   func(taken) float64
		}{{"payments", rate}, {"PostgreSQL's CPU", pgCPU}, {"API's CPU", apiCPU}, {"p99", p99}} {
			compare(s, withClients(clients)(each.what+", this ÷ other"), slices[1], slices[0], each.of,
				bars[fmt.Sprintf("%s, %d", each.what, clients)])
		}
	}
	replays := make([]contender, len(versions))
	for i, each := range versions {
		keys, err := each.db.Keys(ctx, "", againstPayments)
		if err != nil {
			return err
		}
		replays[i] = b.loaded("replays: "+each.name, apis[i],
			load.Plan{Kind: load.Replay, Keys: keys, Clients: 8, APIKeys: []string{each.db.APIKey}})
	}
	replayed, err := b.rounds(ctx, b.settings.Rounds, replays...)
	if err != nil {
		return err
	}
	b.stopAll()
	resolved, err := b.resolveTurns(ctx, versions, againstUnknown)
	if err != nil {
		return err
	}
	for i, each := range versions {
		tell(s, "replays: "+each.name, replaysUnit, replayed[i])
		tell(s, "unknown → final: "+each.name, keysUnit, resolved[i])
	}
	compare(s, "replays, this ÷ other", replayed[1], replayed[0], rate, bars["replays"])
	compare(s, "unknown → final, this ÷ other", resolved[1], resolved[0], rate, bars["unknown → final"])
	return nil
}

// filled makes the payments that each version begins with, and then starts the APIs.
func (b *bench) filled(ctx context.Context, versions []version) (apis []*world.Process, err error) {
	for _, each := range versions {
		if err := b.fill(ctx, each); err != nil {
			return nil, err
		}
	}
	apis = make([]*world.Process, len(versions))
	for i, each := range versions {
		if apis[i], err = b.serve(ctx, each.db); err != nil {
			return nil, err
		}
	}
	return apis, nil
}

// fill makes the payments that a version begins with, and brings its tables to rest.
func (b *bench) fill(ctx context.Context, of version) error {
	b.progress("%s: %d payments to begin with", of.name, againstPayments)
	defer b.stopAll()
	p, err := b.start(ctx, of.db, rig.API)
	if err != nil {
		return err
	}
	plan := load.Plan{Address: p.Address, Kind: load.New, Clients: 64, Requests: againstPayments, Seconds: 120,
		APIKeys: []string{of.db.APIKey}}
	if _, err := generate(ctx, plan); err != nil {
		return err
	}
	return of.db.Rest(ctx)
}

// sideBySide has so many clients make new payments with each version, by turns.
func (b *bench) sideBySide(
	ctx context.Context, s *report.Section, versions []version, apis []*world.Process, clients int,
) ([][]taken, error) {
	name := withClients(clients)
	var contenders []contender
	for i, each := range versions {
		contenders = append(contenders, b.loaded(name(each.name), apis[i],
			load.Plan{Kind: load.New, Clients: clients, APIKeys: []string{each.db.APIKey}}))
	}
	slices, err := b.rounds(ctx, b.settings.Rounds, contenders...)
	if err != nil {
		return nil, err
	}
	for i, each := range versions {
		tell(s, name(each.name), paymentsUnit, slices[i])
	}
	return slices, nil
}

// resolveTurns has the reconciler of each version resolve n payments whose answer was lost, by turns.
func (b *bench) resolveTurns(ctx context.Context, versions []version, n int) ([][]taken, error) {
	psp, err := rig.StartPSP(b.sample)
	if err != nil {
		return nil, err
	}
	defer psp.Close()
	for _, each := range versions {
		if err := b.warmUpQueue(ctx, each.db, psp); err != nil {
			return nil, fmt.Errorf("%s: %w", each.name, err)
		}
	}
	slices := make([][]taken, len(versions))
	for round := range b.settings.few() {
		for i, each := range versions {
			b.progress("%s: resolving %d keys, round %d of %d", each.name, n, round+1, b.settings.few())
			t, err := b.resolving(ctx, each.db, psp, n)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", each.name, err)
			}
			slices[i] = append(slices[i], t)
		}
	}
	return slices, nil
}
