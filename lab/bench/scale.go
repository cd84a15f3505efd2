package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"payonce/lab/bench/load"
	"payonce/lab/bench/meter"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

// fleet is one way to run the API: one process or more of it, before one PostgreSQL.
type fleet struct {
	name   string
	apis   []*rig.Process
	pooler *rig.Process // or nil
}

// scale asks what more processes of the API come to before one PostgreSQL, and what a pooler between them costs.
func (b *bench) scale(ctx context.Context, s *report.Section) error {
	const clients = 64
	s.Note = fmt.Sprintf("New payments, PSP in process, %d clients dealt out evenly over the processes; all on the same cores. Payments share commits within "+
		"a process (DB_COMMIT_SLOTS), so more processes share less. PgBouncer is reached by TCP, PostgreSQL by its socket. See docs/scaling.md.", clients)
	fleets, err := b.fleets(ctx, s)
	if err != nil {
		return err
	}
	if err := b.warmUpAll(ctx, fleets); err != nil {
		return err
	}
	contenders := make([]contender, len(fleets))
	for i, f := range fleets {
		plan := load.Plan{Kind: load.New, Clients: clients, APIKey: b.db.APIKey,
			Seconds: max(b.settings.slice().Seconds()/2, 1)}
		for _, api := range f.apis[1:] {
			plan.More = append(plan.More, api.Address)
		}
		contenders[i] = b.counting(b.loaded(f.name, f.apis[0], plan))
	}
	// There are many of them: half the rounds.
	defer func(rounds int) { b.settings.Rounds = rounds }(b.settings.Rounds)
	b.settings.Rounds = (b.settings.Rounds + 1) / 2
	taken, err := b.rounds(ctx, contenders...)
	if err != nil {
		return err
	}
	for i, f := range fleets {
		tellFleet(s, f, taken[i])
		if i > 0 {
			s.Ratios = append(s.Ratios, report.PairUp(f.name+" ÷ "+fleets[0].name, by(taken[i], rate),
				by(taken[0], rate)))
		}
	}
	b.stopAll()
	if err := b.flushes(ctx, s, clients); err != nil {
		return err
	}
	return b.sizes(ctx, s)
}

// fleets starts them all. The first is the one that the others are compared with.
func (b *bench) fleets(ctx context.Context, s *report.Section) ([]fleet, error) {
	const most = 4
	start := func(n int, env ...string) (apis []*rig.Process, err error) {
		for range n {
			api, err := b.start(ctx, b.db, rig.Spec{Program: rig.APIInProcess, Env: env})
			if err != nil {
				return nil, err
			}
			apis = append(apis, api)
		}
		return apis, nil
	}
	apis, err := start(most)
	if err != nil {
		return nil, err
	}
	narrow, err := start(most, "DB_COMMIT_SLOTS=1")
	if err != nil {
		return nil, err
	}
	wide, err := start(1, "DB_COMMIT_SLOTS=8")
	if err != nil {
		return nil, err
	}
	alone, err := start(1, "DB_COMMIT_SLOTS=0")
	if err != nil {
		return nil, err
	}
	fleets := []fleet{
		{name: "1 process", apis: apis[:1]}, {name: "2 processes", apis: apis[:2]}, {name: "4 processes", apis: apis},
		{name: "4 processes of 1 slot", apis: narrow}, {name: "1 process of 8 slots", apis: wide},
		{name: "1 process, sharing off", apis: alone},
	}
	pooler, through, err := b.db.Pooler(ctx)
	if errors.Is(err, rig.ErrNoPooler) {
		s.Note += " PgBouncer is not installed: not run."
		return fleets, nil
	}
	if err != nil {
		return nil, err
	}
	b.running = append(b.running, pooler)
	pooled, err := start(1, "DATABASE_URL="+through, "DB_POOLER=true")
	return append(fleets, fleet{name: "1 process through PgBouncer", apis: pooled, pooler: pooler}), err
}

// warmUpAll is warmUp for all processes at once.
func (b *bench) warmUpAll(ctx context.Context, fleets []fleet) error {
	b.progress("warming up")
	var addresses []string
	for _, f := range fleets {
		for _, api := range f.apis {
			if !slices.Contains(addresses, api.Address) {
				addresses = append(addresses, api.Address)
			}
		}
	}
	plan := load.Plan{Address: addresses[0], More: addresses[1:], Kind: load.New, Clients: 32 * len(addresses),
		Seconds: 2, APIKey: b.db.APIKey}
	_, err := generate(ctx, plan, nil)
	return err
}

// counting has a contender's commits and WAL counted as well.
func (b *bench) counting(c contender) contender {
	run := c.run
	c.run = func(ctx context.Context) (effort, error) {
		before, err := meter.ReadCounters(ctx, b.db.Admin)
		if err != nil {
			return effort{}, err
		}
		done, err := run(ctx)
		if err != nil {
			return effort{}, err
		}
		after, err := meter.ReadCounters(ctx, b.db.Admin)
		spent, n := after.Since(before), max(done.requests, 1)
		done.commits, done.wal = float64(spent.Writers)/n, float64(spent.InsertLSN)/n/1000
		return done, err
	}
	return c
}

func tellFleet(s *report.Section, f fleet, rounds []taken) {
	apis := func(t taken) (sum float64) {
		for _, p := range f.apis {
			sum += t.each[p.PID]
		}
		return sum
	}
	s.Lines = append(s.Lines,
		line(f.name, perSecond, report.Higher, by(rounds, rate)),
		line(f.name+", p99", millis, report.Lower, by(rounds, p99)),
		line(f.name+": API", cpuMicros, report.Lower, by(rounds, apis)),
		line(f.name+": PostgreSQL", cpuMicros, report.Lower, by(rounds, pgCPU)))
	if f.pooler != nil {
		s.Lines = append(s.Lines, line(f.name+": PgBouncer", cpuMicros, report.Lower,
			by(rounds, func(t taken) float64 { return t.each[f.pooler.PID] })))
	}
	s.Lines = append(s.Lines,
		line(f.name+", per payment", "commits", report.Lower, by(rounds, func(t taken) float64 { return t.commits })),
		line(f.name+", per payment", "kB-WAL", report.Lower, by(rounds, func(t taken) float64 { return t.wal })))
}

// flushes counts how often the WAL is flushed to the disk. A session reports its own count when it ends, so the API is
// started for this alone.
func (b *bench) flushes(ctx context.Context, s *report.Section, clients int) error {
	for _, each := range []struct{ name, slots string }{{"1 process", "8"}, {"1 process, sharing off", "0"}} {
		b.progress("counting flushes, %s", each.name)
		before, err := b.flushed(ctx)
		if err != nil {
			return err
		}
		if before == nil {
			s.Note += " This PostgreSQL does not count flushes in pg_stat_wal."
			return nil
		}
		api, err := b.start(ctx, b.db, rig.Spec{Program: rig.APIInProcess,
			Env: []string{"DB_COMMIT_SLOTS=" + each.slots}})
		if err != nil {
			return err
		}
		result, err := generate(ctx, load.Plan{Address: api.Address, Kind: load.New, Clients: clients, Seconds: 2,
			APIKey: b.db.APIKey}, nil)
		if err != nil {
			return err
		}
		b.stopAll()
		after, err := b.flushed(ctx)
		if err != nil {
			return err
		}
		s.Lines = append(s.Lines, line(each.name+", per payment", "flushes", report.Lower,
			[]float64{float64(*after-*before) / float64(max(result.Requests, 1))}))
	}
	return nil
}

// flushed is nil where it is not counted: from version 18 on, pg_stat_wal has no such column.
func (b *bench) flushed(ctx context.Context) (n *int64, err error) {
	if _, err := meter.AtRest(ctx, b.db.Admin); err != nil {
		return nil, err
	}
	err = b.db.Admin.QueryRow(ctx, "SELECT (to_jsonb(w) ->> 'wal_sync')::bigint FROM pg_stat_wal AS w").Scan(&n)
	return n, err
}

// sizes tells what a row comes to, with its part of the indexes.
func (b *bench) sizes(ctx context.Context, s *report.Section) error {
	if err := b.db.Rest(ctx); err != nil {
		return err
	}
	for _, table := range []string{"idempotency_keys", "payments"} {
		var whole, indexes float64
		err := b.db.Admin.QueryRow(ctx, `SELECT pg_total_relation_size(oid) / greatest(reltuples, 1)::float8, pg_indexes_size(oid) / greatest(reltuples, 1)::float8
			FROM pg_class WHERE oid = $1::text::regclass`, table).Scan(&whole, &indexes)
		if err != nil {
			return fmt.Errorf("read the size of %s: %w", table, err)
		}
		s.Lines = append(s.Lines, line("a row of "+table+" with its indexes", "B", report.Lower, []float64{whole}),
			line("of that, indexes", "B", report.Lower, []float64{indexes}))
	}
	return nil
}
