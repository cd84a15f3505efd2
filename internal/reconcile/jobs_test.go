package reconcile

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payments"
	"payonce/internal/telemetry"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// crew is a reconciler that enqueues and works nothing, on a database of the test's own.
type crew struct {
	t    *testing.T
	pool *pgxpool.Pool
	r    *Reconciler
}

func setup(t *testing.T) *crew {
	t.Helper()
	pool, log := pgtest.New(t), slog.New(slog.DiscardHandler)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	return &crew{t: t, pool: pool, r: &Reconciler{Config{Now: time.Now, Log: log}, client}}
}

// setupMerchant is a crew of a tenant, whose PSP is asked nothing but what its webhooks say.
func setupMerchant(t *testing.T) *crew {
	t.Helper()
	c := setup(t)
	c.exec("INSERT INTO tenants (id, psp_account) VALUES ('acme', 'acct_acme')")
	psp, err := native.New("http://psp.test", "test-psp-secret", gateway.DefaultLimits(), nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	c.r.PSPs = gateway.PSPs{native.Name: psp}
	return c
}

func (c *crew) inTx(do func(context.Context, pgx.Tx) error) {
	c.t.Helper()
	err := pgx.BeginFunc(c.t.Context(), c.pool, func(tx pgx.Tx) error { return do(c.t.Context(), tx) })
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *crew) exec(sql string, args ...any) {
	c.t.Helper()
	pgtest.Exec(c.t, c.pool, sql, args...)
}

func (c *crew) wantJobs(kind string, want int) {
	c.t.Helper()
	if n := pgtest.Value[int](c.t, c.pool, "SELECT count(*) FROM river_job WHERE kind = $1", kind); n != want {
		c.t.Fatalf("%d jobs, want %d", n, want)
	}
}

// due enqueues the resolution of one key, as the claim job does.
func (c *crew) due() {
	c.t.Helper()
	due := []idempotency.Due{{Ref: idempotency.StoredRef("acme", "POST /payments", "order-0000000042"), Generation: 1}}
	c.inTx(func(ctx context.Context, tx pgx.Tx) error { return c.r.enqueueTx(ctx, tx, due) })
}

const finish = "UPDATE river_job SET state = 'completed', finalized_at = now()"

// The claim job goes on making jobs for a key while the database is in trouble. All that are given up are one case.
func TestJobsOfOneKeyThatAreGivenUpAreOneDeadLetter(t *testing.T) {
	t.Parallel()
	c := setup(t)
	for range 3 {
		c.due()
		c.exec("UPDATE river_job SET state = 'discarded', attempt = max_attempts, finalized_at = now() WHERE state <> 'discarded'")
	}
	c.wantJobs("resolve", 3)
	if n := pgtest.Value[int](t, c.pool, "SELECT count(*) FROM dead_letters"); n != 1 {
		t.Fatalf("%d dead letters", n)
	}
}

// The claim job has hidden the key for a minute. The row of its last job may still say "running", because the end is
// not written yet. The key must get another job all the same: otherwise nothing would happen to it for that minute.
func TestKeyThatIsDueHasAJobThatHasNotBegun(t *testing.T) {
	t.Parallel()
	c := setup(t)
	for runs := 1; runs <= 4; runs++ {
		c.due()
		c.wantJobs("resolve", runs)
		c.due() // of those that have not begun, one is enough
		c.wantJobs("resolve", runs)
		c.exec("UPDATE river_job SET state = 'running', attempted_at = now(), attempt = 1")
	}
	c.exec(finish)
	c.due()
	c.wantJobs("resolve", 5)
}

func TestRunThatWillBeRepeatedIsNotDoubled(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.due()
	c.exec("UPDATE river_job SET state = 'retryable', attempt = 1, scheduled_at = now() + interval '1 minute'")
	c.due()
	c.wantJobs("resolve", 1)
}

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
	r := &Reconciler{Config: Config{Metrics: telemetry.NewMetrics(reg)}}
	for result, effects := range map[string][]payments.Effect{
		resultCompleted: {payments.Completed{}},
		resultConfirmed: {payments.Confirmed{}},
		resultDeadLettered: {payments.DeadLettered{Kind: deadletters.UnknownMovement, New: true},
			payments.DeadLettered{Kind: deadletters.DuplicateMovement}},
	} {
		for _, effect := range effects {
			if got := r.countEffect(effect, judge.SourceWebhook); got != result {
				t.Errorf("the result of %T is %s, want %s", effect, got, result)
			}
		}
	}
	for _, result := range []LookupResult{Resolved, Scheduled, Scheduled,
		ToOperator, Moot} {
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
