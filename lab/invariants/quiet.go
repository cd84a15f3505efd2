package invariants

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	pollInterval = 100 * time.Millisecond
	maxNamed     = 5 // of what is still moving, in an error
)

// ErrMoving is what Quiet's error wraps when time is up.
var ErrMoving = errors.New("not quiet")

// Quiet waits until nothing is under way: no key is in progress or unknown, except where an operator has it; no webhook
// and no job about one waits; and no movement of the PSP's is still to be noticed here. A database or a PSP that does
// not answer is not quiet. The error says what was still moving when ctx ended.
//
// A charge that the PSP has promised to itself and not yet made is seen by nobody. Who lets the PSP charge late waits
// for that first. What the PSP has made and books late is in its ledger: Quiet waits until a list has brought it here.
func Quiet(ctx context.Context, e Evidence) error {
	e, done := e.withClient()
	defer done()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	last := errors.New("not looked at")
	for {
		w, err := look(ctx, e)
		if err == nil {
			moving := slices.Concat(unfinished(w), unnoticed(w))
			if len(moving) == 0 {
				return nil
			}
			last = named(moving)
		} else if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w: %w", ErrMoving, last, ctx.Err())
		case <-poll.C:
		}
	}
}

func named(moving []Violation) error {
	var text []string
	for _, v := range moving[:min(len(moving), maxNamed)] {
		text = append(text, v.Key+": "+v.Detail)
	}
	if len(moving) > maxNamed {
		text = append(text, fmt.Sprintf("and %d more", len(moving)-maxNamed))
	}
	return errors.New(strings.Join(text, "; "))
}

// unfinished is I2, at this moment.
func unfinished(w world) []Violation {
	var found []Violation
	for name, k := range w.books.keys {
		if (k.Status == "in_progress" || k.Status == "unknown") && !k.Held {
			found = append(found, Violation{"I2", name.String(), "still " + k.Status})
		}
	}
	for _, l := range w.books.deadLetters {
		name := keyName{l.Tenant, l.Operation, l.Key}
		moved := l.Status == "open" && l.Key != "" && l.holds() == moneyMoved
		if moved && w.books.keys[name] == nil && !w.books.gone[name] {
			found = append(found, Violation{"I2", name.String(), "money moved under it, and it is free to be executed"})
		}
	}
	for _, what := range w.books.waiting {
		found = append(found, Violation{"I2", what, "still waiting"})
	}
	for _, d := range differences(w) {
		if d.unresolved && !w.excused(d) {
			found = append(found, Violation{"I2", d.name(), "not noticed yet: " + d.what})
		}
	}
	return found
}

// Episode is how long a key was unknown once, by the database's clock.
type Episode struct {
	Key   string // tenant, operation and key
	Since time.Time
	Took  time.Duration
	By    string // who resolved it
	To    string // the status that it came to
	// Reason is why it was lost, as the timeline has it.
	Reason string
}

// Convergence lists all episodes that have ended, shortest first.
func Convergence(ctx context.Context, e Evidence) ([]Episode, error) {
	b, err := readBooks(ctx, e.DB)
	if err != nil {
		return nil, fmt.Errorf("read the database: %w", err)
	}
	var episodes []Episode
	lost := map[keyName]eventRow{}
	for _, event := range b.events {
		name := keyName{event.Tenant, event.Operation, event.Key}
		switch {
		case event.To == "unknown" && event.From != "unknown":
			lost[name] = event
		case event.From == "unknown" && event.To != "unknown":
			if since, known := lost[name]; known {
				delete(lost, name)
				episodes = append(episodes, Episode{
					Key: name.String(), Since: since.At, Took: event.At.Sub(since.At), By: event.Actor, To: event.To,
					Reason: since.Reason,
				})
			}
		}
	}
	slices.SortStableFunc(episodes, func(a, b Episode) int { return cmp.Compare(a.Took, b.Took) })
	return episodes, nil
}

// MedianAndMax are the two figures of a report. Without episodes they are zero.
func MedianAndMax(sorted []Episode) (median, longest time.Duration) {
	if len(sorted) == 0 {
		return 0, 0
	}
	return sorted[(len(sorted)-1)/2].Took, sorted[len(sorted)-1].Took
}
