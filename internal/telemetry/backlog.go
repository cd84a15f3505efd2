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

	keys, oldestUnknown, deadLetters, oldestDeadLetter *prometheus.Desc
	webhooks, oldestWebhook, watermark, jobs, overdue  *prometheus.Desc
}

// RegisterBacklog adds the figures of what waits. While the database does not answer, they are absent: an old figure
// would look like a good one.
func RegisterBacklog(reg prometheus.Registerer, now func() time.Time, read func(context.Context) (Backlog, error)) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("payonce_"+name, help, labels, nil)
	}
	reg.MustRegister(&backlog{
		read: read, now: now,
		keys: desc("idempotency_keys", "Keys by status. In a big table, the numbers of finished keys are estimates.",
			"status"),
		oldestUnknown:    desc("idempotency_unknown_oldest_age_seconds", "Age of the oldest unknown key."),
		deadLetters:      desc("dead_letters_open", "Open dead letters by kind.", "kind"),
		oldestDeadLetter: desc("dead_letter_oldest_age_seconds", "Age of the oldest open dead letter."),
		webhooks:         desc("webhooks_waiting", "Webhooks that are stored, but not processed yet."),
		oldestWebhook: desc("webhooks_waiting_oldest_age_seconds",
			"Age of the oldest webhook that is stored, but not processed yet."),
		watermark: desc("ledger_scan_oldest_age_seconds",
			"Time since the PSP's ledger was last read to its end, for the account that is furthest behind."),
		jobs:    desc("jobs", "Jobs in the queue that are not done, by state.", "state"),
		overdue: desc("lookups_overdue_seconds", "How long the oldest lookup that has not begun has been due."),
	})
}

// Describe implements prometheus.Collector.
func (b *backlog) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		b.keys, b.oldestUnknown, b.deadLetters, b.oldestDeadLetter, b.webhooks, b.oldestWebhook, b.watermark, b.jobs,
		b.overdue,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (b *backlog) Collect(out chan<- prometheus.Metric) {
	last, ok := b.fresh()
	if !ok {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for label, n := range last.Keys {
		gauge(b.keys, float64(n), label)
	}
	for label, n := range last.DeadLettersOpen {
		gauge(b.deadLetters, float64(n), label)
	}
	for label, n := range last.JobsByState {
		gauge(b.jobs, float64(n), label)
	}
	gauge(b.oldestUnknown, last.OldestUnknown.Seconds())
	gauge(b.oldestDeadLetter, last.OldestDeadLetter.Seconds())
	gauge(b.webhooks, float64(last.WebhooksWaiting))
	gauge(b.oldestWebhook, last.OldestWebhook.Seconds())
	gauge(b.watermark, last.OldestWatermark.Seconds())
	gauge(b.overdue, last.LookupsOverdueBy.Seconds())
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
