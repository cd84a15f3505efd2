package main

import (
	"context"
	"fmt"
	"strings"

	"payonce/lab/bench/load"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

const againstSection = "against"

// What both databases begin with, made by the programs themselves: the schemas may differ, so that rows cannot be
// copied in.
const (
	againstPayments = 20_000
	againstUnknown  = 4000
)

// againstFirst is the commit that the bars are about: they say what array statements and cheaper guards were to bring.
const againstFirst = "eee957c"

// againstBars are by clients.
var againstBars = map[int]struct{ cpu, rate float64 }{1: {0.75, 1.15}, 8: {0.70, 1.2}, 64: {0.50, 1.45}}

// version is one of two that are compared, such as a commit.
type version struct {
	name string
	db   *rig.Database
	env  []string // settings of its own
}

// against asks how this program stands beside that of another commit: on one server, each on tables of its own, turn by
// turn.
func (b *bench) against(ctx context.Context, s *report.Section) error {
	commit, err := b.rig.Commit(ctx, b.settings.Ref)
	if err != nil {
		return err
	}
	short := commit[:7]
	s.Note = fmt.Sprintf("This tree beside commit %s, both on one server, PSP in process, each with %d payments of its own making to begin with.", short, againstPayments)
	b.progress("building %s", short)
	versions := []version{{name: short}, {name: "this tree"}}
	if versions[0].db, err = b.rig.NewDatabaseOf(ctx, "against_other", commit); err != nil {
		return err
	}
	if versions[1].db, err = b.rig.NewDatabase(ctx, "against_this"); err != nil {
		return err
	}
	for _, each := range versions {
		if err := b.fill(ctx, each); err != nil {
			return err
		}
	}
	traces, end, err := traceSink(b.settings.Traced)
	if err != nil {
		return err
	}
	defer end()
	if versions[1].env = traces; traces != nil {
		s.Note += fmt.Sprintf(" This tree traces %v of its payments.", b.settings.Traced)
	}
	first := strings.HasPrefix(commit, againstFirst)
	for _, step := range []func(context.Context, *report.Section, []version, bool) error{b.againstNew, b.againstReplays,
		b.againstResolve} {
		if err := step(ctx, s, versions, first); err != nil {
			return err
		}
		b.stopAll()
	}
	return nil
}

// fill makes the payments that a version begins with, and brings its tables to rest.
func (b *bench) fill(ctx context.Context, of version) error {
	b.progress("%s: %d payments to begin with", of.name, againstPayments)
	defer b.stopAll()
	p, err := b.start(ctx, of.db, rig.Spec{Program: rig.APIInProcess, Env: of.env})
	if err != nil {
		return err
	}
	plan := load.Plan{Address: p.Address, Kind: load.New, Clients: 64, Requests: againstPayments, Seconds: 120,
		APIKey: of.db.APIKey}
	if _, err := generate(ctx, plan, nil); err != nil {
		return err
	}
	return of.db.Rest(ctx)
}

// inProcess starts the API of each version.
func (b *bench) inProcess(ctx context.Context, versions []version) ([]*rig.Process, error) {
	apis := make([]*rig.Process, len(versions))
	for i, each := range versions {
		var err error
		if apis[i], err = b.start(ctx, each.db, rig.Spec{Program: rig.APIInProcess, Env: each.env}); err != nil {
			return nil, fmt.Errorf("%s: %w", each.name, err)
		}
		if err := b.warmUp(ctx, apis[i], each.db); err != nil {
			return nil, fmt.Errorf("%s: %w", each.name, err)
		}
	}
	return apis, nil
}

// sideBySide has so many clients make new payments with each version, by turns.
func (b *bench) sideBySide(
	ctx context.Context, rounds int, versions []version, apis []*rig.Process, clients int,
) ([][]taken, error) {
	var contenders []contender
	for i, each := range versions {
		contenders = append(contenders, b.loaded(fmt.Sprintf("%s, %d clients", each.name, clients), apis[i],
			load.Plan{Kind: load.New, Clients: clients, APIKey: each.db.APIKey}))
	}
	return b.roundsOf(ctx, rounds, contenders...)
}

// withClients names a line by how many clients there were.
func withClients(n int) func(string) string {
	return func(text string) string { return fmt.Sprintf("%2d clients: %s", n, text) }
}

// tellEach adds the lines of each version: its rate, one percentile of its latency, and its CPU.
func tellEach(
	s *report.Section, versions []version, slices [][]taken, name func(string) string, percentile string,
	latency func(taken) float64,
) {
	for i, each := range versions {
		s.Lines = append(s.Lines,
			line(name(each.name), perSecond, report.Higher, by(slices[i], rate)),
			line(name(each.name+", "+percentile), millis, report.Lower, by(slices[i], latency)),
			line(name(each.name+", PostgreSQL"), cpuMicros, report.Lower, by(slices[i], pgCPU)),
			line(name(each.name+", API"), cpuMicros, report.Lower, by(slices[i], programCPU)))
	}
}

func (b *bench) againstNew(ctx context.Context, s *report.Section, versions []version, first bool) error {
	apis, err := b.inProcess(ctx, versions)
	if err != nil {
		return err
	}
	for _, clients := range []int{1, 8, 64} {
		slices, err := b.sideBySide(ctx, b.settings.Rounds, versions, apis, clients)
		if err != nil {
			return err
		}
		name := withClients(clients)
		tellEach(s, versions, slices, name, "p99", p99)
		faster := report.PairUp(name("payments, this ÷ other"), by(slices[1], rate), by(slices[0], rate))
		cpu := report.PairUp(name("PostgreSQL's CPU per payment, this ÷ other"), by(slices[1], pgCPU),
			by(slices[0], pgCPU))
		slowest := report.PairUp(name("p99, this ÷ other"), by(slices[1], p99), by(slices[0], p99))
		s.Ratios = append(s.Ratios, faster, cpu, slowest)
		if bar := againstBars[clients]; first {
			s.Bars = append(s.Bars,
				report.Bar{What: fmt.Sprintf("new payments ÷ %s, at %d", againstFirst, clients), Op: report.AtLeast,
					Value: bar.rate}.Of(faster.Samples()),
				report.Bar{What: fmt.Sprintf("PostgreSQL's CPU per payment ÷ %s, at %d", againstFirst, clients),
					Op: report.AtMost, Value: bar.cpu}.Of(cpu.Samples()),
				report.Bar{What: fmt.Sprintf("p99 ÷ %s, at %d", againstFirst, clients), Op: report.AtMost,
					Value: 1}.Of(slowest.Samples()))
		}
	}
	return nil
}

func (b *bench) againstReplays(ctx context.Context, s *report.Section, versions []version, first bool) error {
	apis, err := b.inProcess(ctx, versions)
	if err != nil {
		return err
	}
	var contenders []contender
	for i, each := range versions {
		keys, err := each.db.Keys(ctx, againstPayments)
		if err != nil {
			return err
		}
		contenders = append(contenders, b.loaded(each.name+", replays", apis[i],
			load.Plan{Kind: load.Replay, KeyList: keys, Clients: 8, APIKey: each.db.APIKey}))
	}
	slices, err := b.rounds(ctx, contenders...)
	if err != nil {
		return err
	}
	for i, each := range versions {
		s.Lines = append(s.Lines, line("replays: "+each.name, perSecondReplays, report.Higher, by(slices[i], rate)),
			line("replays: "+each.name+", PostgreSQL", cpuMicros, report.Lower, by(slices[i], pgCPU)))
	}
	faster := report.PairUp("replays, this ÷ other", by(slices[1], rate), by(slices[0], rate))
	s.Ratios = append(s.Ratios, faster)
	if first {
		s.Bars = append(s.Bars, report.Bar{What: "replays ÷ " + againstFirst + ", at 8", Op: report.AtLeast,
			Value: 1}.Of(faster.Samples()))
	}
	return nil
}

// againstResolve has the reconciler of each version resolve payments whose answer was lost.
func (b *bench) againstResolve(ctx context.Context, s *report.Section, versions []version, first bool) error {
	psp, err := b.rig.PSP()
	if err != nil {
		return err
	}
	b.running = append(b.running, psp)
	for _, each := range versions {
		b.progress("%s: warming up the queue", each.name)
		if _, err := b.resolvingLost(ctx, each.db, psp, warmingKeys); err != nil {
			return fmt.Errorf("%s: %w", each.name, err)
		}
		if err := each.db.Rest(ctx); err != nil {
			return err
		}
	}
	slices := make([][]taken, len(versions))
	rounds := b.settings.few()
	for round := range rounds {
		for i, each := range versions {
			b.progress("%s: resolving %d keys, round %d of %d", each.name, againstUnknown, round+1, rounds)
			t, err := b.resolvingLost(ctx, each.db, psp, againstUnknown)
			if err != nil {
				return fmt.Errorf("%s: %w", each.name, err)
			}
			slices[i] = append(slices[i], t)
		}
	}
	for i, each := range versions {
		s.Lines = append(s.Lines, line("unknown → final: "+each.name, perSecondKeys, report.Higher,
			by(slices[i], rate)),
			line("unknown → final: "+each.name+", PostgreSQL", cpuMicros, report.Lower, by(slices[i], pgCPU)))
	}
	faster := report.PairUp("unknown → final, this ÷ other", by(slices[1], rate), by(slices[0], rate))
	s.Ratios = append(s.Ratios, faster)
	if first {
		s.Bars = append(s.Bars, report.Bar{What: "unknown → final ÷ " + againstFirst, Op: report.AtLeast,
			Value: 1.3}.Of(faster.Samples()))
	}
	return nil
}

// resolvingLost is resolving for payments that the API has made itself.
func (b *bench) resolvingLost(ctx context.Context, d *rig.Database, psp *rig.Process, n int) (taken, error) {
	lost, err := d.Lose(ctx, n)
	if err != nil {
		return taken{}, err
	}
	return b.resolvingThese(ctx, d, psp, lost)
}
