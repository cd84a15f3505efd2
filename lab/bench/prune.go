package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/postgres"
	"payonce/lab/bench/load"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

const (
	pruneBatch  = 1000 // as in internal/reconcile/prune.go
	pruneRounds = 4
	// payingAtMost is for a pruner that has got stuck.
	payingAtMost = 600
	prunedMost   = 1_000_000
	prunedSome   = 100_000 // where the table has less than prunedMost
)

// The figures of a round.
const (
	expireTook, deleteTook = "expire", "delete" // seconds for 100 000 keys
	paidQuiet              = "quiet"            // payments per second
	paidExpiring           = "while expiring"
	paidDeleting           = "while deleting"
	paidPruning            = "while pruning"
)

// prune asks what pruning takes from those who pay meanwhile, and how long it takes under them.
func (b *bench) prune(ctx context.Context, s *report.Section) (err error) {
	n := prunedSome
	if b.settings.Rows >= prunedMost {
		n = prunedMost
	}
	rounds := min(b.settings.Rounds, pruneRounds)
	s.Note = fmt.Sprintf("The pruner's two walks over %d keys each, in batches of %d without a pause, while 8 clients make payments: marking as expired, then "+
		"deleting what was marked a month ago. Payments are counted by their ids, which tell the time, within the walks and just before and after them. "+
		"The reconciler itself rests between runs: 100 000 keys at most, every PRUNE_EVERY.", n, pruneBatch)
	b.progress("making %d keys that are due", 2*n)
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, b.db.Forget(ctx, rig.OverMark), b.db.Forget(ctx, rig.GoneMark))
	}()
	if err := b.db.MakePrunable(ctx, n); err != nil {
		return err
	}
	if err := b.db.Settle(ctx); err != nil {
		return err
	}
	keys, done, err := b.keys(ctx)
	if err != nil {
		return err
	}
	defer done()
	api, err := b.start(ctx, b.db, rig.Spec{Program: rig.APIInProcess})
	if err != nil {
		return err
	}
	if err := b.warmUp(ctx, api, b.db); err != nil {
		return err
	}
	slices, err := b.roundsOf(ctx, rounds, contender{name: "pruning while paying", process: api, run: func(ctx context.Context) (effort, error) {
		return b.pruneWhilePaying(ctx, api, keys, n/rounds/pruneBatch*pruneBatch)
	}})
	if err != nil {
		return err
	}
	tellPruning(s, slices[0])
	return nil
}

func tellPruning(s *report.Section, slices []taken) {
	const per = "s/100000-keys"
	expire, remove := line("marked as expired", per, report.Lower, by(slices, figure(expireTook))), line("deleted", per, report.Lower, by(slices, figure(deleteTook)))
	s.Lines = append(s.Lines, expire, remove, line("API, nobody prunes", perSecond, report.Higher, by(slices, figure(paidQuiet))),
		line("API, while keys are marked", perSecond, report.Higher, by(slices, figure(paidExpiring))),
		line("API, while keys are deleted", perSecond, report.Higher, by(slices, figure(paidDeleting))))
	kept := report.PairUp("API while pruning ÷ before and after", by(slices, figure(paidPruning)), by(slices, figure(paidQuiet)))
	s.Ratios = append(s.Ratios, kept)
	s.Bars = append(s.Bars,
		report.Bar{What: "100 000 keys marked as expired while paying", Op: report.AtMost, Value: 0.6, Unit: "s"}.Of(expire.Samples),
		report.Bar{What: "100 000 keys deleted while paying", Op: report.AtMost, Value: 0.6, Unit: "s"}.Of(remove.Samples),
		report.Bar{What: "payments kept while pruning", Op: report.AtLeast, Value: 0.9}.Of(kept.Samples()))
}

// keys is the store that the reconciler's job prunes by.
func (b *bench) keys(ctx context.Context) (*idempotency.Keys, func(), error) {
	db, err := postgres.Open(ctx, b.db.URL, postgres.DefaultLimits())
	if err != nil {
		return nil, nil, err
	}
	const day = 24 * time.Hour
	return idempotency.New(db, idempotency.Terms{
		Lease: 30 * time.Second, Retention: 2 * day, PSPMemory: day, SettleWindow: 90 * time.Second, FirstLookup: 10 * time.Second, Audit: 30 * day,
	}, time.Now), db.Close, nil
}

// pruneWhilePaying prunes n keys in each way, with a while before, between and after.
func (b *bench) pruneWhilePaying(ctx context.Context, api *rig.Process, keys *idempotency.Keys, n int) (effort, error) {
	pause := b.settings.slice() / 4
	loadCtx, kill := context.WithCancel(ctx)
	defer kill()
	paying, err := startLoad(loadCtx, load.Plan{Address: api.Address, Kind: load.New, Clients: 8, APIKey: b.db.APIKey, Seconds: payingAtMost}, nil)
	if err != nil {
		return effort{}, err
	}
	var spans [6]time.Time // the ends of: the start, a pause, expiring, a pause, deleting, a pause
	for i, step := range []func() error{
		func() error { return wait(ctx, pause) },
		func() error { return wait(ctx, pause) },
		func() error { return inBatches(ctx, n, keys.Expire) },
		func() error { return wait(ctx, pause) },
		func() error { return inBatches(ctx, n, keys.Delete) },
		func() error { return wait(ctx, pause) },
	} {
		if err := step(); err != nil {
			return effort{}, err
		}
		spans[i] = time.Now()
	}
	result, err := paying.stop()
	if err != nil {
		return effort{}, err
	}
	var paid, seconds [5]float64
	for i := range paid {
		seconds[i] = spans[i+1].Sub(spans[i]).Seconds()
		if paid[i], err = b.paidBetween(ctx, spans[i], spans[i+1]); err != nil {
			return effort{}, err
		}
	}
	per100000 := 100_000 / float64(n)
	return effort{perSecond: result.PerSecond, requests: float64(result.Requests), load: result, figures: map[string]float64{
		expireTook: seconds[1] * per100000, deleteTook: seconds[3] * per100000,
		paidExpiring: paid[1] / seconds[1], paidDeleting: paid[3] / seconds[3],
		paidPruning: (paid[1] + paid[3]) / (seconds[1] + seconds[3]),
		paidQuiet:   (paid[0] + paid[2] + paid[4]) / (seconds[0] + seconds[2] + seconds[4]),
	}}, nil
}

func inBatches(ctx context.Context, n int, batch func(context.Context, int32) (int64, error)) error {
	for done := 0; done < n; done += pruneBatch {
		if pruned, err := batch(ctx, pruneBatch); err != nil {
			return err
		} else if pruned != pruneBatch {
			return fmt.Errorf("%d keys were pruned of a batch of %d", pruned, pruneBatch)
		}
	}
	return nil
}

// paidBetween counts payments by their ids: UUIDs of version 7 begin with the millisecond.
func (b *bench) paidBetween(ctx context.Context, from, to time.Time) (n float64, err error) {
	at := func(t time.Time) (id uuid.UUID) {
		binary.BigEndian.PutUint64(id[:], uint64(t.UnixMilli())<<16)
		return id
	}
	err = b.db.Admin.QueryRow(ctx, "SELECT count(*) FROM payments WHERE id >= $1 AND id < $2", at(from), at(to)).Scan(&n)
	return n, err
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
