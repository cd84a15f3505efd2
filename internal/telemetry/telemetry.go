// Package telemetry owns the Prometheus metrics and the logger. It knows no other package. No metric has a label for
// the tenant or the key: their number has no bound, and they are private.
//
// Logs never hold a body, a token, a signature, an Authorization header or a raw key. The code that logs names each
// attribute, and the end-to-end tests send canaries through everything.
package telemetry

import (
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the counters of the request path and of the reconciler. Both processes have them all: what one does not
// do stays at zero.
type Metrics struct {
	reserve         *prometheus.CounterVec
	storeErrors     *prometheus.CounterVec
	fencedWrites    prometheus.Counter
	commitAmbiguous prometheus.Counter
	pspSeconds      *prometheus.HistogramVec
	httpSeconds     *prometheus.HistogramVec

	// What happens behind the request path.
	zombies       prometheus.Counter
	pruned        prometheus.Counter
	reconciled    *prometheus.CounterVec
	webhooks      *prometheus.CounterVec
	webhookLag    prometheus.Observer
	discrepancies *prometheus.CounterVec
	foreign       *prometheus.CounterVec
	jobs          *prometheus.HistogramVec
	dispatched    prometheus.Counter
	deliveries    *prometheus.CounterVec
	disabled      prometheus.Counter
}

// Gauges are figures that are read when they are asked for.
type Gauges struct {
	PoolAcquired, PoolIdle, PoolMax, CommitSlotsBusy, CommitSlotsWaiting, PSPInFlight, RequestsWaiting func() float64
}

// NewMetrics registers everything on reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		reserve: counters(reg, "payonce_idempotency_reserve_total",
			"Requests with an idempotency key, by the state of the key that the reservation found.", "outcome"),
		storeErrors: counters(reg, "payonce_idempotency_store_errors_total",
			"Failures of the database, by operation of the key store.", "op"),
		fencedWrites: counters(reg, "payonce_fenced_writes_total",
			"Writes that the fencing token stopped, because the owner had lost its lease.").WithLabelValues(),
		commitAmbiguous: counters(reg, "payonce_commit_ambiguous_total",
			"Commits whose acknowledgement from the database was lost.").WithLabelValues(),
		pspSeconds: seconds(reg, "payonce_psp_request_duration_seconds",
			"Duration of requests to the PSP, by outcome.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 4, 8, 16}, "outcome"),
		httpSeconds: seconds(reg, "payonce_http_request_duration_seconds",
			"Duration of HTTP requests, by route and status.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, "route", "status"),
		zombies: counters(reg, "payonce_idempotency_zombie_keys_total",
			"Keys whose lease ended before the owner wrote an outcome.").WithLabelValues(),
		pruned: counters(reg, "payonce_idempotency_ttl_pruned_total",
			"Keys that expired because their retention time was over.").WithLabelValues(),
		reconciled: counters(reg, "payonce_idempotency_reconcile_total",
			"Evidence about keys, by result and source: the key is resolved, another lookup is scheduled, or "+
				"a dead letter is open.", "result", "source"),
		webhooks: counters(reg, "payonce_webhooks_total", "Webhooks that were received, by result.", "result"),
		webhookLag: seconds(reg, "payonce_webhook_lag_seconds",
			"Time from the sending of a webhook to the end of its processing.",
			[]float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600}).WithLabelValues(),
		discrepancies: counters(reg, "payonce_ledger_discrepancies_total",
			"Differences between the PSP's records and ours, by kind. Each dead letter and each new "+
				"break is counted once.", "kind"),
		foreign: counters(reg, "payonce_psp_foreign_total",
			"Readings of records in the PSP's account that this installation did not make, and events that say "+
				"nothing about a movement. A record is read again by each scan that overlaps.", "object"),
		jobs: seconds(reg, "payonce_job_duration_seconds", "Duration of background jobs, by kind and result.",
			[]float64{.005, .01, .05, .1, .5, 1, 5, 10, 30}, "kind", "result"),
		dispatched: counters(reg, "payonce_events_dispatched_total",
			"Events for merchants that got their places in the feed.").WithLabelValues(),
		deliveries: counters(reg, "payonce_event_deliveries_total",
			"Requests that deliver an event to a merchant's endpoint, by result: it is delivered, it failed and is "+
				"tried again, or it is given up.", "result"),
		disabled: counters(reg, "payonce_webhook_endpoints_disabled_total",
			"Endpoints that were disabled, because no delivery succeeded for too long or the server answered 410.",
		).WithLabelValues(),
	}
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, outcome := range []string{"created", "replay", "in_progress", "key_misuse", "failed_retry", "unknown"} {
		m.reserve.WithLabelValues(outcome)
	}
	for _, source := range []string{"lookup", "webhook", "scan"} {
		for _, result := range []string{"resolved", "scheduled", "failed"} {
			m.reconciled.WithLabelValues(result, source)
		}
	}
	for _, result := range []string{"stored", "ignored", "duplicate", "bad_signature", "stale", "malformed",
		"too_large", "store_error"} {
		m.webhooks.WithLabelValues(result)
	}
	for _, result := range []string{"delivered", "failed", "given_up"} {
		m.deliveries.WithLabelValues(result)
	}
	return m
}

func counters(reg prometheus.Registerer, name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.With(reg).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func seconds(
	reg prometheus.Registerer, name, help string, buckets []float64, labels ...string,
) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
	return promauto.With(reg).NewHistogramVec(opts, labels)
}

// RegisterGauges adds figures of the pool and the PSP's queue.
func RegisterGauges(reg prometheus.Registerer, g Gauges) {
	for name, fn := range map[string]struct {
		help string
		read func() float64
	}{
		"payonce_db_pool_acquired_connections": {"Database connections in use.", g.PoolAcquired},
		"payonce_db_pool_idle_connections":     {"Database connections in the pool that are not in use.", g.PoolIdle},
		"payonce_db_pool_max_connections":      {"Maximum number of database connections in the pool.", g.PoolMax},
		"payonce_db_commit_slots_busy": {"Commit slots in use: transactions of payments that are running.",
			g.CommitSlotsBusy},
		"payonce_db_commit_slots_waiting": {"Payments that wait for a commit slot, to join the next group commit.",
			g.CommitSlotsWaiting},
		"payonce_psp_requests_in_flight": {"Requests to the PSP that are in flight.", g.PSPInFlight},
		"payonce_requests_waiting": {"Requests that wait for an execution or an outcome, of 2000 at most.",
			g.RequestsWaiting},
	} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: fn.help}, fn.read))
	}
}

// Reserved counts what a reservation found.
func (m *Metrics) Reserved(outcome string) { m.reserve.WithLabelValues(outcome).Inc() }

// StoreFailed counts a failure of the store.
func (m *Metrics) StoreFailed(op string) { m.storeErrors.WithLabelValues(op).Inc() }

// Fenced counts a write that the fence stopped.
func (m *Metrics) Fenced() { m.fencedWrites.Inc() }

// CommitAmbiguous counts a lost acknowledgement.
func (m *Metrics) CommitAmbiguous() { m.commitAmbiguous.Inc() }

// PSPRequest records a request to the PSP.
func (m *Metrics) PSPRequest(outcome string, took time.Duration) {
	m.pspSeconds.WithLabelValues(outcome).Observe(took.Seconds())
}

// HTTPRequest records a request to us. route is the pattern, never the path.
func (m *Metrics) HTTPRequest(route, status string, took time.Duration) {
	m.httpSeconds.WithLabelValues(route, status).Observe(took.Seconds())
}

// Swept counts keys whose lease ran out.
func (m *Metrics) Swept(keys int) { m.zombies.Add(float64(keys)) }

// Pruned counts keys that were expired.
func (m *Metrics) Pruned(keys int64) { m.pruned.Add(float64(keys)) }

// Reconciled counts evidence by its result: resolved, scheduled or failed.
func (m *Metrics) Reconciled(result, source string) {
	m.reconciled.WithLabelValues(result, source).Inc()
}

// WebhookReceived counts a webhook by its result.
func (m *Metrics) WebhookReceived(result string) { m.webhooks.WithLabelValues(result).Inc() }

// WebhookLag records the time from the sending of a webhook to the end of its processing.
func (m *Metrics) WebhookLag(lag time.Duration) { m.webhookLag.Observe(max(lag, 0).Seconds()) }

// Discrepancy counts a difference between the PSP's books and ours.
func (m *Metrics) Discrepancy(kind string) { m.discrepancies.WithLabelValues(kind).Inc() }

// Foreign counts what a PSP has told of others: of a charge, a refund, or an event.
func (m *Metrics) Foreign(object string, n int) { m.foreign.WithLabelValues(object).Add(float64(n)) }

// JobRan records one run of a background job.
func (m *Metrics) JobRan(kind, result string, took time.Duration) {
	m.jobs.WithLabelValues(kind, result).Observe(took.Seconds())
}

// EventsDispatched counts events that got their places in the feed.
func (m *Metrics) EventsDispatched(n int) { m.dispatched.Add(float64(n)) }

// EventDelivered counts a try to deliver an event by its result.
func (m *Metrics) EventDelivered(result string) { m.deliveries.WithLabelValues(result).Inc() }

// EndpointDisabled counts an endpoint that gets nothing any more.
func (m *Metrics) EndpointDisabled() { m.disabled.Inc() }

// NewLogger writes JSON lines from level on.
func NewLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}

// NewTextLogger writes lines for a person at a terminal, from level on.
func NewTextLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}
