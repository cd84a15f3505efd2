package main

import (
	"context"
	"fmt"
	"math"

	"payonce/lab/bench/load"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

// delayedPSP asks what Payonce adds to a PSP that takes its time, and how it answers below its limit.
func (b *bench) delayedPSP(ctx context.Context, s *report.Section) error {
	ms := b.settings.PSPms
	s.Note = fmt.Sprintf("A PSP that takes %d ms, 64 clients. The open loop sends at half the rate that 64 clients can reach, and counts from when a request was "+
		"due: the bars are about that one. In the closed loop all clients come back at once, and wait for each other.", ms)
	const clients = 64
	api, err := b.start(ctx, b.db, rig.Spec{Program: rig.APIInProcess, Env: []string{
		fmt.Sprintf("BENCH_PSP_MS=%d", ms), fmt.Sprintf("PSP_IN_FLIGHT=%d", 3*(clients+1)), // one account holds a third
	}})
	if err != nil {
		return err
	}
	if err := b.warmUp(ctx, api, b.db); err != nil {
		return err
	}
	plan := load.Plan{Kind: load.New, Clients: clients, APIKey: b.db.APIKey}
	open := plan
	open.Rate = math.Floor(0.5 * clients * 1000 / float64(max(ms, 10)))
	slices, err := b.roundsOf(ctx, b.settings.few(), b.loaded("slow PSP, closed loop", api, plan),
		b.loaded("slow PSP, open loop", api, open))
	if err != nil {
		return err
	}
	added := func(figure func(taken) float64) func(taken) float64 {
		return func(t taken) float64 { return figure(t) - float64(ms) }
	}
	s.Lines = append(s.Lines,
		line("closed loop", perSecond, report.Higher, by(slices[0], rate)),
		line("closed loop, added to the PSP, p50", millis, report.Lower, by(slices[0], added(p50))),
		line("closed loop, added to the PSP, p99", millis, report.Lower, by(slices[0], added(p99))),
		line(fmt.Sprintf("open loop at %.0f/s, added to the PSP, p50", open.Rate), millis, report.Lower,
			by(slices[1], added(p50))),
		line(fmt.Sprintf("open loop at %.0f/s, added to the PSP, p99", open.Rate), millis, report.Lower,
			by(slices[1], added(p99))))
	s.Bars = append(s.Bars,
		report.Bar{What: "added to a slow PSP, 64 connections, p50", Op: report.AtMost, Value: 3, Unit: millis,
			Prototype: "1.9"}.Of(samples(by(slices[1], added(p50)))),
		report.Bar{What: "added to a slow PSP, 64 connections, p99", Op: report.AtMost, Value: 10, Unit: millis,
			Prototype: "6.7"}.Of(samples(by(slices[1], added(p99)))))
	return nil
}

// race asks whether a crowd on one key is slower than the same crowd on keys of its own.
func (b *bench) race(ctx context.Context, s *report.Section) error {
	s.Note = "200 requests at once, with one key or with 200, until the last is answered."
	const racers = 200
	api, err := b.start(ctx, b.db, rig.Spec{Program: rig.APIInProcess})
	if err != nil {
		return err
	}
	if err := b.warmUp(ctx, api, b.db); err != nil {
		return err
	}
	plan := func(kind load.Kind) load.Plan {
		return load.Plan{Kind: kind, Racers: racers, Rounds: 20, Seconds: 30, APIKey: b.db.APIKey}
	}
	slices, err := b.roundsOf(ctx, b.settings.few(), b.loaded("200 racers, one key", api, plan(load.Same)),
		b.loaded("200 racers, 200 keys", api, plan(load.Apart)))
	if err != nil {
		return err
	}
	ratio := report.PairUp("200 racers on one key ÷ 200 on 200 keys, time", by(slices[0], p50), by(slices[1], p50))
	s.Lines = append(s.Lines, line("200 racers, one key", millis, report.Lower, by(slices[0], p50)),
		line("200 racers, 200 keys", millis, report.Lower, by(slices[1], p50)))
	s.Ratios = append(s.Ratios, ratio)
	s.Bars = append(s.Bars, report.Bar{What: "200 racers on one key ÷ 200 on 200 keys, time", Op: report.AtMost,
		Value: 1}.Of(ratio.Samples()))
	return nil
}
