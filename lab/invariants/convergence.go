package invariants

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

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
