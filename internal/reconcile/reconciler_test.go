package reconcile

import (
	"log/slog"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// configured is how a reconciler of these settings has River work.
func configured(s Settings) *river.Config {
	r := &Reconciler{settings: s, now: time.Now, log: slog.New(slog.DiscardHandler)}
	return r.riverConfig(func() float64 { return 0 })
}

func everyMinute() Settings {
	return Settings{SweepEvery: time.Minute, ClaimEvery: time.Minute, ScanEvery: time.Minute, PruneEvery: time.Minute,
		ResolveWorkers: 7}
}

// River's own defaults would leave the jobs of a dead process alone for an hour.
func TestJobsOfTheDeadAreRescuedSoonAndThoseOfTheLivingNever(t *testing.T) {
	t.Parallel()
	c := configured(everyMinute())
	if c.JobTimeout != 30*time.Second || c.RescueStuckJobsAfter != 90*time.Second {
		t.Fatalf("jobs end after %s and are rescued after %s", c.JobTimeout, c.RescueStuckJobsAfter)
	}
	if hidden <= c.JobTimeout {
		t.Fatalf("a key is in sight again after %s, while its job may run for %s", hidden, c.JobTimeout)
	}
}

// Jobs per second are at most workers by cooldown: at the default of 100 ms, the queue would be the bottleneck.
func TestQueueFetchesAsFastAsItsWorkersAre(t *testing.T) {
	t.Parallel()
	c := configured(everyMinute())
	if c.FetchCooldown > 5*time.Millisecond || c.Queues[resolveQueue].MaxWorkers != 7 {
		t.Fatalf("fetches every %s for %d workers", c.FetchCooldown, c.Queues[resolveQueue].MaxWorkers)
	}
	if c.FetchPollInterval < time.Second {
		t.Errorf("it asks the database every %s, although it is notified", c.FetchPollInterval)
	}
	polling := everyMinute()
	polling.PollOnly = true
	if p := configured(polling); !p.PollOnly || p.FetchPollInterval > 100*time.Millisecond || c.PollOnly {
		t.Fatalf("behind a pooler it asks every %s", p.FetchPollInterval)
	}
}

// A lookup that hangs must not keep webhooks waiting, nor the sweep.
func TestLookupsHaveWorkersOfTheirOwn(t *testing.T) {
	t.Parallel()
	queues := map[string]string{}
	for _, args := range []interface {
		river.JobArgs
		river.JobArgsWithInsertOpts
	}{resolveArgs{}, webhookArgs{}, evidenceArgs{}, scanLedgerArgs{}, statementDayArgs{}} {
		queues[args.Kind()] = args.InsertOpts().Queue
	}
	for kind, queue := range queues {
		if (queue == resolveQueue) != (kind == resolveArgs{}.Kind()) {
			t.Errorf("%s is in queue %s", kind, queue)
		}
		if (queue == ledgerQueue) != (kind == scanLedgerArgs{}.Kind()) {
			t.Errorf("%s is in queue %s", kind, queue) // long readings must not keep the sweep waiting
		}
		if _, worked := configured(everyMinute()).Queues[queue]; !worked {
			t.Errorf("nobody works queue %s", queue)
		}
	}
}

// What the schedule makes again anyway is tried once, and is no case when it fails; everything else is tried again.
func TestOnlyTheScheduleTriesOnce(t *testing.T) {
	t.Parallel()
	if n := onceEvery(time.Minute).MaxAttempts; n != 1 {
		t.Errorf("jobs of the schedule have %d attempts", n)
	}
	if n := (scanLedgerArgs{}).InsertOpts().MaxAttempts; n != 1 {
		t.Errorf("scans have %d attempts", n)
	}
	for _, args := range []river.JobArgsWithInsertOpts{resolveArgs{}, webhookArgs{}, evidenceArgs{},
		statementDayArgs{}} {
		if n := args.InsertOpts().MaxAttempts; n < 2 {
			t.Errorf("%T has %d attempts", args, n)
		}
	}
}

// Two processes may both think that they keep the schedule.
func TestScheduleIsKeptOncePerInterval(t *testing.T) {
	t.Parallel()
	for interval, want := range map[time.Duration]time.Duration{
		5 * time.Second: 5 * time.Second, time.Second: time.Second, 999 * time.Millisecond: 0, // River refuses less
	} {
		if by := onceEvery(interval).UniqueOpts.ByPeriod; by != want {
			t.Errorf("every %s: unique by %s", interval, by)
		}
	}
}

func TestFailedJobsWaitLongerEachTimeUpToACap(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for failures, want := range map[int]time.Duration{0: time.Second, 1: 2 * time.Second, 4: 16 * time.Second,
		8: 5 * time.Minute, 500: 5 * time.Minute} {
		job := &rivertype.JobRow{Errors: make([]rivertype.AttemptError, failures)}
		for _, row := range []struct {
			jitter float64
			want   time.Duration
		}{{0, want}, {0.5, want - want/4}} {
			b := backoff{now: func() time.Time { return at }, jitter: func() float64 { return row.jitter }}
			if got := b.NextRetry(job).Sub(at); got != row.want {
				t.Errorf("after %d failures it waits %s, want %s", failures, got, row.want)
			}
		}
	}
}
