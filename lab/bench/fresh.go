package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"payonce/lab/bench/load"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

const freshSection = "fresh"

// Tables grow in steps, so that the spread of their line shows whether a payment costs more as they grow.
const (
	growSteps   = 5
	growSeconds = 60 // in all: a commit whose payments each read all others would grow for an hour
)

// freshFirst is the commit that the bar of the rate is about: its connections kept plans that were made for empty
// tables.
const freshFirst = "87d65db"

// The bars. The rates are compared at some clients only, to stay within five minutes.
const (
	freshCPU     = 1.1
	freshRate    = 1.5
	freshClients = 8
)

// fresh asks whether a payment costs more where PostgreSQL has no statistics. The API itself makes the tables, from
// empty: its connections keep the plans of empty tables, which a fill by SQL would not give them. The analysed tables
// are others, made in the same way, so that both can take turns.
func (b *bench) fresh(ctx context.Context, s *report.Section) error {
	versions, commit, err := b.freshVersions(ctx)
	if err != nil {
		return err
	}
	s.Note = "New payments, PSP in process, one tenant, autovacuum off. Fresh tables were never analysed, and the API that has made them from empty goes on. The others " +
		"are analysed, and their API is started after that."
	apis := make([]*rig.Process, len(versions))
	for i, each := range versions {
		if apis[i], err = b.grow(ctx, s, each); err == nil && i == 0 {
			apis[i], err = b.analyse(ctx, each)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", each.name, err)
		}
	}
	for _, clients := range []int{1, freshClients, 64} {
		turns := versions
		if clients != freshClients {
			turns = versions[:2]
		}
		slices, err := b.sideBySide(ctx, b.settings.Rounds, turns, apis, clients)
		if err != nil {
			return err
		}
		tellFresh(s, turns, slices, clients, commit)
	}
	return areFresh(ctx, versions)
}

// freshVersions are the analysed tables, the fresh ones, and those of another commit if there is one.
func (b *bench) freshVersions(ctx context.Context) (versions []version, commit string, err error) {
	versions = []version{{name: "analysed"}, {name: "fresh"}}
	for i := range versions {
		if versions[i].db, err = b.rig.NewDatabase(ctx, versions[i].name); err != nil {
			return nil, "", err
		}
	}
	if b.settings.Ref == "" {
		return versions, "", nil
	}
	if commit, err = b.rig.Commit(ctx, b.settings.Ref); err != nil {
		return nil, "", err
	}
	b.progress("building %s", commit[:7])
	other, err := b.rig.NewDatabaseOf(ctx, "fresh_other", commit)
	return append(versions, version{name: "fresh, " + commit[:7], db: other}), commit, err
}

// grow has the API make the payments of a version, from none, and leaves it running.
func (b *bench) grow(ctx context.Context, s *report.Section, of version) (*rig.Process, error) {
	api, err := b.start(ctx, of.db, rig.Spec{Program: rig.APIInProcess})
	if err != nil {
		return nil, err
	}
	slices, err := b.roundsOf(ctx, growSteps, b.loaded(of.name+", growing", api, load.Plan{Kind: load.New, Clients: 64,
		Requests: int64(b.settings.Rows / growSteps), Seconds: growSeconds / growSteps, APIKey: of.db.APIKey}))
	if err != nil {
		return nil, err
	}
	var payments int
	if err := of.db.Admin.QueryRow(ctx, "SELECT count(*) FROM payments").Scan(&payments); err != nil {
		return nil, err
	}
	s.Note += fmt.Sprintf(" %d payments to begin with: %s.", payments, of.name)
	if name := withClients(64); of.name != "analysed" { // which is not what it is yet
		s.Lines = append(s.Lines, line(name(of.name+", growing"), perSecond, report.Higher, by(slices[0], rate)),
			line(name(of.name+", growing, PostgreSQL"), cpuMicros, report.Lower, by(slices[0], pgCPU)))
	}
	return api, nil
}

// analyse gives PostgreSQL its statistics, and starts the API again: no connection keeps an older plan. It comes before
// anything else runs.
func (b *bench) analyse(ctx context.Context, of version) (*rig.Process, error) {
	b.stopAll()
	if _, err := of.db.Admin.Exec(ctx, "ANALYZE"); err != nil {
		return nil, fmt.Errorf("analyse: %w", err)
	}
	api, err := b.start(ctx, of.db, rig.Spec{Program: rig.APIInProcess})
	if err != nil {
		return nil, err
	}
	return api, b.warmUp(ctx, api, of.db)
}

func tellFresh(s *report.Section, versions []version, slices [][]taken, clients int, commit string) {
	name := withClients(clients)
	tellEach(s, versions, slices, name, "p50", p50)
	cpu := report.PairUp(name("PostgreSQL's CPU, fresh ÷ analysed"), by(slices[1], pgCPU), by(slices[0], pgCPU))
	s.Ratios = append(s.Ratios, cpu,
		report.PairUp(name("payments, fresh ÷ analysed"), by(slices[1], rate), by(slices[0], rate)))
	s.Bars = append(s.Bars, report.Bar{Op: report.AtMost, Value: freshCPU,
		What: fmt.Sprintf("CPU per payment, fresh tables ÷ analysed, at %d", clients)}.Of(cpu.Samples()))
	if len(versions) == 2 {
		return
	}
	faster := report.PairUp(name("payments, fresh, this ÷ other"), by(slices[1], rate), by(slices[2], rate))
	s.Ratios = append(s.Ratios, faster)
	if strings.HasPrefix(commit, freshFirst) {
		s.Bars = append(s.Bars, report.Bar{Op: report.AtLeast, Value: freshRate,
			What: fmt.Sprintf("payments on fresh tables ÷ %s, at %d", freshFirst, clients)}.Of(faster.Samples()))
	}
}

// areFresh checks at the end that all but the first are: an ANALYZE on the way would go unnoticed, and meet the bar.
func areFresh(ctx context.Context, versions []version) error {
	for i, each := range versions {
		var analysed bool
		if err := each.db.Admin.QueryRow(ctx,
			"SELECT EXISTS (SELECT FROM pg_stats WHERE schemaname = current_schema())").Scan(&analysed); err != nil {
			return err
		}
		if analysed != (i == 0) {
			return errors.New("the tables " + each.name + " are not what they are called")
		}
	}
	return nil
}
