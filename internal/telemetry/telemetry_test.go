package telemetry

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func scrape(reg *prometheus.Registry) string {
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec,
		httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return rec.Body.String()
}

func TestEachFigureIsCountedUnderItsName(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	RegisterGauges(reg, Gauges{
		PoolAcquired: func() float64 { return 11 }, PoolIdle: func() float64 { return 12 },
		PoolMax: func() float64 { return 13 }, PSPInFlight: func() float64 { return 14 },
		CommitSlotsBusy: func() float64 { return 15 }, CommitSlotsWaiting: func() float64 { return 16 },
		RequestsWaiting: func() float64 { return 17 },
	})
	m.Reserved("created")
	m.Reserved("created")
	m.Reserved("replay")
	m.StoreFailed("reserve")
	m.Fenced()
	m.CommitAmbiguous()
	m.CommitAmbiguous()
	m.PSPRequest("succeeded", 3*time.Millisecond)
	m.PSPRequest("succeeded", 20*time.Second)
	m.HTTPRequest("/payments/{paymentId}", "200", 40*time.Second)
	page := scrape(reg)
	for _, line := range []string{
		`payonce_idempotency_reserve_total{outcome="created"} 2`,
		`payonce_idempotency_reserve_total{outcome="replay"} 1`,
		`payonce_idempotency_store_errors_total{op="reserve"} 1`, `payonce_fenced_writes_total 1`,
		`payonce_commit_ambiguous_total 2`,
		`payonce_psp_request_duration_seconds_count{outcome="succeeded"} 2`,
		`payonce_psp_request_duration_seconds_sum{outcome="succeeded"} 20.003`,
		`payonce_psp_request_duration_seconds_bucket{outcome="succeeded",le="0.0025"} 0`,
		`payonce_psp_request_duration_seconds_bucket{outcome="succeeded",le="0.005"} 1`,
		`payonce_psp_request_duration_seconds_bucket{outcome="succeeded",le="16"} 1`,
		`payonce_http_request_duration_seconds_sum{route="/payments/{paymentId}",status="200"} 40`,
		`payonce_db_pool_acquired_connections 11`, `payonce_db_pool_idle_connections 12`,
		`payonce_db_pool_max_connections 13`, `payonce_psp_requests_in_flight 14`,
		`payonce_db_commit_slots_busy 15`, `payonce_db_commit_slots_waiting 16`, `payonce_requests_waiting 17`,
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
}

// A rate over a counter that appears with its first event misses that event.
func TestEveryOutcomeOfAReservationStartsAtZero(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	NewMetrics(reg)
	page := scrape(reg)
	for _, outcome := range []string{"created", "replay", "in_progress", "key_misuse", "failed_retry", "unknown"} {
		if line := `payonce_idempotency_reserve_total{outcome="` + outcome +
			`"} 0`; !strings.Contains(page, line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
}

func TestLogIsJSONFromItsLevelOn(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log := NewLogger(&b, slog.LevelWarn)
	log.Info("not this")
	log.Warn("this", slog.Int("n", 1))
	var line struct {
		Level, Msg string
		N          int
	}
	if err := json.Unmarshal(b.Bytes(), &line, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatalf("%v: %s", err, b.String())
	}
	if line.Level != "WARN" || line.Msg != "this" || line.N != 1 {
		t.Fatalf("%s", b.String())
	}
}

func TestEachFigureOfTheReconcilerIsCountedUnderItsName(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	m.Swept(3)
	m.Pruned(4)
	m.Reconciled("resolved", "webhook")
	m.WebhookReceived("duplicate")
	m.WebhookLag(2 * time.Second)
	m.WebhookLag(-time.Second) // a sender's clock may be ahead
	m.Discrepancy("unknown_movement")
	m.JobRan("sweep", "done", 20*time.Second)
	page := scrape(reg)
	for _, line := range []string{
		`payonce_idempotency_zombie_keys_total 3`, `payonce_idempotency_ttl_pruned_total 4`,
		`payonce_idempotency_reconcile_total{result="resolved",source="webhook"} 1`,
		`payonce_idempotency_reconcile_total{result="failed",source="lookup"} 0`,
		`payonce_webhooks_total{result="duplicate"} 1`, `payonce_webhooks_total{result="bad_signature"} 0`,
		`payonce_webhook_lag_seconds_sum 2`, `payonce_webhook_lag_seconds_count 2`,
		`payonce_ledger_discrepancies_total{kind="unknown_movement"} 1`,
		`payonce_job_duration_seconds_sum{kind="sweep",result="done"} 20`,
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
}
