package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"payonce/internal/payments"
	"payonce/lab/bench/pgbench"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

const perSecondKeys = "keys/s"

// Each round of the resolution: its keys last for two seconds or so, and its rounds are few, since every one has its
// keys made.
const (
	unknownKeys   = 6000
	warmingKeys   = 300
	resolveRounds = 3
	resolveLimit  = time.Minute
)

// resolve asks how fast the reconciler closes what a PSP that had broken down has left open.
func (b *bench) resolve(ctx context.Context, s *report.Section) error {
	n := unknownKeys
	if b.settings.Quick {
		n /= 2
	}
	s.Note = fmt.Sprintf("%d unknown keys, all due, and the reconciler as people run it, started on them: claimed, looked up at a PSP over loopback HTTP, "+
		"completed. By the database's clock, from the first completion to the last; CPU with the process's start. Beside it: pgbench with the SQL of new payments, 1 client.", n)
	psp, err := b.rig.PSP()
	if err != nil {
		return err
	}
	b.running = append(b.running, psp)
	if err := b.warmUpQueue(ctx, b.db, psp); err != nil {
		return err
	}
	script, err := pgbench.NewPayment(b.queries, b.sample)
	if err != nil {
		return err
	}
	var paid, resolved []taken
	rounds := min(b.settings.Rounds, resolveRounds)
	for round := range rounds {
		c := b.scripted(b.db, script, 1)
		b.progress("%s, 1 client, round %d of %d", c.name, round+1, rounds)
		t, err := b.slice(ctx, c)
		if err != nil {
			return err
		}
		paid = append(paid, t)
		b.progress("resolving %d keys, round %d of %d", n, round+1, rounds)
		if t, err = b.resolving(ctx, b.db, psp, n); err != nil {
			return err
		}
		resolved = append(resolved, t)
	}
	ratio := report.PairUp("resolved ÷ pgbench's new payments with 1 client", by(resolved, rate), by(paid, rate))
	s.Lines = append(s.Lines,
		line("pgbench, new payments, 1 client", perSecond, report.Higher, by(paid, rate)),
		line("unknown → final", perSecondKeys, report.Higher, by(resolved, rate)),
		line("reconciler", cpuMicros, report.Lower, by(resolved, clientCPU)),
		line("PostgreSQL", cpuMicros, report.Lower, by(resolved, pgCPU)),
		line("PSP", cpuMicros, report.Lower, by(resolved, func(t taken) float64 { return t.each[psp.PID] })))
	s.Ratios = append(s.Ratios, ratio)
	s.Bars = append(s.Bars, report.Bar{
		What: "unknown → final ÷ pgbench's new payments, 1 client", Op: report.AtLeast, Value: 2.3,
	}.Of(ratio.Samples()))
	return nil
}

// resolving is the slice in which a reconciler resolves n keys, made for this. It begins and ends within the slice, so
// that its CPU is that of a child that has ended.
func (b *bench) resolving(ctx context.Context, d *rig.Database, psp *rig.Process, n int) (taken, error) {
	lost, err := d.MakeUnknown(ctx, n)
	if err != nil {
		return taken{}, err
	}
	return b.resolvingThese(ctx, d, psp, lost)
}

func (b *bench) resolvingThese(ctx context.Context, d *rig.Database, psp *rig.Process, lost []rig.Lost) (taken, error) {
	charges, err := b.chargesOf(ctx, d, lost)
	if err != nil {
		return taken{}, err
	}
	if err := psp.Preload(ctx, charges); err != nil {
		return taken{}, err
	}
	return b.slice(ctx, contender{run: func(ctx context.Context) (effort, error) {
		reconciler, err := d.Run(ctx, rig.Spec{Program: rig.Reconciler, Args: []string{"run"}, Env: append(seldom(),
			"PSP_URL=http://"+psp.Address, "PSP_IN_FLIGHT=303", "CLAIM_EVERY=1s")})
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
func (b *bench) warmUpQueue(ctx context.Context, d *rig.Database, psp *rig.Process) error {
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

// chargesOf is what a PSP knows that has charged for each of the keys.
func (b *bench) chargesOf(ctx context.Context, d *rig.Database, lost []rig.Lost) ([]byte, error) {
	var account string
	if err := d.Admin.QueryRow(ctx, "SELECT psp_account FROM tenants WHERE id = $1",
		b.sample.Tenant).Scan(&account); err != nil {
		return nil, fmt.Errorf("read the tenant's account: %w", err)
	}
	var lines bytes.Buffer
	out := json.NewEncoder(&lines)
	for _, l := range lost {
		err := out.Encode(map[string]any{
			// The client's key is the one that was sent on: this is its first generation.
			"account": account, "idempotencyKey": l.Key, "reference": payments.PaymentID(l.Payment).String(),
			"amountCents": b.sample.AmountMinor, "currency": b.sample.Currency, "paymentMethod": b.sample.PaymentMethod,
		})
		if err != nil {
			return nil, err
		}
	}
	return lines.Bytes(), nil
}

// awaitNone waits until no key has the column set, of which each has an index.
func awaitNone(ctx context.Context, d *rig.Database, column string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, resolveLimit, errors.New("the reconciler does not come to an end"))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var left bool
		if err := d.Admin.QueryRow(ctx, "SELECT EXISTS (SELECT FROM idempotency_keys WHERE "+column+
			" IS NOT NULL)").Scan(&left); err != nil {
			return err
		}
		if !left {
			return nil
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
