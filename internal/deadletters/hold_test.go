package deadletters

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// exec is a statement of a pipeline.
func exec(sql string) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		_, err := q.Exec(ctx, sql)
		return err
	}
}

// keyAsIs puts a key into the table as it is given, behind the guard's back.
func (f fixture) keyAsIs(about About, subject uuid.UUID, status string) {
	f.t.Helper()
	f.exec("ALTER TABLE idempotency_keys DISABLE TRIGGER USER")
	f.exec(`INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id,
			subject, created_at, reserved_at, expires_at, unknown_since, reconcile_after)
		SELECT $1, $2, $3, $4, sha256(''), 1, $5, gen_random_uuid(), $6, now(), now(), now() + interval '1 day',
			since, since
		FROM (SELECT CASE WHEN $4 = 'unknown' THEN now() END AS since) AS s`,
		about.Tenant, about.Operation, about.Key, status, about.Generation, subject)
	f.exec("ALTER TABLE idempotency_keys ENABLE TRIGGER USER")
}

// moneyMoved is the evidence of a dead letter that keeps its key even from a decline.
var moneyMoved = []byte(`{"record": {"status": "succeeded"}}`)

func (f fixture) hold() string {
	f.t.Helper()
	return pgtest.Value[string](f.t, f.pool, "SELECT dead_letter_hold FROM idempotency_keys")
}

// holdOf is the hold of the key that a dead letter is about.
func (f fixture) holdOf(l DeadLetter) string {
	f.t.Helper()
	return pgtest.Value[string](f.t, f.pool, `SELECT dead_letter_hold FROM idempotency_keys
		WHERE tenant_id = $1 AND operation = $2 AND key = $3`, l.About.Tenant, l.About.Operation, l.About.Key)
}

// The dead letter of a step is opened only by the transaction that has moved its key. If the step has lost its race, or
// has moved the key of somebody else, there is no case.
func TestDeadLetterOfAStepNeedsTheStep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*About)
		want int
	}{
		"its key":           {func(*About) {}, 1},
		"another tenant":    {func(a *About) { a.Tenant = "globex" }, 0},
		"another operation": {func(a *About) { a.Operation = "POST /refunds" }, 0},
		"another key":       {func(a *About) { a.Key += "0" }, 0},
	} {
		o := setup(t)
		l := aDeadLetter()
		l.BehindStep = true
		about := *l.About
		c.edit(&about)
		o.exec("ALTER TABLE idempotency_keys DISABLE TRIGGER USER")
		insert := func(a About) string {
			return "INSERT INTO idempotency_keys SELECT '" + a.Tenant + "', '" + a.Operation + "', '" + a.Key +
				"', 'unknown', '', 1, 1, gen_random_uuid(), gen_random_uuid(), 'none', now(), now(), NULL, NULL, NULL, 0, NULL, now()"
		}
		if c.want == 0 {
			o.exec(insert(*l.About)) // which is there, and which this transaction does not move
		}
		err := o.db.Pipeline(t.Context(), exec(insert(about)), Open(l))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(o.open()); got != c.want {
			t.Errorf("%s was moved: %d dead letters, want %d", name, got, c.want)
		}
	}
}

// job is a job of River's about a key, in the state in which its worker has it.
func (f fixture) job(about About, subject *uuid.UUID, maxAttempts int) int64 {
	f.t.Helper()
	return pgtest.Value[int64](f.t, f.pool, `INSERT INTO river_job (state, kind, args, max_attempts, attempt)
		VALUES ('running', 'resolve', jsonb_strip_nulls(jsonb_build_object('tenant', $1::text, 'operation', $2::text,
			'key', $3::text, 'generation', $4::integer, 'subject', $5::uuid)), $6, 1) RETURNING id`,
		about.Tenant, about.Operation, about.Key, about.Generation, subject, maxAttempts)
}

const discard = "UPDATE river_job SET state = 'discarded', finalized_at = now() WHERE id = $1"

// The key was used again, or stands for another payment meanwhile. What the job could not do is about the earlier one.
func TestDiscardedJobOfAnotherUseOfTheKeyHoldsNothing(t *testing.T) {
	t.Parallel()
	mine := aDeadLetter()
	later, other := *mine.About, uuid.Must(uuid.NewV7())
	later.Generation++
	for name, c := range map[string]struct {
		about   About
		subject *uuid.UUID
	}{"another generation": {later, mine.Subject}, "another payment": {*mine.About, &other}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			o.keyAsIs(*mine.About, *mine.Subject, "unknown")
			o.exec(discard, o.job(c.about, c.subject, 3))
			if hold := o.hold(); hold != "none" {
				t.Errorf("the key's hold is %s", hold)
			}
			if n := len(o.open()); n != 1 {
				t.Errorf("%d dead letters are open", n)
			}
		})
	}
}

func TestDiscardedJobLowersNoHold(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := aDeadLetter()
	l.Evidence = []byte(`{"record": {"status": "succeeded"}}`)
	o.keyAsIs(*l.About, *l.Subject, "unknown")
	o.put(l)
	o.exec(discard, o.job(*l.About, l.Subject, 3))
	if hold := o.hold(); hold != "decline" {
		t.Errorf("the key's hold is %s", hold)
	}
}

// River deletes a discarded job after some weeks. If the same day of a statement then gets another job, and that one is
// discarded, too, it is the same case.
func TestDiscardedStatementsOfOneDayAreOneCase(t *testing.T) {
	t.Parallel()
	o := setup(t)
	for _, args := range []string{
		`{"account": "acme", "day": "2026-03-10"}`, `{"account": "acme", "day": "2026-03-10"}`,
		`{"account": "acme", "day": "2026-03-11"}`, `{"account": "globex", "day": "2026-03-10"}`,
	} {
		id := pgtest.Value[int64](t, o.pool, `INSERT INTO river_job (state, kind, args, max_attempts, attempt)
			VALUES ('running', 'statement_day', $1, 3, 3) RETURNING id`, args)
		o.exec(discard, id)
	}
	if n := len(o.open()); n != 3 {
		t.Errorf("%d dead letters are open", n)
	}
}
