package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"sync"
	"time"

	"payonce/lab/chaos/crowd"
	"payonce/lab/chaos/nemesis"
	"payonce/lab/chaos/plan"
	"payonce/lab/merchant"
	"payonce/lab/program"
	"payonce/lab/world"
)

// verdict saves the report, and fails where Payonce does. That the wrong way fails is what it is for.
func verdict(s settings, r *report) error {
	if err := r.save(s.Report); err != nil {
		return err
	}
	if r.Target == payonce && len(r.Violations) > 0 {
		return fmt.Errorf("%d violations; SEED=%d has the same clients, blows and rates again", len(r.Violations), s.Seed)
	}
	return nil
}

// storm is one run: everything up, the storm, the calm, the verdict.
func storm(ctx context.Context, s settings, stderr io.Writer) (_ *report, err error) {
	began := time.Now()
	say := func(line string) { fmt.Fprintf(stderr, "%6.1fs  %s\n", time.Since(began).Seconds(), line) }
	say(fmt.Sprintf("%s, PSP=%s, SEED=%d", s.Target, s.PSP, s.Seed))
	g, err := open(ctx, s, say)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	without, err := s.without()
	if err != nil {
		return nil, err
	}
	r := &trial{stage: g, settings: s, without: without,
		report: &report{Lab: "chaos", Target: s.Target, PSP: s.PSP, Seed: s.Seed}}
	r.prepare()
	defer r.closeMerchants()
	if err = r.openMerchants(ctx); err == nil {
		err = r.storm(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, g.keepEvidence()) // the logs say why
	}
	r.calm(ctx)
	if err := r.judge(ctx); err != nil {
		return nil, err
	}
	return r.report, r.cleanUp()
}

// trial is a storm and what belongs to it.
type trial struct {
	stage     *stage
	settings  settings
	without   []plan.BlowKind
	crowd     *crowd.Crowd
	merchants *merchant.Merchants // nil: nobody wants events
	nemesis   *nemesis.Nemesis
	sampler   *sampler
	report    *report

	mu sync.Mutex // guards the report's violations until the calm
}

// complain notes what is none of the invariants, and what the nemesis could not undo.
func (r *trial) complain(where, detail string) {
	if r.settings.Target == naive {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.violate("case", where, detail)
}

func (r *trial) prepare() {
	g, p := r.stage, r.settings.plan()
	o := crowd.Options{
		Plan: p, APIs: g.addresses(func(p *world.Process) string { return p.Address }), Keys: g.keys,
		PSP: g.world.PSP.Address, PSPSecret: world.PSPSecret, Account: g.world.Account, Stripe: g.world.Stripe(),
		PerSecond: r.settings.Rate, Recorder: g.recorder, Tally: g.tally, Complain: r.complain,
	}
	if r.settings.Target == naive {
		o.Only = []plan.Kind{plan.Pay, plan.Wait, plan.Async, plan.HangUp, plan.Race, plan.Twins, plan.LieAtOnce,
			plan.Lie, plan.Reuse}
	} else {
		if r.settings.Servers.Can(world.EndKeys) {
			o.Retention = retention
		}
		o.Operators, o.OperatorKey = g.addresses(func(p *world.Process) string { return p.Operator }),
			g.site.Keys.Operator
	}
	r.crowd = crowd.New(o)
	r.nemesis = nemesis.New(nemesis.Options{
		Plan: p, Site: g.site, World: g.world, APIs: g.apis, Reconcilers: g.reconcilers, Spare: r.settings.Quick,
		Recorder: g.recorder, Tally: g.tally, Say: g.say,
		Failed: func(where, detail string) { r.complain(where, detail) },
	})
	r.sampler = newSampler(g, p.Mix())
}

// storm lasts as long as it is set to, and then everything is up again, and the PSP without faults.
func (r *trial) storm(ctx context.Context) error {
	if err := r.sampler.setFaults(ctx, r.sampler.mix); err != nil {
		return err
	}
	length := r.settings.Duration
	blows := r.settings.plan().Blows(length, r.without...)
	r.stage.say(fmt.Sprintf("the storm: %s, %d blows", length, len(blows)))
	storming, end := context.WithTimeout(ctx, length)
	defer end()
	began := time.Now()
	var running sync.WaitGroup
	running.Go(func() { r.crowd.Run(storming) })
	running.Go(func() { r.nemesis.Run(storming, blows) })
	running.Go(func() { r.nemesis.Watch(storming) })
	running.Go(func() { r.sampler.run(storming) })
	running.Go(func() { r.progress(storming) })
	if r.settings.Target == payonce {
		running.Go(func() { r.crowd.Operate(storming) })
		running.Go(func() { r.crowd.LieToOperators(storming) })
		running.Go(func() { r.reconcileDays(storming) })
		running.Go(func() { r.crowd.PayElsewhere(storming) })
		running.Go(func() { r.crowd.ActElsewhere(storming) })
		running.Go(func() { r.merchants.Follow(storming) })
	}
	<-storming.Done()
	r.nemesis.Heal(context.WithoutCancel(ctx))
	running.Wait()
	r.nemesis.Heal(context.WithoutCancel(ctx))
	r.report.Seconds = seconds(time.Since(began))
	r.report.Requests = len(r.stage.recorder.Operations())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := r.sampler.setFaults(ctx, r.settings.plan().Calm()); err != nil {
		return err
	}
	r.stage.say("the storm is over")
	return nil
}

const progressEvery = 10 * time.Second

func (r *trial) progress(ctx context.Context) {
	t := r.stage.tally
	for program.Wait(ctx, progressEvery) {
		r.stage.say(fmt.Sprintf("%d answers, %d of them 201; %d without one; %d blows, %d kills, %d dead letters closed",
			t.Sum("answer"), t.Of("answer", "201"), t.Of("answer", "none"), t.Sum("blow"), t.Sum("kill -9"),
			t.Sum("dead letter closed")))
	}
}

// cleanUp keeps what a run has left if it has failed, or if that was asked for.
func (r *trial) cleanUp() error {
	if len(r.report.Violations) == 0 && r.settings.Keep == "" {
		return os.RemoveAll(r.stage.keep)
	}
	r.report.Kept = r.stage.keep
	return r.stage.keepEvidence()
}

// count takes over what was counted.
func (r *trial) count() { r.report.Counts = maps.Clone(r.stage.tally.All()) }
