package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"payonce/internal/config"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/test/pgtest"
)

// configured is how a reconciler of these settings has River work.
func configured(s config.Reconciler) *river.Config {
	return (&Reconciler{Config: Config{Reconciler: s, Now: time.Now, Log: slog.New(slog.DiscardHandler)}}).riverConfig()
}

func everyMinute() config.Reconciler {
	return config.Reconciler{SweepEvery: time.Minute, ClaimEvery: time.Minute, ScanEvery: time.Minute,
		PruneEvery: time.Minute, ResolveWorkers: 7}
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
	if c.FetchCooldown > 5*time.Millisecond || c.Queues[lookupQueue].MaxWorkers != 7 {
		t.Fatalf("fetches every %s for %d workers", c.FetchCooldown, c.Queues[lookupQueue].MaxWorkers)
	}
	if c.FetchPollInterval < time.Second {
		t.Errorf("it asks the database every %s, although it is notified", c.FetchPollInterval)
	}
	polling := everyMinute()
	polling.DBPooler = true
	if p := configured(polling); !p.PollOnly || p.FetchPollInterval > 100*time.Millisecond || c.PollOnly {
		t.Fatalf("behind a pooler it asks every %s", p.FetchPollInterval)
	}
}

// A lookup that hangs must not keep webhooks waiting, nor the sweep.
func TestWhatTakesLongHasWorkersOfItsOwn(t *testing.T) {
	t.Parallel()
	queues := map[string]string{}
	for _, args := range []interface {
		river.JobArgs
		river.JobArgsWithInsertOpts
	}{lookupArgs{}, webhookArgs{}, evidenceArgs{}, scanLedgerArgs{}} {
		queues[args.Kind()] = args.InsertOpts().Queue
	}
	for kind, queue := range queues {
		if (queue == lookupQueue) != (kind == lookupArgs{}.Kind()) {
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
	for _, args := range []river.JobArgsWithInsertOpts{lookupArgs{}, webhookArgs{}, evidenceArgs{}} {
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

var errAway = errors.New("the database is away")

// atNoDatabase is a reconciler whose database is away.
func atNoDatabase(t *testing.T) *Reconciler {
	t.Helper()
	cfg, err := pgxpool.ParseConfig("postgres://nobody@127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	cfg.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return errAway }
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r := &Reconciler{Config: Config{Now: time.Now, Log: slog.New(slog.DiscardHandler), Reconciler: everyMinute()}}
	if r.client, err = river.NewClient(riverpgxv5.New(pool), r.riverConfig()); err != nil {
		t.Fatal(err)
	}
	return r
}

// A process that has tried for so long has another trouble than a database that restarts. It must say so and end.
func TestStartIsRepeatedAndThenGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, began := atNoDatabase(t), time.Now()
		err := r.Run(t.Context())
		if !errors.Is(err, errAway) || !strings.Contains(err.Error(), "start job queue") {
			t.Errorf("without a database: %v", err)
		}
		if took := time.Since(began); took != (startTries-1)*startPause {
			t.Errorf("it has tried for %s", took)
		}
	})
}

func TestProcessThatIsToldToStopEndsBeforeItHasStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, began := atNoDatabase(t), time.Now()
		ctx, stop := context.WithTimeout(t.Context(), startPause*5/2)
		defer stop()
		if err := r.Run(ctx); err != nil {
			t.Errorf("told to stop: %v", err)
		}
		if took := time.Since(began); took != startPause*5/2 {
			t.Errorf("it has stopped after %s", took)
		}
	})
}

// Without workers for lookups, a key would stay unknown.
func TestQueueThatCannotWorkIsNotMade(t *testing.T) {
	t.Parallel()
	settings := everyMinute()
	settings.ResolveWorkers = 0
	r, err := New(Config{DB: postgres.Wrap(nil, 0), Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Reconciler: settings})
	if r != nil || err == nil || !strings.Contains(err.Error(), "make job queue") {
		t.Fatalf("%v, %v", r, err)
	}
}

// running has a reconciler run, whose job does what the test says. It returns once the job has begun.
func (c *crew) running(job func(working, running context.Context) error) (stop func(), ended <-chan error) {
	c.t.Helper()
	begun, over := make(chan struct{}), make(chan error, 1)
	ctx, stop := context.WithCancel(c.t.Context())
	c.t.Cleanup(stop)
	settings := &river.Config{
		Logger: c.r.Log, Workers: river.NewWorkers(),
		Queues: map[string]river.QueueConfig{scheduleQueue: {MaxWorkers: 1}},
	}
	river.AddWorker(settings.Workers, river.WorkFunc(func(working context.Context, _ *river.Job[pruneArgs]) error {
		close(begun)
		return job(working, ctx)
	}))
	var err error
	if c.r.client, err = river.NewClient(riverpgxv5.New(c.pool), settings); err != nil {
		c.t.Fatal(err)
	}
	c.inTx(func(ctx context.Context, tx pgx.Tx) error {
		_, err := c.r.client.InsertTx(ctx, tx, pruneArgs{}, &river.InsertOpts{MaxAttempts: 1})
		return err
	})
	go func() { over <- c.r.Run(ctx) }()
	<-begun
	return stop, over
}

// A process that ends before its jobs leaves them running at the PSP, with nobody who writes what came of them.
func TestRunEndsAfterItsJobs(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.r.StopLimit = 20 * time.Second
	stop, ended := c.running(func(working, running context.Context) error {
		<-running.Done()
		return working.Err() // nil, because the end of the run cancels no job
	})
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.r.client.Stopped():
	default:
		t.Error("the queue goes on")
	}
	if state := pgtest.Value[string](t, c.pool, "SELECT state FROM river_job"); state != "completed" {
		t.Errorf("the job is %s", state)
	}
}

// A job that does not end even when it is cancelled may have done anything. The process must not say that all is well.
func TestRunThatLeavesAJobBehindFails(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.r.StopLimit = -stopGrace // no time at all
	release := make(chan struct{})
	stop, ended := c.running(func(context.Context, context.Context) error {
		<-release
		return nil
	})
	stop()
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "stop job queue") {
		t.Errorf("a job goes on, and the run has ended with %v", err)
	}
	close(release)
	<-c.r.client.Stopped()
}

// What River says of cancelled statements while it is stopped is expected. Everything else it says is for an operator.
func TestOnlyCancelledStatementsAreLeftOutOfTheLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attr   slog.Attr
		logged bool
	}{
		"a cancelled statement":          {slog.Any("err", fmt.Errorf("query: %w", context.Canceled)), false},
		"the text of one":                {slog.String("err", "query: context canceled"), false},
		"an error that only says so":     {slog.Any("err", errors.New("not our context canceled")), true},
		"another error":                  {slog.Any("err", errors.New("no such table")), true},
		"a statement that took too long": {slog.Any("err", context.DeadlineExceeded), true},
		"another text":                   {slog.String("err", "context canceled by nobody"), true},
		"a number":                       {slog.Int("jobs", 7), true},
	} {
		for _, attrs := range [][]any{{c.attr}, {slog.Int("n", 1), c.attr}, {c.attr, slog.Int("n", 1)}} {
			var out bytes.Buffer
			slog.New(stopping{slog.NewTextHandler(&out, nil)}).Error("job failed", attrs...)
			if logged := out.Len() > 0; logged != c.logged {
				t.Errorf("%s, %v: logged %t", name, attrs, logged)
			}
		}
	}
}

// The last attempt of a job is an error, because an operator gets a dead letter. A scheduled job comes again anyway.
func TestOnlyTheLastAttemptOfAJobIsAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attempt, most int
		want          string
	}{
		"first":               {1, scheduledAttempts + 1, "level=WARN"},
		"last but one":        {scheduledAttempts, scheduledAttempts + 1, "level=WARN"},
		"last":                {scheduledAttempts + 1, scheduledAttempts + 1, "level=ERROR"},
		"last of a scheduled": {scheduledAttempts, scheduledAttempts, "level=WARN"},
	} {
		var out bytes.Buffer
		errorsOf := jobErrors{slog.New(slog.NewTextHandler(&out, nil))}
		errorsOf.HandleError(t.Context(), &rivertype.JobRow{Kind: "webhook", Attempt: c.attempt, MaxAttempts: c.most},
			errors.New("broken"))
		if !bytes.Contains(out.Bytes(), []byte(c.want)) {
			t.Errorf("%s: %s, want %s", name, out.String(), c.want)
		}
	}
}

// An alert is about runs that fail. A run that has more to do has not failed.
func TestRunIsCountedAsWhatCameOfIt(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	r := &Reconciler{Config: Config{Metrics: telemetry.NewMetrics(reg), Now: time.Now}}
	for _, result := range []error{nil, river.JobSnooze(time.Second), errors.New("broken")} {
		err := r.observe(t.Context(), &rivertype.JobRow{Kind: "scan"}, func(context.Context) error { return result })
		if !errors.Is(err, result) {
			t.Errorf("%v has become %v", result, err)
		}
	}
	want := map[string]float64{"scan done": 2, "scan failed": 1}
	if diff := cmp.Diff(want, counted(t, reg, "payonce_job_duration_seconds")); diff != "" {
		t.Errorf("runs are counted otherwise (-want +got):\n%s", diff)
	}
}
