package telemetry

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Backlog is what waits to be resolved, as the database has it.
type Backlog struct {
	Keys             map[string]int64 // by status
	OldestUnknown    time.Duration
	DeadLettersOpen  map[string]int64 // by kind
	OldestDeadLetter time.Duration
	WebhooksWaiting  int64
	OldestWebhook    time.Duration
	OldestWatermark  time.Duration    // age of the scan that is furthest behind
	JobsByState      map[string]int64 // of the queue
	LookupsOverdueBy time.Duration
	OldestEvent      time.Duration // that waits for the reconciler
}

// How a backlog is read: for a scrape at most every few seconds, and never for long.
const (
	backlogFreshFor = 5 * time.Second
	backlogTimeout  = 3 * time.Second
)

// backlog is a collector that asks the database when it is scraped.
type backlog struct {
	read func(context.Context) (Backlog, error)
	now  func() time.Time

	mu   sync.Mutex
	last Backlog
	at   time.Time
}

// RegisterBacklog adds the figures of what waits. While the database does not answer, they are absent: an old figure
// would look like a good one.
func RegisterBacklog(reg prometheus.Registerer, now func() time.Time, read func(context.Context) (Backlog, error)) {
	reg.MustRegister(&backlog{read: read, now: now})
}

// Describe names no figure, because they may be absent.
func (b *backlog) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (b *backlog) Collect(out chan<- prometheus.Metric) {
	last, ok := b.fresh()
	if !ok {
		return
	}
	gauge := func(name, help string, value float64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("payonce_"+name, help, nil, nil),
			prometheus.GaugeValue, value)
	}
	counts := func(name, help, label string, by map[string]int64) {
		d := prometheus.NewDesc("payonce_"+name, help, []string{label}, nil)
		for value, n := range by {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), value)
		}
	}
	counts("idempotency_keys", "Keys by status. In a big table, the numbers of finished keys are estimates.",
		"status", last.Keys)
	gauge("idempotency_unknown_oldest_age_seconds", "Age of the oldest unknown key.", last.OldestUnknown.Seconds())
	counts("dead_letters_open", "Open dead letters by kind.", "kind", last.DeadLettersOpen)
	gauge("dead_letter_oldest_age_seconds", "Age of the oldest open dead letter.", last.OldestDeadLetter.Seconds())
	gauge("webhooks_waiting", "Webhooks that are stored, but not processed yet.", float64(last.WebhooksWaiting))
	gauge("webhooks_waiting_oldest_age_seconds", "Age of the oldest webhook that is stored, but not processed yet.",
		last.OldestWebhook.Seconds())
	gauge("ledger_scan_oldest_age_seconds",
		"Time since the PSP's ledger was last read to its end, for the account that is furthest behind.",
		last.OldestWatermark.Seconds())
	counts("jobs", "Jobs in the queue that are not done, by state.", "state", last.JobsByState)
	gauge("lookups_overdue_seconds", "How long the oldest lookup that has not begun has been due.",
		last.LookupsOverdueBy.Seconds())
	gauge("events_waiting_oldest_age_seconds",
		"How long the oldest event has waited for its place in the feed, or for an endpoint that does not rest after a failure.",
		last.OldestEvent.Seconds())
}

// fresh reads, unless somebody has a moment ago.
func (b *backlog) fresh() (Backlog, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.at.IsZero() && b.now().Sub(b.at) < backlogFreshFor {
		return b.last, true
	}
	ctx, cancel := context.WithTimeout(context.Background(), backlogTimeout)
	defer cancel()
	last, err := b.read(ctx)
	if err != nil {
		return Backlog{}, false
	}
	b.last, b.at = last, b.now()
	return last, true
}
