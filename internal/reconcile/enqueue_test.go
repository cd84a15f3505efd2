package reconcile

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/internal/webhooks"
)

// job is a row of the queue, but for its number and its times, which are told apart by whether they are now.
func (c *crew) job(eventID string) map[string]any {
	c.t.Helper()
	rows, _ := c.pool.Query(c.t.Context(), `SELECT to_jsonb(j) - 'id' - 'created_at' - 'scheduled_at'
		|| jsonb_build_object('due', j.scheduled_at BETWEEN now() - interval '1 minute' AND now(), 'created', j.created_at = j.scheduled_at)
		FROM river_job AS j WHERE args ->> 'eventId' = $1`, eventID)
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[map[string]any])
	if err != nil {
		c.t.Fatalf("find the job of %q: %v", eventID, err)
	}
	return row
}

// A new version of River may write another row. Then db/queries/jobs.sql must, too.
func TestJobOfAWebhookIsTheRowThatRiverWrites(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"evt_1", `!"\\</script>&~`, "a'b$1{}", "0"} {
		c := setup(t)
		c.inTx(func(ctx context.Context, tx pgx.Tx) error { return c.queue.WebhookTx(ctx, tx, id) })
		rivers := c.job(id)
		c.exec("TRUNCATE river_job")
		c.receive(id)
		if diff := cmp.Diff(rivers, c.job(id)); diff != "" {
			t.Errorf("%q (-River's +ours):\n%s", id, diff)
		}
	}
}

// receive stores an event as the API does.
func (c *crew) receive(id string) {
	c.t.Helper()
	inbox := webhooks.New(postgres.Wrap(c.pool, time.Second), c.queue.QueueWebhook)
	if _, err := inbox.Receive(c.t.Context(), webhooks.Event{ID: id, SentAt: time.Now(), Body: []byte("{}")}); err != nil {
		c.t.Fatal(err)
	}
}

func TestDuplicateHasNoSecondJobAfterTheFirst(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.receive("evt_1")
	c.receive("evt_1")
	c.wantJobs("webhook", 1)
	c.exec(finish)
	c.receive("evt_1")
	c.wantJobs("webhook", 1)
}

// An operator has an event processed again whose first job is open: that one will do it.
func TestOperatorFindsTheFirstJobOfAnEvent(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.receive("evt_1")
	c.inTx(func(ctx context.Context, tx pgx.Tx) error { return c.queue.WebhookTx(ctx, tx, "evt_1") })
	c.wantJobs("webhook", 1)
}

// The job of an event that was dismissed and pruned can still be open when it comes once more. It will process it.
func TestEventThatFindsAnOpenJobIsStored(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.receive("evt_1")
	c.exec("DELETE FROM webhook_events")
	c.receive("evt_1")
	c.wantJobs("webhook", 1)
}

// Were a job left out in silence because the setting has another name there, the event would wait for ever.
func TestJobBehindNoStoredEventIsAnError(t *testing.T) {
	t.Parallel()
	c := setup(t)
	b := &pgx.Batch{}
	c.queue.QueueWebhook(b, "evt_1")
	if err := c.pool.SendBatch(t.Context(), b).Close(); err == nil {
		t.Fatal("no error")
	}
	c.wantJobs("webhook", 0)
}

// River's own word comes first. Of ours there is one in 50 ms.
func TestWorkersAreToldOfAWebhookNowAndThen(t *testing.T) {
	t.Parallel()
	c := setup(t)
	now := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	var err error
	if c.queue, err = NewQueue(func() time.Time { return now }, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	heard := c.listen()
	c.inTx(func(ctx context.Context, tx pgx.Tx) error { return c.queue.WebhookTx(ctx, tx, "evt_0") })
	c.receive("evt_1")
	c.receive("evt_2")
	now = now.Add(wakeEvery)
	c.receive("evt_3")
	c.exec("SELECT pg_notify(current_schema() || '.river_insert', 'the end')")
	if words := heard(); len(words) != 3 || words[1] != words[0] || words[2] != words[0] {
		t.Errorf("River's word and ours: %q", words)
	}
}

// listen hears what River's workers hear, up to the end.
func (c *crew) listen() (heard func() []string) {
	c.t.Helper()
	conn, err := c.pool.Acquire(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(conn.Release)
	if _, err := conn.Exec(c.t.Context(), `LISTEN "public.river_insert"`); err != nil {
		c.t.Fatal(err)
	}
	return func() (words []string) {
		ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
		defer cancel()
		for {
			n, err := conn.Conn().WaitForNotification(ctx)
			if err != nil {
				c.t.Fatalf("after %q: %v", words, err)
			}
			if n.Payload == "the end" {
				return words
			}
			words = append(words, n.Payload)
		}
	}
}
