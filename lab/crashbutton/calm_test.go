package crashbutton

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"payonce/lab/history"
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
	began := time.Now()
	// Nobody sees a late charge of the mock PSP before it comes.
	<-time.After(pspLate)
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
	t.Logf("quiet after %s", time.Since(began).Round(time.Second))
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
			t.Errorf("not quiet within %s: %v\n%s", limit, err, l.demo.said())
			return // what is left is judged all the same
		}
		var open int
		err := l.db.QueryRow(ctx, "SELECT count(*) FROM dead_letters WHERE status = 'open'").Scan(&open)
		switch {
		case err != nil:
			t.Errorf("count open dead letters, for %s: %v", limit, err)
			return
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
	l.report(t, e.History, episodes)
	t.Logf("%d violations, %d complaints", len(found), len(l.complaints))
}

// report prints what the run has met, and fails if that was too little.
func (l *load) report(t *testing.T, operations []history.Operation, episodes []invariants.Episode) {
	t.Helper()
	lost := 0
	for _, o := range operations {
		if wasCut(o) {
			lost++
		}
	}
	// A lease ends when its owner was killed, or could not write its result because the database was away. What became
	// of the key after that is the other half of the story.
	abandoned := map[string]int{}
	for _, episode := range episodes {
		if episode.Reason == "lease over" {
			abandoned[episode.To]++
		}
	}
	for _, to := range []string{"completed", "failed_retryable"} {
		if abandoned[to] == 0 {
			t.Errorf("no key whose owner was killed has become %s", to)
		}
	}
	t.Logf("presses %v, under way then %v, of those cut %v", l.figures.presses, l.figures.underWay, l.figures.cut)
	t.Logf("%d requests, %d answers lost by a kill, %d keys unknown; those whose lease had ended became %v",
		len(operations), lost, len(episodes), abandoned)
	t.Logf("answers: %v", l.tally.Group("answer"))
}
