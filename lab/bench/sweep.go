package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
	"payonce/lab/world"
)

// The sweep runs more often than anybody would have it, so that there is something to measure in a second.
const (
	sweepEvery    = 100 * time.Millisecond
	idleSweeps    = 10
	abandonedKeys = 1000
	sweepTook     = "took"
)

// sweep asks what the sweep costs, with nothing to do and with a thousand owners gone.
func (b *bench) sweep(ctx context.Context, s *report.Section) (err error) {
	s.Note = fmt.Sprintf("The reconciler's own sweep job, as its metric payonce_job_duration_seconds has it, among %d completed keys; the bars are meant for "+
		"10 000 000. Nothing due: the mean of %d runs. %d leases over: the run that makes their keys unknown and enqueues a job for each; lookups stand still "+
		"meanwhile, since the PSP does not answer.", b.settings.Rows, idleSweeps, abandonedKeys)
	silent, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer silent.Close()
	defer func() { err = errors.Join(err, b.db.Forget(context.WithoutCancel(ctx), rig.AbandonedMark)) }()
	defer b.stopAll() // before its keys and jobs are gone
	reconciler, err := b.start(ctx, b.db, rig.Reconciler, append(seldom(), "SWEEP_EVERY="+sweepEvery.String(),
		"PSP_URL=http://"+silent.Addr().String(), "PSP_IN_FLIGHT=7")...)
	if err != nil {
		return err
	}
	// the first ones prepare their statements
	if _, err := moreSweeps(ctx, reconciler, sweeps{}, idleSweeps); err != nil {
		return err
	}
	slices, err := b.rounds(ctx, b.settings.Rounds,
		contender{name: "sweep, nothing due", run: func(ctx context.Context) (effort, error) {
			return sweepNothing(ctx, reconciler)
		}},
		contender{name: "sweep, leases over", run: func(ctx context.Context) (effort, error) {
			return b.sweepAbandoned(ctx, reconciler)
		}})
	if err != nil {
		return err
	}
	s.Figures = append(s.Figures,
		report.Figure{What: "sweep, idle", Unit: millis, Rounds: by(slices[0], own(sweepTook)), Bar: report.AtMost(1)},
		report.Figure{What: fmt.Sprintf("sweep of %d rows, with their jobs", abandonedKeys), Unit: millis,
			Rounds: by(slices[1], own(sweepTook)), Bar: report.AtMost(50)})
	return nil
}

func sweepNothing(ctx context.Context, reconciler *world.Process) (effort, error) {
	before, err := sweepsOf(ctx, reconciler)
	if err != nil {
		return effort{}, err
	}
	after, err := moreSweeps(ctx, reconciler, before, idleSweeps)
	return effort{figures: map[string]float64{sweepTook: after.since(before).mean()}}, err
}

// sweepAbandoned has a thousand leases swept, and takes the time of the run that does it.
func (b *bench) sweepAbandoned(ctx context.Context, reconciler *world.Process) (effort, error) {
	before, err := sweepsOf(ctx, reconciler)
	if err != nil {
		return effort{}, err
	}
	if err := b.db.MakeAbandoned(ctx, abandonedKeys); err != nil {
		return effort{}, err
	}
	if err := awaitNone(ctx, b.db, "locked_until"); err != nil {
		return effort{}, err
	}
	// The run that has just committed looks once more, finds nothing, and is counted then: it is the next one that
	// ends, or has ended.
	seen, err := sweepsOf(ctx, reconciler)
	if err != nil {
		return effort{}, err
	}
	after, err := moreSweeps(ctx, reconciler, seen, 1)
	if err != nil {
		return effort{}, err
	}
	// Beside it there were a few that found nothing. What those take is known from some that follow.
	later, err := moreSweeps(ctx, reconciler, after, idleSweeps/2)
	all := after.since(before)
	took := all.millis - (all.count-1)*later.since(after).mean()
	return effort{figures: map[string]float64{sweepTook: took}}, err
}

// sweeps are the runs of the job since the reconciler has started: how many, and how long they took together.
type sweeps struct{ count, millis float64 }

func (s sweeps) since(before sweeps) sweeps {
	return sweeps{s.count - before.count, s.millis - before.millis}
}

func (s sweeps) mean() float64 { return s.millis / max(s.count, 1) }

// moreSweeps waits until n more have ended.
func moreSweeps(ctx context.Context, reconciler *world.Process, before sweeps, n float64) (now sweeps, err error) {
	err = poll(ctx, "the sweep does not run", func(ctx context.Context) (bool, error) {
		now, err = sweepsOf(ctx, reconciler)
		return now.count >= before.count+n, err
	})
	return now, err
}

// sweepsOf reads the reconciler's metrics. One that has not run yet has none. One that failed was quick, perhaps: it is
// an error.
func sweepsOf(ctx context.Context, reconciler *world.Process) (sweeps, error) {
	page, err := metricsOf(ctx, reconciler)
	if err != nil {
		return sweeps{}, err
	}
	var s sweeps
	for line := range strings.Lines(string(page)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !strings.HasPrefix(name, "payonce_job_duration_seconds_") || !strings.Contains(name, `kind="sweep"`) ||
			strings.Contains(name, "_bucket") {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
			return sweeps{}, fmt.Errorf("read the reconciler's metrics: %w", err)
		case !strings.Contains(name, `result="done"`):
			return sweeps{}, errors.New("a sweep has failed")
		case strings.Contains(name, "_count{"):
			s.count = number
		case strings.Contains(name, "_sum{"):
			s.millis = 1000 * number
		}
	}
	return s, nil
}
