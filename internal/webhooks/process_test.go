package webhooks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

const resultOfOne = "SELECT coalesce(result, 'none') FROM webhook_events WHERE id = 'evt_1'"

func TestProcessedEventSaysWhatCameOfItOnce(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.receive("evt_1")
	if err := d.inbox.MarkProcessed(t.Context(), "evt_1", "resolved"); err != nil {
		t.Fatal(err)
	}
	when := d.text("SELECT processed_at::text FROM webhook_events WHERE id = 'evt_1'")
	wantErr(t, d.inbox.MarkProcessed(t.Context(), "evt_1", "dead_letter"), nil)
	if got := d.text(resultOfOne); got != "resolved" {
		t.Errorf("the second result is %s", got)
	}
	if again := d.text("SELECT processed_at::text FROM webhook_events WHERE id = 'evt_1'"); again != when {
		t.Errorf("processed at %s, then at %s", when, again)
	}
}

func TestEventThatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	d := setup(t)
	_, err := d.inbox.Load(t.Context(), "evt_none")
	wantErr(t, err, ErrNoEvent)
	wantErr(t, d.inbox.MarkProcessed(t.Context(), "evt_none", "resolved"), nil)
	// Otherwise an operator would wait for the processing of an event that is not there any more.
	err = pgx.BeginFunc(t.Context(), d.pool, func(tx pgx.Tx) error { return ReopenTx(t.Context(), tx, "evt_none") })
	wantErr(t, err, ErrNoEvent)
}

// An operator who is told that an event is open again waits for its processing.
func TestStatementThatFailsOpensNothing(t *testing.T) {
	t.Parallel()
	d := setup(t)
	pool, outage := pgtest.WithOutage(t, d.pool)
	d.receive("evt_1")
	outage.On("name: SetResult", 1)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return ReopenTx(t.Context(), tx, "evt_1") })
	if err == nil || errors.Is(err, ErrNoEvent) || !strings.Contains(err.Error(), "reopen event") {
		t.Errorf("opened again: %v", err)
	}
}

func TestProcessingCommitsWithWhatItHasChanged(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.exec("CREATE TABLE money (n int CHECK (n > 0))")
	d.receive("evt_1")
	db := postgres.Wrap(d.pool, patience)
	change := func(n int, result string) error {
		return db.Pipeline(t.Context(), Processed("evt_1", result),
			func(ctx context.Context, q postgres.Statement) error {
				_, err := q.Exec(ctx, "INSERT INTO money VALUES ($1)", n)
				return err
			})
	}
	if err := change(-1, "resolved"); !postgres.RolledBack(err) {
		t.Fatal(err)
	}
	if got := d.text(resultOfOne); got != "none" {
		t.Fatalf("processed as %s, without its change", got)
	}
	for _, result := range []string{"resolved", "confirmed"} { // a job may run twice
		if err := change(1, result); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.text(resultOfOne); got != "resolved" {
		t.Fatalf("processed as %s", got)
	}
}

func TestStoreThatIsAwayIsNoMissingEvent(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.receive("evt_1")
	d.proxy.Down()
	if _, err := d.inbox.Load(t.Context(), "evt_1"); !postgres.Unavailable(err) {
		t.Error(err)
	}
	if err := d.inbox.MarkProcessed(t.Context(), "evt_1", "resolved"); !postgres.Unavailable(err) {
		t.Error(err)
	}
	if _, err := d.inbox.Prune(t.Context(), 0, 1); !postgres.Unavailable(err) {
		t.Error(err)
	}
}

// results is what came of each event that is stored.
func (f *fixture) results() string {
	f.t.Helper()
	return f.text("SELECT string_agg(id || ' ' || coalesce(result, 'open'), ', ' ORDER BY id) FROM webhook_events")
}

// An event that is marked with the result of another is not processed, and one that is opened again without need is
// processed twice.
func TestStepOfAnEventMovesNoOtherEvent(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for _, id := range []string{"evt_0", "evt_1", "evt_2", "evt_3"} {
		d.receive(id)
	}
	for id, result := range map[string]string{"evt_0": "resolved", "evt_2": "ignored"} {
		if err := d.inbox.MarkProcessed(t.Context(), id, result); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.results(); got != "evt_0 resolved, evt_1 open, evt_2 ignored, evt_3 open" {
		t.Errorf("after two were processed, they are %s", got)
	}
	err := pgx.BeginFunc(t.Context(), d.pool, func(tx pgx.Tx) error {
		return ReopenTx(context.Background(), tx, "evt_2")
	})
	if got := d.results(); err != nil || got != "evt_0 resolved, evt_1 open, evt_2 open, evt_3 open" {
		t.Errorf("after one was opened again, they are %s, %v", got, err)
	}
	for id, processed := range map[string]bool{"evt_0": true, "evt_1": false, "evt_3": false} {
		if s, err := d.inbox.Load(t.Context(), id); err != nil || s.ID != id || s.Processed != processed {
			t.Errorf("asked for %s, it is %+v, %v", id, s, err)
		}
	}
}

// processedAgo stores an event that was processed so long ago.
func (f *fixture) processedAgo(id string, ago time.Duration) {
	f.t.Helper()
	f.receive(id)
	f.exec("UPDATE webhook_events SET result = 'resolved', processed_at = clock_timestamp() - $2::interval WHERE id = $1", id, ago)
}

func (f *fixture) left() string {
	f.t.Helper()
	return f.text("SELECT coalesce(string_agg(id, ' ' ORDER BY id), '') FROM webhook_events")
}

func (f *fixture) prune(olderThan time.Duration, limit int32, want int64) {
	f.t.Helper()
	n, err := f.inbox.Prune(f.t.Context(), olderThan, limit)
	if err != nil || n != want {
		f.t.Fatalf("pruned %d, %v; want %d", n, err, want)
	}
}

func TestOldProcessedEventsGoTheOldestFirst(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for hours := 1; hours <= 5; hours++ {
		d.processedAgo(fmt.Sprintf("evt_%d", hours), time.Duration(hours)*time.Hour)
	}
	d.prune(150*time.Minute, 2, 2)
	if got := d.left(); got != "evt_1 evt_2 evt_3" {
		t.Fatalf("left are %s", got)
	}
	d.prune(150*time.Minute, 2, 1)
	d.prune(150*time.Minute, 2, 0)
	if got := d.left(); got != "evt_1 evt_2" {
		t.Fatalf("left are %s", got)
	}
	d.prune(0, 0, 0)
	d.prune(0, 10, 2)
}

func TestUnprocessedEventIsNeverPruned(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.receive("evt_old")
	d.exec("UPDATE webhook_events SET received_at = '2001-01-01', sent_at = '2001-01-01'")
	d.prune(0, 10, 0)
	if got := d.left(); got != "evt_old" {
		t.Fatalf("left are %q", got)
	}
}

func TestPrunersDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.processedAgo("evt_1", 2*time.Hour)
	d.processedAgo("evt_2", time.Hour)
	rival := pgtest.Begin(t, d.pool)
	pgtest.Exec(t, rival, "SELECT FROM webhook_events WHERE id = 'evt_1' FOR UPDATE")
	d.prune(time.Minute, 1, 1)
	if got := d.left(); got != "evt_1" {
		t.Fatalf("left are %s", got)
	}
}

// A statement that read the whole table, or the index to its end, would grow with what is kept instead of what goes.
func TestPruningSearchesTheIndexByTime(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.processedAgo("evt_1", time.Hour)
	d.prune(time.Minute, 1, 1)
	d.exec(`INSERT INTO webhook_events (id, sent_at, body, processed_at, result)
		SELECT 'evt_' || n, clock_timestamp(), 'x', clock_timestamp() - n * interval '1 second', 'resolved' FROM generate_series(1, 20000) AS n`)
	d.exec("ANALYZE webhook_events")
	conn, err := d.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, statement := range []string{"SET plan_cache_mode = force_generic_plan", "PREPARE pruning AS " +
		d.proxy.SQL("PruneEvents")} {
		pgtest.Exec(t, conn, statement)
	}
	text := strings.Join(pgtest.Values[string](t, conn, "EXPLAIN EXECUTE pruning ('5 hours', 100)"), "\n")
	if !strings.Contains(text, "webhook_events_processed_at") ||
		!strings.Contains(text, "Index Cond: (processed_at <=") || strings.Contains(text, "Seq Scan") {
		t.Fatalf("the plan is\n%s", text)
	}
}
