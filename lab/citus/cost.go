package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"payonce/lab/bench/load"
	"payonce/lab/bench/meter"
	"payonce/lab/program"
	"payonce/lab/world"
)

const (
	costSeconds = 15.0
	costWarmUp  = 4.0
)

// cost prints what a new payment takes on one server and on Citus: how long a client waits, and the CPU of each server.
// All share this machine, so the ratios say what Citus costs, and nothing says how fast it is.
func cost(ctx context.Context, root string, stdout, stderr io.Writer) error {
	m, err := meter.New()
	if err != nil {
		return err
	}
	dir, err := program.TempDir("citus")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	programs, err := world.Build(ctx, root, filepath.Join(dir, "bin"), nil)
	if err != nil {
		return err
	}
	for _, citus := range []bool{false, true} {
		if err := costOf(ctx, m, world.Options{
			Programs: programs, Dir: filepath.Join(dir, fmt.Sprint(citus)), Citus: citus,
			Say: func(line string) { fmt.Fprintln(stderr, line) },
		}, stdout); err != nil {
			return err
		}
	}
	return nil
}

func costOf(ctx context.Context, m *meter.Meter, o world.Options, stdout io.Writer) (err error) {
	if err := os.Mkdir(o.Dir, 0o755); err != nil {
		return err
	}
	site, err := world.Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.Close()) }()
	w, err := site.New(ctx, world.Plan{Env: map[string]string{"DB_STATEMENT_TIMEOUT": "12s"},
		NoWebhooks: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	api, err := w.StartAPI(ctx, "api-1")
	if err != nil {
		return err
	}
	for _, clients := range []int{1, 16} {
		// By itself, as the meter is to count the measured time only.
		plan := load.Plan{Address: api.Address, Kind: load.New, Clients: clients, Seconds: costWarmUp,
			APIKey: w.Keys.Acme}
		if _, err := load.Run(ctx, plan); err != nil {
			return err
		}
		before, err := cpu(m, site.Servers())
		if err != nil {
			return err
		}
		plan.Seconds = costSeconds
		r, err := load.Run(ctx, plan)
		if err != nil {
			return err
		}
		after, err := cpu(m, site.Servers())
		if err != nil {
			return err
		}
		if r.Requests == 0 || r.Unexpected+r.Lost > 0 {
			return fmt.Errorf("%d answers, %d unexpected, %d lost: %s", r.Requests, r.Unexpected, r.Lost,
				r.FirstUnexpected)
		}
		var each []string
		var all time.Duration
		for _, name := range slices.Sorted(maps.Keys(after)) {
			used := after[name] - before[name]
			all += used
			each = append(each, fmt.Sprintf("%s %.2f", name, perPayment(used, r.Requests)))
		}
		if _, err := fmt.Fprintf(stdout,
			"citus %t, %d clients: %d payments, p50 %.1f ms; ms of CPU per payment: %s; all %.2f\n",
			o.Citus, clients, r.Requests, r.P50Micros/1000, strings.Join(each, ", "), perPayment(
				all, r.Requests)); err != nil {
			return err
		}
	}
	return nil
}

func perPayment(used time.Duration, payments int64) float64 {
	return used.Seconds() * 1000 / float64(payments)
}

func cpu(m *meter.Meter, pids map[string]int) (map[string]time.Duration, error) {
	used := map[string]time.Duration{}
	for name, pid := range pids {
		var err error
		if used[name], err = m.Tree(name, pid).CPU(); err != nil {
			return nil, err
		}
	}
	return used, nil
}
