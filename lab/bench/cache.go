package main

import (
	"context"
	"errors"
	"fmt"

	"payonce/lab/bench/load"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

// cacheKeys is how many keys are replayed. All of them are kept before anything is measured: this is the best case for
// who keeps.
const cacheKeys = 10_000

// cached is what the section compares.
type cached struct {
	redis *rig.Redis
	ways  []way
	keys  []string
}

// way is one way to answer a replay. The first is the product's, the second Redis.
type way struct {
	name, cache string // what BENCH_CACHE says
	api         *rig.Process
}

// cache asks what a read-through of replays would gain. The product has none.
func (b *bench) cache(ctx context.Context, s *report.Section) error {
	s.Note = fmt.Sprintf("Replays of %d loaded keys, answered before the reservation where the final answer is kept: by Redis, or in the process's memory; or by "+
		"a SELECT that comes first. An experiment (go build -overlay) in its best case: all is kept, a Unix socket, no persistence, requests that wait "+
		"go together, nobody waits for a SET.", cacheKeys)
	if !rig.HasRedis() {
		s.Note += " Not run: there is no redis-server. To have one: apt-get install redis-server."
		return nil
	}
	if b.settings.Only == "" {
		defer func(whole settings) { b.settings = whole }(b.settings)
		b.settings.Rounds = min(b.settings.Rounds, 3)
	}
	c, err := b.startCached(ctx, s)
	if err != nil {
		return err
	}
	if err := b.prime(ctx, s, c); err != nil {
		return err
	}
	few, err := b.replayEachWay(ctx, s, c, 8, c.ways)
	if err != nil {
		return err
	}
	if _, err := b.replayEachWay(ctx, s, c, 64, c.ways[:2]); err != nil {
		return err
	}
	plan := load.Plan{Kind: load.New, Clients: 8, APIKey: b.db.APIKey, Seconds: b.cacheSlice()}
	slices, err := b.rounds(ctx, b.loaded("new without", c.ways[0].api, plan),
		b.loaded("new with Redis", c.ways[1].api, plan))
	if err != nil {
		return err
	}
	c.tellNew(s, slices, few)
	return nil
}

// cacheSlice is short: there are many.
func (b *bench) cacheSlice() float64 {
	if b.settings.Only == "" {
		return 0.5
	}
	return b.settings.slice().Seconds()
}

func (b *bench) startCached(ctx context.Context, s *report.Section) (c cached, err error) {
	b.progress("building the API with a read-through")
	if err := b.rig.BuildReadThrough(ctx); err != nil {
		return c, err
	}
	if c.redis, err = b.rig.StartRedis(ctx); err != nil {
		return c, err
	}
	b.running = append(b.running, c.redis.Process)
	s.Note += " Redis " + c.redis.Version + "."
	c.ways = []way{
		{name: "without"}, {name: "with Redis", cache: c.redis.Address}, {name: "from memory", cache: "memory"},
		{name: "by SELECT first", cache: "select"},
	}
	for i, w := range c.ways {
		spec := rig.Spec{Program: rig.APIReadThrough, Args: []string{"serve"}, Env: []string{"BENCH_CACHE=" + w.cache}}
		if w.cache == "" {
			spec = rig.Spec{Program: rig.APIInProcess}
		}
		if c.ways[i].api, err = b.start(ctx, b.db, spec); err != nil {
			return c, err
		}
	}
	c.keys = keysOf(b.settings.Rows)
	c.keys = c.keys[:min(len(c.keys), cacheKeys)]
	return c, nil
}

// prime warms up (see warmUp; there are many, and no time), has every key kept, and sees that what is kept is answered
// as the database would.
func (b *bench) prime(ctx context.Context, s *report.Section, c cached) error {
	for _, w := range c.ways {
		plan := load.Plan{Address: w.api.Address, Kind: load.New, Clients: 64, Seconds: 0.3, APIKey: b.db.APIKey}
		if _, err := generate(ctx, plan, nil); err != nil {
			return err
		}
	}
	before, err := c.redis.Counters(ctx)
	if err != nil {
		return err
	}
	b.progress("having %d answers kept", len(c.keys))
	for _, w := range c.ways[1:3] {
		plan := load.Plan{Address: w.api.Address, Kind: load.Replay, KeyList: c.keys, Clients: 8,
			Requests: int64(len(c.keys)), Seconds: 30, APIKey: b.db.APIKey}
		if _, err := generate(ctx, plan, nil); err != nil {
			return err
		}
	}
	after, err := c.redis.Counters(ctx)
	if err != nil {
		return err
	}
	size := float64(after.Memory-before.Memory) / float64(max(after.Keys-before.Keys, 1))
	s.Lines = append(s.Lines, line("an answer in Redis", "B", report.Lower, []float64{size}))
	return b.sameAnswers(ctx, c)
}

// replayEachWay lets the ways take turns at replays.
func (b *bench) replayEachWay(
	ctx context.Context, s *report.Section, c cached, clients int, ways []way,
) ([][]taken, error) {
	plan := load.Plan{Kind: load.Replay, KeyList: c.keys, Clients: clients, APIKey: b.db.APIKey,
		Seconds: b.cacheSlice()}
	contenders := make([]contender, len(ways))
	for i, w := range ways {
		contenders[i] = b.loaded("replay "+w.name, w.api, plan)
	}
	contenders[1] = c.hitting(contenders[1])
	slices, err := b.rounds(ctx, contenders...)
	if err != nil {
		return nil, err
	}
	return slices, c.tellReplays(s, clients, slices)
}

// hitting has a contender's requests answered by Redis, nearly all: a miss that nobody notices would be measured as if
// it were a hit.
func (c cached) hitting(of contender) contender {
	run := of.run
	of.run = func(ctx context.Context) (effort, error) {
		before, err := c.redis.Counters(ctx)
		if err != nil {
			return effort{}, err
		}
		done, err := run(ctx)
		if err != nil {
			return effort{}, err
		}
		after, err := c.redis.Counters(ctx)
		if hits := after.Hits - before.Hits; err == nil && float64(hits) < 0.99*done.requests {
			err = fmt.Errorf("%.0f replays were %d hits and %d misses in Redis", done.requests, hits,
				after.Misses-before.Misses)
		}
		return done, err
	}
	return of
}

func (c cached) tellReplays(s *report.Section, clients int, slices [][]taken) error {
	name := func(way string) string { return fmt.Sprintf("%2d clients: replay %s", clients, way) }
	for i, way := range c.ways[:len(slices)] {
		s.Lines = append(s.Lines,
			line(name(way.name), perSecondReplays, report.Higher, by(slices[i], rate)),
			line(name(way.name+", p50"), millis, report.Lower, by(slices[i], p50)),
			line(name(way.name+": API"), cpuMicros, report.Lower, by(slices[i], programCPU)),
			line(name(way.name+": PostgreSQL"), cpuMicros, report.Lower, by(slices[i], pgCPU)))
	}
	s.Lines = append(s.Lines, line(name("with Redis: Redis"), cpuMicros, report.Lower, by(slices[1], c.redisCPU)))
	for i, way := range c.ways[1:len(slices)] {
		s.Ratios = append(s.Ratios,
			report.PairUp(name(way.name+" ÷ without"), by(slices[i+1], rate), by(slices[0], rate)),
			report.PairUp(name(way.name+" ÷ without, CPU"), by(slices[i+1], c.serverCPU), by(slices[0], c.serverCPU)))
	}
	if len(slices) < len(c.ways) {
		return nil
	}
	// Memory counts no hits that could be asked for, but it leaves PostgreSQL next to nothing to do.
	usual, kept := line("", "", "", by(slices[0], pgCPU)).Summary()
	if spent, also := line("", "", "", by(slices[2], pgCPU)).Summary(); kept && also && spent.Median > usual.Median/5 {
		return errors.New("replays from memory kept PostgreSQL busy: they were not answered from there")
	}
	return nil
}

// tellNew tells what Redis costs a new payment, and how many replays have to come for each until that is made up for.
func (c cached) tellNew(s *report.Section, slices, replays [][]taken) {
	const name = " 8 clients: "
	for i, way := range c.ways[:2] {
		s.Lines = append(s.Lines,
			line(name+"new "+way.name, perSecond, report.Higher, by(slices[i], rate)),
			line(name+"new "+way.name+", p50", millis, report.Lower, by(slices[i], p50)),
			line(name+"new "+way.name+": API", cpuMicros, report.Lower, by(slices[i], programCPU)),
			line(name+"new "+way.name+": PostgreSQL", cpuMicros, report.Lower, by(slices[i], pgCPU)))
	}
	s.Lines = append(s.Lines, line(name+"new with Redis: Redis", cpuMicros, report.Lower, by(slices[1], c.redisCPU)))
	without, with := by(slices[0], c.serverCPU), by(slices[1], c.serverCPU)
	s.Ratios = append(s.Ratios, report.PairUp(name+"new with Redis ÷ without", by(slices[1], rate),
		by(slices[0], rate)),
		report.PairUp(name+"new with Redis ÷ without, CPU", with, without),
		report.PairUp("replays per payment that make up for Redis, CPU",
			less(with, without), less(by(replays[0], c.serverCPU), by(replays[1], c.serverCPU))))
}

// less is a − b, round by round. A round of which one side was dropped stays dropped.
func less(a, b []float64) []float64 {
	difference := make([]float64, min(len(a), len(b)))
	for i := range difference {
		difference[i] = a[i] - b[i]
	}
	return difference
}

func (c cached) redisCPU(t taken) float64 { return t.each[c.redis.PID] }

// serverCPU is what all that serve have spent on a request.
func (c cached) serverCPU(t taken) float64 { return t.program + t.pg + c.redisCPU(t) }
