package reconcile

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"

	"payonce/internal/deadletters"
	"payonce/test/pgtest"
)

// queue is an operator's way to enqueue a job.
func (c *crew) queue() *Queue {
	c.t.Helper()
	q, err := NewQueue(c.r.Log)
	if err != nil {
		c.t.Fatal(err)
	}
	return q
}

func TestJobOfTheSameArgumentsIsInTheQueueOnce(t *testing.T) {
	t.Parallel()
	c := setup(t)
	enqueue := func() {
		c.inTx(func(ctx context.Context, tx pgx.Tx) error { return c.queue().WebhookTx(ctx, tx, "evt_1") })
	}
	for _, state := range []string{"available", "retryable", "scheduled"} {
		enqueue()
		c.exec("UPDATE river_job SET state = '" + state + "'")
		enqueue()
		c.wantJobs("webhook", 1)
	}
	// One that has ended is none: an operator may want it again.
	c.exec(finish)
	enqueue()
	c.wantJobs("webhook", 2)
}

// An operator wants an event processed again whose last run has done its work, and whose end is not written yet.
func TestEventWhoseRunIsNotWrittenOffHasAnotherJob(t *testing.T) {
	t.Parallel()
	c := setup(t)
	for runs := 1; runs <= 3; runs++ {
		c.inTx(func(ctx context.Context, tx pgx.Tx) error { return c.queue().WebhookTx(ctx, tx, "evt_1") })
		c.wantJobs("webhook", runs)
		c.exec("UPDATE river_job SET state = 'running', attempted_at = now(), attempt = 1")
	}
}

func TestJobThatWasGivenUpRunsAgain(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.due()
	c.exec("UPDATE river_job SET state = 'discarded', attempt = max_attempts, finalized_at = now()")
	id := pgtest.Value[int64](t, c.pool, `SELECT (evidence ->> 'jobId')::bigint FROM dead_letters WHERE kind = 'job_discarded'
		AND tenant_id = 'acme' AND operation = 'POST /payments' AND key = 'order-0000000042' AND generation = 1`)
	c.inTx(func(ctx context.Context, tx pgx.Tx) error { return c.queue().RetryTx(ctx, tx, id) })
	var state rivertype.JobState
	var left int
	if err := c.pool.QueryRow(t.Context(), "SELECT state, max_attempts - attempt FROM river_job").Scan(&state,
		&left); err != nil {
		t.Fatal(err)
	}
	if state != rivertype.JobStateAvailable || left < 1 {
		t.Fatalf("the job is %s, with %d attempts left", state, left)
	}
}

func TestRetryOfAJobThatIsQueuedOrForgottenSaysSo(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.due()
	c.exec("UPDATE river_job SET state = 'discarded', attempt = max_attempts, finalized_at = now()")
	id := pgtest.Value[int64](t, c.pool, "SELECT id FROM river_job")
	c.due()
	for want, job := range map[error]int64{deadletters.ErrQueued: id, deadletters.ErrGone: id + 1000} {
		err := pgx.BeginFunc(t.Context(), c.pool,
			func(tx pgx.Tx) error { return c.queue().RetryTx(t.Context(), tx, job) })
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

// An operator who is told that a job runs again waits for it in vain if it does not. And an event that is stored
// without its job is never processed.
func TestJobThatTheDatabaseDoesNotTakeIsAnError(t *testing.T) {
	t.Parallel()
	c := setup(t)
	tx := pgtest.Begin(t, c.pool)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.queue().RetryTx(t.Context(), tx, 1); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("after the transaction's end: %v", err)
	}
	if err := c.queue().WebhookTx(t.Context(), tx, "evt_1"); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("enqueued after the transaction's end: %v", err)
	}
}
