package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"payonce/lab/bench/pgbench"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

const keysUnit = "keys/s"

const (
	unknownKeys  = 6000 // of a round, which lasts for two seconds or so
	warmingKeys  = 300
	resolveLimit = time.Minute
)

// resolve asks how fast the reconciler closes what a PSP that had broken down has left open.
func (b *bench) resolve(ctx context.Context, s *report.Section) error {
	s.Note = fmt.Sprintf("%d unknown keys, all due, and the reconciler as people run it, started on them: claimed, looked up at a PSP over loopback HTTP, "+
		"completed. By the database's clock, from the first completion to the last; CPU with the process's start. Beside it: pgbench with the SQL of new payments, 1 client.", unknownKeys)
	script, err := pgbench.NewPayment(b.queries, b.sample)
	if err != nil {
		return err
	}
	psp, err := rig.StartPSP(b.sample)
	if err != nil {
		return err
	}
	defer psp.Close()
	if err := b.warmUpQueue(ctx, b.db, psp); err != nil {
		return err
	}
	var paid, resolved []taken
	for round := range b.settings.few() {
		slices, err := b.rounds(ctx, 1, b.scripted(b.db, script, 1))
		if err != nil {
			return err
		}
		paid = append(paid, slices[0]...)
		b.progress("resolving %d keys, round %d of %d", unknownKeys, round+1, b.settings.few())
		t, err := b.resolving(ctx, b.db, psp, unknownKeys)
		if err != nil {
			return err
		}
		resolved = append(resolved, t)
	}
	tell(s, "pgbench, new payments, 1 client", paymentsUnit, paid)
	tell(s, "unknown → final", keysUnit, resolved)
	s.Figures = append(s.Figures, report.Figure{What: "reconciler", Unit: cpuMicros,
		Rounds: by(resolved, func(t taken) float64 { return t.ended })})
	compare(s, "unknown → final ÷ pgbench's new payments, 1 client", resolved, paid, rate, report.AtLeast(2.3))
	return nil
}

// resolving is the slice in which a reconciler resolves n keys, lost for this. It begins and ends within the slice, so
// that its CPU is that of a child that has ended.
func (b *bench) resolving(ctx context.Context, d *rig.Database, psp *rig.PSP, n int) (taken, error) {
	lost, err := d.Lose(ctx, n)
	if err != nil {
		return taken{}, err
	}
	psp.Charge(lost)
	return b.slice(ctx, contender{run: func(ctx context.Context) (effort, error) {
		// RESOLVE_WORKERS is for earlier commits, which do not derive it from PSP_IN_FLIGHT.
		reconciler, err := d.Run(ctx, rig.Reconciler, append(seldom(),
			"PSP_URL="+psp.URL, "RESOLVE_WORKERS=100", "PSP_IN_FLIGHT=303", "CLAIM_EVERY=1s")...)
		if err != nil {
			return effort{}, err
		}
		defer reconciler.Stop()
		if err := awaitNone(ctx, d, "reconcile_after"); err != nil {
			return effort{}, err
		}
		reconciler.Stop()
		perSecond, err := b.resolvedPerSecond(ctx, d, lost)
		return effort{perSecond: perSecond, requests: float64(len(lost))}, err
	}})
}

// warmUpQueue has some keys resolved that do not count, and the queue's table analysed with their jobs in it: as long
// as PostgreSQL takes it for empty, it reads all of it for each fetch. Nobody else does that here: autovacuum is off.
func (b *bench) warmUpQueue(ctx context.Context, d *rig.Database, psp *rig.PSP) error {
	b.progress("warming up the queue")
	if _, err := b.resolving(ctx, d, psp, warmingKeys); err != nil {
		return err
	}
	return d.Rest(ctx)
}

// seldom keeps the reconciler's schedule out of the way of what is measured.
func seldom() []string {
	return []string{"SWEEP_EVERY=1h", "CLAIM_EVERY=1h", "SCAN_EVERY=1h", "PRUNE_EVERY=1h", "SCAN_OVERLAP=2h"}
}

// awaitNone waits until no key has the column set, of which each has an index.
func awaitNone(ctx context.Context, d *rig.Database, column string) error {
	return poll(ctx, "the reconciler does not come to an end", func(ctx context.Context) (done bool, err error) {
		err = d.Admin.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM idempotency_keys WHERE "+column+
			" IS NOT NULL)").Scan(&done)
		return done, err
	})
}

// poll asks again and again until it is done, or for too long.
func poll(ctx context.Context, problem string, ask func(context.Context) (done bool, err error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, resolveLimit, errors.New(problem))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if done, err := ask(ctx); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// resolvedPerSecond is by the times that the completions have. A key that came to anything else than its charge is an
// error: that is quick, too.
func (b *bench) resolvedPerSecond(ctx context.Context, d *rig.Database, lost []rig.Lost) (float64, error) {
	keys := make([]string, len(lost))
	for i, l := range lost {
		keys[i] = l.Key
	}
	var right int
	var seconds float64
	err := d.Admin.QueryRow(ctx, `SELECT count(*), coalesce(extract(epoch FROM max(k.finished_at) - min(k.finished_at)), 0)::float8
		FROM idempotency_keys AS k JOIN payments AS p ON p.id = k.subject
		WHERE k.key = ANY ($1) AND k.status = 'completed' AND p.status = 'succeeded'`, keys).Scan(&right, &seconds)
	switch {
	case err != nil:
		return 0, fmt.Errorf("read when the keys were completed: %w", err)
	case right != len(lost) || seconds <= 0:
		return 0, fmt.Errorf("%d of %d keys were completed with their charge", right, len(lost))
	}
	return float64(right) / seconds, nil
}
