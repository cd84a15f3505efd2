package main

import (
	"context"
	"fmt"
	"time"
)

// dayLength is how long a day lasts in a storm: after each, the PSP's settlement statement is reconciled with the
// books.
const dayLength = 15 * time.Second

// statementEnds is what the command's exit code means.
var statementEnds = map[int]string{0: "no-breaks", 1: "breaks", 2: "not-read"}

// reconcileDays reconciles the statement of the day so far, which is not over, again and again. In a storm, it may
// break, or not be read.
func (r *trial) reconcileDays(ctx context.Context) {
	tick := time.NewTicker(dayLength)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !r.reconcileDay(ctx) {
			return
		}
	}
}

// reconcileDay reconciles the statement of the day so far once. It returns false if that cannot go on.
func (r *trial) reconcileDay(ctx context.Context) bool {
	s, err := r.stage.world.Statement(ctx, time.Now().UTC())
	if ctx.Err() != nil {
		return false
	}
	end, known := statementEnds[s.Exit]
	if !known || err != nil && s.Exit == 0 {
		r.complain("statement", fmt.Sprintf("it ended with %d (%v): %s", s.Exit, err, s.Report))
		return false
	}
	r.stage.tally.One("statement", end)
	return true
}
