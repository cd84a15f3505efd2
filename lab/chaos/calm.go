package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"payonce/lab/chaos/plan"
	"payonce/lab/invariants"
	"payonce/lab/program"
	"payonce/lab/world"
)

// The bounds of the calm. A job that dies with its reconciler, or that a reconciler has taken without hearing so, is
// rescued after 90 seconds, by a rescuer that looks every half minute. A quick run spares reconcilers that, but for
// crashes of PostgreSQL.
const (
	quietLimit  = 150 * time.Second
	againLimit  = 45 * time.Second
	againEvery  = 250 * time.Millisecond
	againRounds = 4
	lookLimit   = 3 * time.Minute
	sayEvery    = 10 * time.Second
)

// calm waits until nothing moves any more, with an operator at work, asks for each key that has no final answer once
// more, and waits again.
func (r *trial) calm(ctx context.Context) {
	began := time.Now()
	// What the PSP has promised to itself is seen by nobody until it lands, and what it books late is in no list yet.
	program.Wait(ctx, world.PSPLandsAt+time.Second/2)
	if r.settings.Target == naive {
		r.crowd.AskAgain(ctx, r.stage.recorder.Operations(), true)
		return
	}
	if r.settings.Only == "" && r.settings.Servers.Can(world.EndKeys) {
		r.useEndedKeys(ctx)
	}
	r.untilToldOf(ctx)
	r.calmMerchants(ctx)
	if err := errors.Join(r.stage.endPruning(ctx), r.stage.liftLimits(ctx)); err != nil {
		r.complain("calm", err.Error())
		return
	}
	// A scan reads what was made lately. If the webhook about a refund that came back later was lost, only the
	// statement has it. It has, too, what an operator has called not executed since the first reading.
	for range 2 {
		for tries := againRounds; tries > 0 && r.reconcileDay(ctx) == notRead; tries-- {
			program.Wait(ctx, againEvery) // On a busy machine, the PSP may not answer in time.
		}
		r.quiet(ctx, quietLimit, "after the storm")
	}
	r.report.QuietAfter = seconds(time.Since(began))
	r.stage.say(fmt.Sprintf("quiet after %.1fs", r.report.QuietAfter))
	// Some have to be executed only now, and the PSP fails those whose payment method says so, or a busy machine lets
	// it answer too late: then what came of it is found out, and they are asked for again.
	var open map[string]string
	for range againRounds {
		open = r.crowd.AskAgain(ctx, r.stage.recorder.Operations(), false)
		r.untilToldOf(ctx)
		r.quiet(ctx, againLimit, "after everybody has asked again")
		if len(open) == 0 {
			break
		}
	}
	for where, detail := range open {
		r.report.violate("I2", where, detail)
	}
}

// useEndedKeys has clients use keys again whose retention is over, until each way in which they end has been met: in a
// short storm, the pruner may have stood still for most of the time.
func (r *trial) useEndedKeys(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, againLimit)
	defer cancel()
	t := r.stage.tally
	met := func() bool {
		return t.Of("answer after expired", "201") > 0 &&
			t.Of("answer after deleted", "201") > 0
	}
	var using sync.WaitGroup
	defer using.Wait()
	using.Go(func() { r.crowd.Run(ctx, plan.Reborn) })
	for !met() && ctx.Err() == nil {
		program.Wait(ctx, againEvery)
	}
	cancel()
}

// untilToldOf waits for the PSP's webhooks.
func (r *trial) untilToldOf(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, againLimit)
	defer cancel()
	world.AwaitTold(ctx, r.stage.world.PSP.Address)
}

// quiet waits until nothing moves and no dead letter is open, while the operator closes them. A key with an open dead
// letter does not count as moving.
func (r *trial) quiet(ctx context.Context, limit time.Duration, when string) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var closing sync.WaitGroup
	defer closing.Wait()
	closingUntil, stop := context.WithCancel(ctx)
	defer stop()
	closing.Go(func() { r.crowd.CloseDeadLetters(closingUntil) })
	for emptyBefore := false; ; {
		if err := r.still(ctx); err != nil {
			r.report.violate("I2", when, fmt.Sprintf("it did not become quiet within %s: %v", limit, err))
			return
		}
		open, err := r.openDeadLetters(ctx)
		if err == nil && open == 0 && emptyBefore {
			return
		}
		// Once is not enough: a key whose dead letter was closed by "retry" moves, and may have another dead letter
		// before the next look.
		if emptyBefore = err == nil && open == 0; emptyBefore {
			continue
		}
		program.Wait(ctx, againEvery)
		if ctx.Err() != nil {
			r.report.violate("I2", when, fmt.Sprintf("%d dead letters could not be closed within %s (%v)", open, limit,
				err))
			return
		}
	}
}

// still waits until nothing moves, and says from time to time what does.
func (r *trial) still(ctx context.Context) error {
	for {
		looking, cancel := context.WithTimeout(ctx, sayEvery)
		err := invariants.Quiet(looking, r.evidence())
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, invariants.ErrMoving) {
			return err
		}
		r.stage.say(strings.Join([]string{err.Error(), r.stuckJobs(ctx)}, "; "))
	}
}

func (r *trial) openDeadLetters(ctx context.Context) (n int, err error) {
	return n, r.stage.world.DB.QueryRow(ctx, "SELECT count(*) FROM dead_letters WHERE status = 'open'").Scan(&n)
}

// dayLength is how long a day lasts in a storm: after each, the PSP's settlement statement is reconciled with the
// books.
const dayLength = 15 * time.Second

const notRead = "not-read"

// statementEnds is what the command's exit code means.
var statementEnds = map[int]string{0: "no-breaks", 1: "breaks", 2: notRead}

// reconcileDays reconciles the statement of the day so far, which is not over, again and again. In a storm, it may
// break, or not be read.
func (r *trial) reconcileDays(ctx context.Context) {
	for program.Wait(ctx, dayLength) && r.reconcileDay(ctx) != "" {
	}
}

// reconcileDay reconciles the statement of the day so far once, and returns how that ended: "" if it cannot go on.
func (r *trial) reconcileDay(ctx context.Context) string {
	s, err := r.stage.world.Statement(ctx, time.Now().UTC())
	if ctx.Err() != nil {
		return ""
	}
	end, known := statementEnds[s.Exit]
	if !known || err != nil && s.Exit == 0 {
		r.complain("statement", fmt.Sprintf("it ended with %d (%v): %s", s.Exit, err, s.Report))
		return ""
	}
	r.stage.tally.One("statement", end)
	return end
}
