package webhooks

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// processedAgo stores an event that was processed so long ago.
func (d *fixture) processedAgo(id string, ago time.Duration) {
	d.t.Helper()
	d.receive(id)
	d.exec("UPDATE webhook_events SET result = 'resolved', processed_at = clock_timestamp() - $2::interval WHERE id = $1", id, ago)
}

func (d *fixture) left() string {
	d.t.Helper()
	return d.text("SELECT coalesce(string_agg(id, ' ' ORDER BY id), '') FROM webhook_events")
}

func (d *fixture) prune(olderThan time.Duration, limit int32, want int64) {
	d.t.Helper()
	n, err := d.inbox.Prune(d.t.Context(), olderThan, limit)
	if err != nil || n != want {
		d.t.Fatalf("pruned %d, %v; want %d", n, err, want)
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
	rival, err := d.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer rival.Rollback(t.Context())
	if _, err := rival.Exec(t.Context(), "SELECT FROM webhook_events WHERE id = 'evt_1' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
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
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := conn.Query(t.Context(), "EXPLAIN EXECUTE pruning ('5 hours', 100)")
	if err != nil {
		t.Fatal(err)
	}
	var plan []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, strings.TrimSpace(line))
	}
	text := strings.Join(plan, "\n")
	if !strings.Contains(text, "webhook_events_processed_at") ||
		!strings.Contains(text, "Index Cond: (processed_at <=") || strings.Contains(text, "Seq Scan") {
		t.Fatalf("the plan is\n%s", text)
	}
}
