package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/postgres"
	"payonce/internal/reconcile"
	"payonce/lab/bench/load"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
	"payonce/lab/world"
)

const (
	pruneRounds = 4
	pruneRate   = 5000 // as PRUNE_RATE is
	pruneRun    = 9 * time.Second
	pruneSlice  = 1000 // the keys of a round are a multiple of this
	// payingAtMost is for a pruner that has got stuck.
	payingAtMost  = 600
	payingClients = 8
	prunedMost    = 1_000_000
	prunedSome    = 100_000 // where the table has less than prunedMost
)

// The figures of a round.
const (
	goneRate    = "gone"  // keys per second that are marked as expired, and as many that are deleted
	paidQuiet   = "quiet" // payments per second
	paidPruning = "while pruning"
)

// prune asks what pruning takes from those who pay meanwhile, and how long it takes under them.
func (b *bench) prune(ctx context.Context, s *report.Section) (err error) {
	n := prunedSome
	if b.settings.Rows >= prunedMost {
		n = prunedMost
	}
	rounds := min(b.settings.Rounds, pruneRounds)
	s.Note = fmt.Sprintf("The pruner's two walks over %d keys each, by turns and at its own pace, while 8 clients make payments: marking as expired, and "+
		"deleting what was marked a month ago. Payments are counted by their ids, which tell the time, within the walks and just before and after them.", n)
	b.progress("making %d keys that are due", 2*n)
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, b.db.Forget(ctx, rig.OverMark), b.db.Forget(ctx, rig.GoneMark))
	}()
	if err := b.db.MakePrunable(ctx, n); err != nil {
		return err
	}
	if err := b.db.Rest(ctx); err != nil {
		return err
	}
	keys, done, err := b.keys(ctx)
	if err != nil {
		return err
	}
	defer done()
	api, err := b.serve(ctx, b.db)
	if err != nil {
		return err
	}
	slices, err := b.rounds(ctx, rounds, contender{name: "pruning while paying", process: api,
		run: func(ctx context.Context) (effort, error) {
			return b.pruneWhilePaying(ctx, api, keys, int64(n/rounds/pruneSlice*pruneSlice))
		}})
	if err != nil {
		return err
	}
	add := func(what, unit string, bar report.Bar, of string) {
		s.Figures = append(s.Figures, report.Figure{What: what, Unit: unit, Rounds: by(slices[0], own(of)), Bar: bar})
	}
	add("keys that are marked, and as many deleted", keysUnit, report.AtLeast(4900), goneRate)
	add("API, nobody prunes", paymentsUnit, report.Bar{}, paidQuiet)
	add("API, while keys go", paymentsUnit, report.Bar{}, paidPruning)
	s.Figures = append(s.Figures, report.Ratio("payments kept while pruning", by(slices[0], own(paidPruning)),
		by(slices[0], own(paidQuiet)), report.AtLeast(0.9)))
	return nil
}

// keys is the store that the reconciler's job prunes by.
func (b *bench) keys(ctx context.Context) (*idempotency.Keys, func(), error) {
	db, err := postgres.Open(ctx, b.db.URL, postgres.DefaultLimits())
	if err != nil {
		return nil, nil, err
	}
	const day = 24 * time.Hour
	return idempotency.New(db, idempotency.Terms{
		Lease: 30 * time.Second, Retention: 2 * day, PSPMemory: day, GracePeriod: 90 * time.Second,
		FirstLookup: 10 * time.Second, Audit: 30 * day,
	}, time.Now), db.Close, nil
}

// pruneWhilePaying prunes n keys in each way, with a while before and after.
func (b *bench) pruneWhilePaying(
	ctx context.Context, api *world.Process, keys *idempotency.Keys, n int64,
) (effort, error) {
	pause := b.settings.slice() / 2
	loadCtx, kill := context.WithCancel(ctx)
	defer kill()
	generator, wait, err := startLoad(loadCtx, load.Plan{Address: api.Address, Kind: load.New, Clients: payingClients,
		APIKeys: []string{b.db.APIKey}, Seconds: payingAtMost})
	if err != nil {
		return effort{}, err
	}
	var ends [4]time.Time // of: the start, a pause, pruning, a pause
	rest := func() error { return sleep(ctx, pause) }
	for i, step := range []func() error{
		rest, rest, func() error { return pruned(ctx, n, keys.Expire, keys.Delete) }, rest,
	} {
		if err := step(); err != nil {
			return effort{}, err
		}
		ends[i] = time.Now()
	}
	if err := generator.Signal(os.Interrupt); err != nil {
		return effort{}, fmt.Errorf("stop the load generator: %w", err)
	}
	done, err := wait(payingClients)
	if err != nil {
		return effort{}, err
	}
	var paid, seconds [3]float64
	for i := range paid {
		seconds[i] = ends[i+1].Sub(ends[i]).Seconds()
		if paid[i], err = b.paidBetween(ctx, ends[i], ends[i+1]); err != nil {
			return effort{}, err
		}
	}
	done.figures = map[string]float64{
		goneRate: float64(n) / seconds[1], paidPruning: paid[1] / seconds[1],
		paidQuiet: (paid[0] + paid[2]) / (seconds[0] + seconds[2]),
	}
	return done, nil
}

// pruned takes n rows of each walk, run after run.
func pruned(ctx context.Context, n int64, walks ...reconcile.Walk) error {
	left := make([]int64, len(walks))
	bounded := make([]reconcile.Walk, len(walks))
	for i, walk := range walks {
		left[i] = n
		bounded[i] = func(ctx context.Context, limit int32) (int64, error) {
			gone, err := walk(ctx, int32(min(int64(limit), left[i]))) //nolint:gosec // limit at most
			if err == nil && gone == 0 && left[i] > 0 {
				err = fmt.Errorf("walk %d has come to its end, and %d keys are left", i, left[i])
			}
			left[i] -= gone
			return gone, err
		}
	}
	for slices.Max(left) > 0 {
		if err := reconcile.Paced(ctx, pruneRate, pruneRun, bounded...); err != nil {
			return err
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
	err = b.db.Admin.QueryRow(ctx, "SELECT count(*) FROM payments WHERE id >= $1 AND id < $2", at(from),
		at(to)).Scan(&n)
	return n, err
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
