package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"payonce/internal/postgres"
)

var errAway = errors.New("the database is away")

// atNoDatabase is a reconciler whose database is away.
func atNoDatabase(t *testing.T) *Reconciler {
	t.Helper()
	config, err := pgxpool.ParseConfig("postgres://nobody@127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return errAway }
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r := &Reconciler{now: time.Now, log: slog.New(slog.DiscardHandler), settings: everyMinute()}
	c := r.riverConfig(func() float64 { return 0 })
	if r.client, err = river.NewClient(riverpgxv5.New(pool), c); err != nil {
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
		Settings: settings})
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
	c.r.answered = func(working context.Context, _ int32) (int, error) {
		close(begun)
		return 0, job(working, ctx)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &answered{r: c.r})
	var err error
	c.r.client, err = river.NewClient(riverpgxv5.New(c.pool), &river.Config{
		Logger: c.r.log, Workers: workers, Queues: map[string]river.QueueConfig{scheduleQueue: {MaxWorkers: 1}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.inTx(func(ctx context.Context, tx pgx.Tx) error {
		_, err := c.r.client.InsertTx(ctx, tx, answeredArgs{}, &river.InsertOpts{MaxAttempts: 1})
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
	c.r.settings.StopLimit = 20 * time.Second
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
	var state string
	if err := c.pool.QueryRow(t.Context(), "SELECT state FROM river_job").Scan(&state); err != nil ||
		state != "completed" {
		t.Errorf("the job is %s: %v", state, err)
	}
}

// A job that does not end even when it is cancelled may have done anything. The process must not say that all is well.
func TestRunThatLeavesAJobBehindFails(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.r.settings.StopLimit = -stopGrace // no time at all
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
