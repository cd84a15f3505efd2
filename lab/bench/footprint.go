package main

import (
	"context"
	"time"

	"payonce/lab/bench/load"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

const megabytes = "MB"

// footprint asks how soon the API serves and how much memory it takes. This is the binary that people run.
func (b *bench) footprint(ctx context.Context, s *report.Section) error {
	s.Note = "The API as people run it: start on a migrated database until /readyz answers 200, resident memory."
	start := report.Line{Name: "start to the first 200", Unit: millis, Better: report.Lower}
	for range b.settings.Rounds {
		p, err := b.start(ctx, b.db, rig.Spec{Program: rig.API})
		if err != nil {
			return err
		}
		start.Keep(float64(p.Ready.Microseconds()) / 1000)
		b.stopAll()
	}
	s.Lines = append(s.Lines, start)
	s.Bars = append(s.Bars, report.Bar{What: "api start to first 200", Op: report.AtMost, Value: 150, Unit: millis,
		Prototype: "15"}.Of(start.Samples))

	api, err := b.start(ctx, b.db, rig.Spec{Program: rig.APIInProcess})
	if err != nil {
		return err
	}
	for _, each := range []struct {
		what      string
		clients   int
		atMost    float64
		prototype string
	}{{"idle", 0, 40, "14"}, {"64 clients", 64, 80, "32"}, {"1 000 connections", 1000, 150, "82"}} {
		held, err := b.residentUnder(ctx, api, each.clients)
		if err != nil {
			return err
		}
		s.Lines = append(s.Lines, line("resident memory, "+each.what, megabytes, report.Lower, []float64{held}))
		s.Bars = append(s.Bars, report.Bar{What: "RSS, " + each.what, Op: report.AtMost, Value: each.atMost,
			Unit: megabytes, Prototype: each.prototype}.Of([]float64{held}))
	}
	return nil
}

// residentUnder is the most memory that was seen while so many clients were at work.
func (b *bench) residentUnder(ctx context.Context, api *rig.Process, clients int) (float64, error) {
	b.progress("memory with %d clients", clients)
	done := make(chan error, 1)
	if clients == 0 {
		done <- nil
	} else {
		go func() {
			plan := load.Plan{Address: api.Address, Kind: load.New, Clients: clients,
				Seconds: b.settings.slice().Seconds(), APIKey: b.db.APIKey}
			_, err := generate(ctx, plan, nil)
			done <- err
		}()
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	most := 0.0
	for {
		held, err := b.meter.Memory(api.PID)
		if err != nil {
			return 0, err
		}
		most = max(most, float64(held.RSS)/1e6)
		select {
		case err := <-done:
			return most, err
		case <-tick.C:
		}
	}
}
