package rig

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// made is a database with a completed payment to copy, and the store that the programs have.
type made struct {
	*Database
	keys *idempotency.Keys
	db   *postgres.DB
}

func TestMain(m *testing.M) { pgtest.Main(m) }

func newMade(t *testing.T) made {
	t.Helper()
	url := pgtest.NewURL(t)
	conn := pgtest.Connect(t, url)
	m := made{Database: Existing(url, conn), db: pgtest.Open(t, url, pgtest.Limits())}
	m.keys = idempotency.New(m.db, idempotency.Terms{
		Lease: time.Minute, Retention: time.Hour, PSPMemory: time.Hour, GracePeriod: time.Minute, Audit: time.Hour,
	}, time.Now)
	_, err := m.behindTheGuard(t.Context(), "make the sample", `
WITH key AS (
    INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at, finished_at,
        expires_at, response_status, response_content_type, response_location, response_schema_version, response_body)
    SELECT 'bench', 'POST /payments', 'the-sample-itself', 'completed', sha256('x'), 1, 1, gen_random_uuid(), '01890000-0000-7000-8000-000000000000',
           now(), now(), now(), now() + interval '2 days', 201, 'application/json', '/payments/x', 1, '{}'
)
INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status, psp_charge_id)
VALUES ('01890000-0000-7000-8000-000000000000', 'bench', 'the-sample-itself', 1, 'cus-1', 12000, 'KRW', 'pm_ok', 'succeeded', 'ch_1')`)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (m made) count(t *testing.T, sql string, args ...any) int {
	t.Helper()
	return pgtest.Value[int](t, m.Admin, "SELECT count(*) FROM "+sql, args...)
}

func TestLostPaymentsAreDueAndProcessing(t *testing.T) {
	t.Parallel()
	m := newMade(t)
	if err := m.Load(t.Context(), 30); err != nil {
		t.Fatal(err)
	}
	lost, err := m.Lose(t.Context(), 20)
	if err != nil || len(lost) != 20 {
		t.Fatalf("%d are lost (%v), want 20", len(lost), err)
	}
	var due []idempotency.Due
	err = m.db.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) (err error) {
		due, err = m.keys.ClaimDueTx(ctx, tx, 100, time.Minute)
		return err
	})
	if err != nil || len(due) != len(lost) {
		t.Fatalf("%d of %d keys are due (%v)", len(due), len(lost), err)
	}
	var view idempotency.KeyView
	err = m.db.Pipeline(t.Context(), m.keys.LookIn(due[0].Ref, &view))
	if err != nil || view.MemoryOver || view.GraceLeft <= 0 {
		t.Errorf("%+v (%v), want a key that was lost just now", view, err)
	}
	if n := m.count(t,
		"payments AS p JOIN idempotency_keys AS k ON k.subject = p.id AND k.key = p.idempotency_key WHERE p.status = 'processing'"); n != len(lost) {
		t.Errorf("%d payments are processing, want %d", n, len(lost))
	}
}

func TestAbandonedKeysAreSwept(t *testing.T) {
	t.Parallel()
	m := newMade(t)
	if err := m.MakeAbandoned(t.Context(), 30); err != nil {
		t.Fatal(err)
	}
	err := m.db.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		swept, err := m.keys.SweepTx(ctx, tx, 100, time.Minute)
		if len(swept) != 30 {
			t.Errorf("%d keys were swept, want 30", len(swept))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Forget(t.Context(), AbandonedMark); err != nil {
		t.Fatal(err)
	}
	if keys, payments := m.count(t, "idempotency_keys"), m.count(t, "payments"); keys != 1 || payments != 1 {
		t.Errorf("%d keys and %d payments are left, want the sample alone", keys, payments)
	}
}

func TestPrunableKeysAreDueForOneWalkEach(t *testing.T) {
	t.Parallel()
	m := newMade(t)
	if err := m.MakePrunable(t.Context(), 30); err != nil {
		t.Fatal(err)
	}
	// Marked first, or those that the walk marks could be deleted by the other.
	if n, err := m.keys.Expire(t.Context(), 100); err != nil || n != 30 {
		t.Errorf("%d keys were marked (%v), want 30", n, err)
	}
	if n, err := m.keys.Delete(t.Context(), 100); err != nil || n != 30 {
		t.Errorf("%d keys were deleted (%v), want 30", n, err)
	}
	if n := m.count(t, "idempotency_keys WHERE key ^@ $1", GoneMark); n != 0 {
		t.Errorf("%d of those to be deleted are left", n)
	}
	if n := m.count(t, "idempotency_key_events WHERE key ^@ $1", GoneMark); n != 0 {
		t.Errorf("%d lines of their timelines are left", n)
	}
}

func TestLoadedRowsAreNeverDue(t *testing.T) {
	t.Parallel()
	m := newMade(t)
	if err := m.Load(t.Context(), 30); err != nil {
		t.Fatal(err)
	}
	if n := m.count(t,
		"idempotency_keys WHERE status = 'completed' AND expires_at > clock_timestamp() + interval '12 hours'"); n != 31 {
		t.Errorf("%d completed keys, want 31", n)
	}
	if keys, err := m.Keys(t.Context(), LoadedMark, 40); err != nil || len(keys) != 30 {
		t.Errorf("%d keys can be replayed (%v), want 30", len(keys), err)
	}
}
