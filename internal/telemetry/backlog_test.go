package telemetry

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestBacklogIsReadWhenItIsAskedForAndNotTwiceInAMoment(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	now, reads := time.Unix(1000, 0), 0
	RegisterBacklog(reg, func() time.Time { return now }, func(context.Context) (Backlog, error) {
		reads++
		return Backlog{
			Keys: map[string]int64{"unknown": int64(reads)}, OldestUnknown: 3 * time.Second,
			DeadLettersOpen:  map[string]int64{"job_discarded": 2},
			OldestDeadLetter: 4 * time.Second, WebhooksWaiting: 5, OldestWebhook: 6 * time.Second,
			OldestWatermark: 7 * time.Second,
			JobsByState:     map[string]int64{"running": 8}, LookupsOverdueBy: 9 * time.Second,
		}, nil
	})
	page := scrape(reg)
	for _, line := range []string{
		`payonce_idempotency_keys{status="unknown"} 1`, `payonce_idempotency_unknown_oldest_age_seconds 3`,
		`payonce_dead_letters_open{kind="job_discarded"} 2`,
		`payonce_dead_letter_oldest_age_seconds 4`, `payonce_webhooks_waiting 5`,
		`payonce_webhooks_waiting_oldest_age_seconds 6`,
		`payonce_ledger_scan_oldest_age_seconds 7`, `payonce_jobs{state="running"} 8`,
		`payonce_lookups_overdue_seconds 9`,
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	now = now.Add(backlogFreshFor - 1)
	scrape(reg)
	if reads != 1 {
		t.Fatalf("read %d times within a moment", reads)
	}
	now = now.Add(1)
	if page := scrape(reg); reads != 2 || !strings.Contains(page, `payonce_idempotency_keys{status="unknown"} 2`) {
		t.Fatalf("read %d times: %s", reads, page)
	}
}

// An old figure would look like a good one.
func TestBacklogThatCannotBeReadIsAbsent(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	NewMetrics(reg)
	RegisterBacklog(reg, time.Now, func(ctx context.Context) (Backlog, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("a scrape may wait for ever")
		}
		return Backlog{}, errors.New("database away")
	})
	page := scrape(reg)
	if strings.Contains(page, "payonce_dead_letter_oldest_age_seconds") ||
		!strings.Contains(page, "payonce_fenced_writes_total 0") {
		t.Fatal(page)
	}
}
