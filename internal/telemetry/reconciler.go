package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// reconciler counts what happens behind the request path.
type reconciler struct {
	zombies       prometheus.Counter
	pruned        prometheus.Counter
	reconciled    *prometheus.CounterVec
	webhooks      *prometheus.CounterVec
	webhookLag    prometheus.Observer
	discrepancies *prometheus.CounterVec
	foreign       *prometheus.CounterVec
	jobs          *prometheus.HistogramVec
}

func newReconciler(reg prometheus.Registerer) reconciler {
	r := reconciler{
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
			"Readings of records in the PSP's account that Payonce did not make, and events that say nothing "+
				"about a movement. A record is read again by each scan that overlaps.", "object"),
		jobs: seconds(reg, "payonce_job_duration_seconds", "Duration of background jobs, by kind and result.",
			[]float64{.005, .01, .05, .1, .5, 1, 5, 10, 30}, "kind", "result"),
	}
	for _, source := range []string{"lookup", "webhook", "scan"} {
		for _, result := range []string{"resolved", "scheduled", "failed"} {
			r.reconciled.WithLabelValues(result, source)
		}
	}
	for _, result := range []string{"stored", "duplicate", "bad_signature", "stale", "malformed", "too_large",
		"store_error"} {
		r.webhooks.WithLabelValues(result)
	}
	return r
}

// Swept counts keys whose lease ran out.
func (r *reconciler) Swept(keys int) { r.zombies.Add(float64(keys)) }

// Pruned counts keys that were expired.
func (r *reconciler) Pruned(keys int64) { r.pruned.Add(float64(keys)) }

// Reconciled counts evidence by its result: resolved, scheduled or failed.
func (r *reconciler) Reconciled(result, source string) {
	r.reconciled.WithLabelValues(result, source).Inc()
}

// WebhookReceived counts a webhook by its result.
func (r *reconciler) WebhookReceived(result string) { r.webhooks.WithLabelValues(result).Inc() }

// WebhookLag records the time from the sending of a webhook to the end of its processing.
func (r *reconciler) WebhookLag(lag time.Duration) { r.webhookLag.Observe(max(lag, 0).Seconds()) }

// Discrepancy counts a difference between the PSP's books and ours.
func (r *reconciler) Discrepancy(kind string) { r.discrepancies.WithLabelValues(kind).Inc() }

// Foreign counts what a PSP has told of others: of a charge, a refund, or an event.
func (r *reconciler) Foreign(object string, n int) { r.foreign.WithLabelValues(object).Add(float64(n)) }

// JobRan records one run of a background job.
func (r *reconciler) JobRan(kind, result string, took time.Duration) {
	r.jobs.WithLabelValues(kind, result).Observe(took.Seconds())
}
