package main

import (
	"context"
	"errors"
	"fmt"

	"payonce/lab/bench/load"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
	"payonce/lab/world"
)

// Tables grow in steps, so that the spread of their line shows whether a payment costs more as they grow.
const (
	growSteps   = 5
	growSeconds = 60 // in all: a commit whose payments each read all others would grow for an hour
)

// freshClients are those at which other commits are compared: at all, it would take more than five minutes.
const freshClients = 8

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
	apis := make([]*world.Process, len(versions))
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
		slices, err := b.sideBySide(ctx, s, turns, apis, clients)
		if err != nil {
			return err
		}
		name := withClients(clients)
		compare(s, name("PostgreSQL's CPU, fresh ÷ analysed"), slices[1], slices[0], pgCPU, report.AtMost(1.1))
		compare(s, name("payments, fresh ÷ analysed"), slices[1], slices[0], rate, report.Bar{})
		if len(turns) > 2 {
			compare(s, name("payments on fresh tables, this ÷ other"), slices[1], slices[2], rate,
				refBars[commit[:7]]["payments on fresh tables"])
		}
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
func (b *bench) grow(ctx context.Context, s *report.Section, of version) (*world.Process, error) {
	api, err := b.start(ctx, of.db, rig.API)
	if err != nil {
		return nil, err
	}
	slices, err := b.rounds(ctx, growSteps, b.loaded(of.name+", growing", api, load.Plan{Kind: load.New, Clients: 64,
		Requests: int64(b.settings.Rows / growSteps), Seconds: growSeconds / growSteps,
		APIKeys: []string{of.db.APIKey}}))
	if err != nil {
		return nil, err
	}
	var payments int
	if err := of.db.Admin.QueryRow(ctx, "SELECT count(*) FROM payments").Scan(&payments); err != nil {
		return nil, err
	}
	s.Note += fmt.Sprintf(" %d payments to begin with: %s.", payments, of.name)
	if of.name != "analysed" { // which is not what it is yet
		tell(s, withClients(64)(of.name+", growing"), paymentsUnit, slices[0])
	}
	return api, nil
}

// analyse gives PostgreSQL its statistics, and starts the API again: no connection keeps an older plan. It comes before
// anything else runs.
func (b *bench) analyse(ctx context.Context, of version) (*world.Process, error) {
	b.stopAll()
	if _, err := of.db.Admin.Exec(ctx, "ANALYZE"); err != nil {
		return nil, fmt.Errorf("analyse: %w", err)
	}
	return b.serve(ctx, of.db)
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
