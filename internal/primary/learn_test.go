package primary

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Each row is what hosts have said in turn: who accepts writes, on which timeline, and how long after the last answer.
func TestPrimaryIsTheHostThatAcceptsWritesOnTheHighestTimeline(t *testing.T) {
	t.Parallel()
	const soon, late = askEvery, silence + 1
	type said struct {
		host     string
		timeline int64
		after    time.Duration
	}
	for name, c := range map[string]struct {
		said     []said
		primary  string
		warnings int
	}{
		"a promotion":                    {[]said{{"a", 1, 0}, {"b", 2, soon}}, "b", 0},
		"a promotion of the primary":     {[]said{{"a", 1, 0}, {"a", 2, soon}, {"b", 1, soon}}, "a", 0},
		"an old primary":                 {[]said{{"b", 2, 0}, {"a", 1, soon}}, "b", 0},
		"two names":                      {[]said{{"a", 1, 0}, {"a", 1, soon}, {"b", 1, silence}}, "a", 0},
		"two names, one is silent":       {[]said{{"a", 1, 0}, {"b", 1, soon}, {"b", 1, late - soon}}, "b", 0},
		"an old primary, b is silent":    {[]said{{"b", 2, 0}, {"a", 1, late}, {"a", 1, late}}, "b", 1},
		"the same, twice":                {[]said{{"b", 2, 0}, {"a", 1, late}, {"b", 3, 0}, {"a", 1, late}}, "b", 2},
		"pg_upgrade":                     {[]said{{"a", 2, 0}, {"a", 1, soon}}, "a", 1},
		"pg_upgrade, then another name":  {[]said{{"a", 2, 0}, {"a", 1, soon}, {"b", 1, late}}, "b", 1},
		"pg_upgrade, and the old server": {[]said{{"a", 2, 0}, {"a", 1, soon}, {"b", 2, soon}}, "b", 1},
	} {
		hosts := map[string]*host{"a": {name: "a"}, "b": {name: "b"}}
		log := new(strings.Builder)
		now := time.Now()
		f := &follower{ctx: context.Background(), now: func() time.Time { return now },
			log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
		f.begin(&term{})
		for _, s := range c.said {
			now = now.Add(s.after)
			f.learn(hosts[s.host], s.timeline)
		}
		if at := f.term.Load().host.name; at != c.primary {
			t.Errorf("%s: %s is the primary, want %s", name, at, c.primary)
		}
		if warnings := strings.Count(log.String(), "\n"); warnings != c.warnings {
			t.Errorf("%s: %d warnings, want %d: %s", name, warnings, c.warnings, log)
		}
	}
}
