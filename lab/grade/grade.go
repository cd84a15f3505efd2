package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"payonce/lab/grade/judge"
	"payonce/lab/grade/plan"
	"payonce/lab/grade/profile"
	"payonce/lab/grade/stand"
	"payonce/lab/program"
	"payonce/lab/world"
)

// grade starts the server, plays all levels, and finds the smallest history that breaks the first broken
// invariant.
func grade(ctx context.Context, s settings, stderr io.Writer) (_ *report, err error) {
	say := progress(stderr, time.Now())
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return nil, fmt.Errorf("make OUT: %w", err)
	}
	if err := os.Remove(filepath.Join(s.out, drawing)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the histories of the run before: %w", err)
	}
	dir, err := program.TempDir("grade")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p := newPlayer(s.profile)
	defer func() { err = errors.Join(err, keepLogs(dir, s.out)) }()
	p.stand, err = stand.Open(ctx, stand.Options{Profile: s.profile, Target: s.target, PSP: s.psp, Seed: s.seed,
		Dir: dir, Say: say, Arrived: p.arrived})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stand.Close(context.WithoutCancel(ctx))) }()
	say("one payment, to see whether the server is understood")
	if err := p.handshake(ctx); err != nil {
		return nil, err
	}
	levels, ended, err := p.playLevels(ctx, s, say)
	if err != nil {
		return nil, err
	}
	r := newReport(s, levels)
	r.Ended = ended
	r.Unclear = p.unclear
	if r.Marks < r.Of && len(p.stand.Servers) > 1 && !p.stand.UsesDatabase() {
		r.Hint = inMemory
	}
	if r.First == nil || s.marksAlone {
		return r, nil
	}
	if r.Ended == "" {
		say("looking for the smallest history that breaks the same")
		if err := p.shrink(ctx, r.First); err != nil {
			return nil, err
		}
	}
	return r, r.draw(s.out)
}

// inMemory is for a server that was graded as what it does not claim to be.
const inMemory = "the server has never connected to DATABASE_URL. If it keeps its keys in memory, each of the two " +
	`processes has keys of its own: try again with "instances": 1 in the profile`

// playLevels plays the levels, and returns their runs with all that the server has charged until the end. If the server
// does not come up again, ended says so.
func (p *player) playLevels(ctx context.Context, s settings, say func(string)) (levels [][]judge.Run, ended string,
	err error) {
	for _, n := range s.levels {
		say(fmt.Sprintf("level %d of %d: %s", n, len(plan.Levels()), plan.Levels()[n-1]))
		runs, err := p.playAll(ctx, plan.Of(n, s.seed))
		down, isDown := errors.AsType[*world.NotServingError](err)
		if err != nil && !isDown {
			return nil, "", err
		}
		levels = append(levels, runs)
		if isDown {
			ended = down.Error()
			break
		}
		if s.stop {
			if r := newReport(s, levels); r.Marks < r.Of {
				break
			}
		}
	}
	ledger, err := p.stand.Ledger(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, runs := range levels {
		for i := range runs {
			if err := p.setCharges(&runs[i], ledger.Charges); err != nil {
				return nil, "", err
			}
		}
	}
	return levels, ended, nil
}

// progress prints a line with the time since the start.
func progress(w io.Writer, start time.Time) func(string) {
	var mu sync.Mutex
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, "%6.1f s  %s\n", time.Since(start).Seconds(), text)
	}
}

func keepLogs(dir, out string) error {
	files, err := filepath.Glob(filepath.Join(dir, "server-*.log"))
	if err != nil {
		return err
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, filepath.Base(f)), raw, 0o600); err != nil {
			return fmt.Errorf("keep the server's log: %w", err)
		}
	}
	return nil
}

// handshake is one payment that has to go well. Without it, marks would say nothing.
func (p *player) handshake(ctx context.Context) error {
	old, err := p.stand.Ledger(ctx)
	if err != nil {
		return err
	}
	for _, e := range old.Charges {
		p.used[e.AmountCents] = true
	}
	run, err := p.play(ctx, plan.Handshake())
	if err != nil {
		return err
	}
	if len(run.Answers) == 0 {
		return errors.New("the first payment was not sent")
	}
	a := run.Answers[len(run.Answers)-1]
	for _, heard := range slices.Backward(run.Answers) {
		if heard.Err == "" { // the last one may have been cut off by the end of the time
			a = heard
			break
		}
	}
	// A server that charges twice here is graded: the marks say it better.
	charged := slices.ContainsFunc(run.Charges, func(c judge.Charge) bool { return c.Succeeded })
	switch {
	case a.Err != "":
		return fmt.Errorf("the first payment had no answer: %s", a.Err)
	case a.Meaning == profile.Pending || a.Meaning == profile.Again:
		return fmt.Errorf("the first payment should be paid, and after %s it is still told %s: status %d, %q",
			time.Duration(p.profile.EndsWithin), a.Meaning, a.Status, excerpt(a.Body))
	case a.Meaning == profile.None:
		return fmt.Errorf("the server does not speak as the profile says: its answer to the first payment has no meaning there: status %d, %q",
			a.Status, excerpt(a.Body))
	case a.Meaning != profile.Paid:
		return fmt.Errorf("the first payment should be paid, and is told %s: status %d, %q", a.Meaning, a.Status,
			excerpt(a.Body))
	case !charged:
		return fmt.Errorf("the server says that the first payment is paid, and the PSP at PSP_URL has no charge of %s; does the server use PSP_URL?",
			money(run.Amounts[0]))
	}
	return nil
}

// casesAtOnce bounds the load: what is tried is order, not speed.
const casesAtOnce = 12

// playAll plays the cases of a level: those that disturb nobody at once, the others one by one. If the server does not
// come up again, the runs so far are returned with the error.
func (p *player) playAll(ctx context.Context, cases []plan.Case) ([]judge.Run, error) {
	if err := p.allUp(ctx); err != nil {
		return nil, err
	}
	runs := make([]judge.Run, len(cases))
	var group errgroup.Group
	group.SetLimit(casesAtOnce)
	for i, c := range cases {
		runs[i] = judge.Run{Case: c, NotShown: "the server did not come up again before that"}
		if !c.Alone() {
			group.Go(func() (err error) {
				runs[i], err = p.play(ctx, c)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, c := range cases {
		if !c.Alone() {
			continue
		}
		var err error
		if runs[i], err = p.play(ctx, c); err == nil {
			err = p.allUp(ctx)
		}
		if err != nil {
			return runs, err
		}
	}
	return runs, nil
}

// allUp starts what a case, or the server itself, has ended.
func (p *player) allUp(ctx context.Context) error {
	for _, server := range p.stand.Servers {
		server.Resume()
		if server.Serves() {
			continue
		}
		if err := server.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// The bounds of the search for a smaller history.
const (
	shrinkTime  = 45 * time.Second
	shrinkTries = 60
)

// shrink leaves out one payment, step or request after the other, for as long as the same invariant breaks.
func (p *player) shrink(ctx context.Context, x *broken) error {
	limited, cancel := context.WithTimeout(ctx, shrinkTime)
	defer cancel()
	for x.Tries < shrinkTries && limited.Err() == nil {
		smaller, n, err := p.smaller(limited, x.run, x.Invariant, shrinkTries-x.Tries)
		if err != nil && limited.Err() == nil {
			return err
		}
		x.Tries += n
		if smaller == nil {
			break
		}
		x.run = *smaller
	}
	for _, v := range judge.Judge(x.run) {
		if v.Invariant == x.Invariant && v.Why != "" {
			x.Why, x.Intent = v.Why, v.Intent
			break
		}
	}
	return ctx.Err()
}

// smaller is the first smaller history that breaks the invariant, or nil.
func (p *player) smaller(ctx context.Context, from judge.Run, broken judge.Invariant, most int) (*judge.Run, int,
	error) {
	for n, c := range from.Case.Smaller() {
		if n == most {
			return nil, n, nil
		}
		if err := p.allUp(ctx); err != nil {
			return nil, n, err
		}
		run, err := p.play(ctx, c)
		if err != nil {
			return nil, n, err
		}
		for _, v := range judge.Judge(run) {
			if v.Invariant == broken && v.Why != "" {
				return &run, n + 1, nil
			}
		}
	}
	return nil, len(from.Case.Smaller()), nil
}
