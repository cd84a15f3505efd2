package reconcile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/deadletters"
	"payonce/internal/payments"
	"payonce/internal/telemetry"
)

// counted is what is not zero of a counter, or of a histogram's count, by its labels.
func counted(t *testing.T, reg *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := ""
			for _, label := range metric.GetLabel() {
				labels += " " + label.GetValue()
			}
			n := metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			if family.GetName() == name && n > 0 {
				counts[strings.TrimPrefix(labels, " ")] = n
			}
		}
	}
	return counts
}

// An alert is about what evidence has come to. A scan that finds the same dead letter again has found nothing new.
func TestEachEffectOfEvidenceIsCountedAsWhatItIs(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	r := &Reconciler{metrics: telemetry.NewMetrics(reg)}
	for result, effects := range map[string][]payments.Effect{
		resultCompleted: {payments.Completed{}},
		resultConfirmed: {payments.Confirmed{}, payments.LeftAlone{}},
		resultDeadLettered: {payments.DeadLettered{Kind: deadletters.UnknownMovement, New: true},
			payments.DeadLettered{Kind: deadletters.DuplicateMovement}},
	} {
		for _, effect := range effects {
			if got := r.countEffect(effect, payments.SourceWebhook); got != result {
				t.Errorf("the result of %T is %s, want %s", effect, got, result)
			}
		}
	}
	for _, result := range []payments.LookupResult{payments.Resolved, payments.Scheduled, payments.Scheduled,
		payments.ToOperator, payments.Moot} {
		r.countLookup(result)
	}
	want := map[string]float64{"resolved webhook": 1, "failed webhook": 1, "resolved lookup": 1, "scheduled lookup": 2,
		"failed lookup": 1}
	if diff := cmp.Diff(want, counted(t, reg, "payonce_idempotency_reconcile_total")); diff != "" {
		t.Errorf("counted otherwise (-want +got):\n%s", diff)
	}
	want = map[string]float64{string(deadletters.UnknownMovement): 1}
	if diff := cmp.Diff(want, counted(t, reg, "payonce_ledger_discrepancies_total")); diff != "" {
		t.Errorf("discrepancies are counted otherwise (-want +got):\n%s", diff)
	}
}
