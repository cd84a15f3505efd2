package crashbutton

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"payonce/lab/invariants"
	"payonce/lab/world"
)

// The bounds of the calm are those of lab/chaos. A job that has died with its reconciler is rescued after 90 seconds,
// by a rescuer that looks every half minute.
const (
	quietLimit  = 150 * time.Second
	againLimit  = 45 * time.Second
	againEvery  = 250 * time.Millisecond
	againRounds = 4
	checkLimit  = 3 * time.Minute
	// lateDelay is when the mock PSP's late charges come. Before that, nobody sees them.
	lateDelay = 4500 * time.Millisecond
)

// mostShown bounds what is printed of a run that has failed.
const mostShown = 20

func (l *load) evidence() invariants.Evidence {
	return invariants.Evidence{
		DB: l.db, PSP: "http://" + l.demo.psp, History: l.recorder.Operations(),
		APIs: []string{"http://" + l.demo.public}, APIKeys: l.keys,
		Operators: []string{"http://" + l.demo.operator}, OperatorKey: "demo-operator-key",
		GracePeriod: lease + pspLate, Retention: world.Retention,
	}
}

// calm waits until nothing moves, has the clients ask again for each key without a final answer, and waits again.
func (l *load) calm(t *testing.T) {
	t.Helper()
	<-time.After(lateDelay)
	l.quiet(t, quietLimit)
	var open map[string]string
	for range againRounds {
		open = l.crowd.AskAgain(t.Context(), l.recorder.Operations(), false)
		l.quiet(t, againLimit)
		if len(open) == 0 {
			break
		}
	}
	for key, state := range open {
		t.Errorf("%s: %s", key, state)
	}
}

// quiet waits until nothing moves and no dead letter is open, while an operator closes them.
func (l *load) quiet(t *testing.T, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	world.AwaitTold(ctx, l.demo.psp)
	var operator sync.WaitGroup
	defer operator.Wait()
	atWork, end := context.WithCancel(ctx)
	defer end()
	operator.Go(func() { l.crowd.CloseDeadLetters(atWork) })
	// A key whose dead letter was closed by "retry" moves, and may have another dead letter before the next look.
	for closed := 0; closed < 2; {
		if err := invariants.Quiet(ctx, l.evidence()); err != nil {
			t.Fatalf("not quiet within %s: %v\n%s", limit, err, l.demo.said())
		}
		var open int
		err := l.db.QueryRow(ctx, "SELECT count(*) FROM dead_letters WHERE status = 'open'").Scan(&open)
		switch {
		case err != nil:
			t.Fatalf("%d dead letters are still open after %s: %v", open, limit, err)
		case open == 0:
			closed++
			continue
		}
		closed = 0
		select {
		case <-time.After(againEvery):
		case <-ctx.Done():
		}
	}
}

// judge holds everything that is left against the invariants.
func (l *load) judge(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), checkLimit)
	defer cancel()
	e := l.evidence()
	found, err := invariants.Check(ctx, e)
	episodes, episodesErr := invariants.Convergence(ctx, e)
	if err := errors.Join(err, episodesErr); err != nil {
		t.Fatal(err)
	}
	for _, v := range found[:min(len(found), mostShown)] {
		t.Error(v)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.complaints[:min(len(l.complaints), mostShown)] {
		t.Error(c)
	}
	// A lease ends when its owner was killed, or could not write its result because the database was away.
	orphans := 0
	for _, episode := range episodes {
		if episode.Reason == "lease over" {
			orphans++
		}
	}
	lost := 0
	for _, o := range e.History {
		if wasCut(o) {
			lost++
		}
	}
	if orphans == 0 {
		t.Error("no kill has met a payment that was being executed")
	}
	t.Logf("presses %v, under way then %v, of those cut %v", l.figures.presses, l.figures.underWay, l.figures.cut)
	t.Logf("%d requests, %d answers lost by a kill, %d keys unknown, %d of them because their owner was killed",
		len(e.History), lost, len(episodes), orphans)
	t.Logf("answers: %s", l.tally.Line("answer"))
	t.Logf("%d violations, %d complaints", len(found), len(l.complaints))
}
