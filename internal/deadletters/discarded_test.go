package deadletters

import (
	"testing"

	"github.com/google/uuid"
)

// job is a job of River's about a key, in the state in which its worker has it.
func (o fixture) job(about About, subject *uuid.UUID, maxAttempts int) (id int64) {
	o.t.Helper()
	err := o.pool.QueryRow(o.t.Context(), `INSERT INTO river_job (state, kind, args, max_attempts, attempt)
		VALUES ('running', 'resolve', jsonb_strip_nulls(jsonb_build_object('tenant', $1::text, 'operation', $2::text,
			'key', $3::text, 'generation', $4::integer, 'subject', $5::uuid)), $6, 1) RETURNING id`,
		about.Tenant, about.Operation, about.Key, about.Generation, subject, maxAttempts).Scan(&id)
	if err != nil {
		o.t.Fatal(err)
	}
	return id
}

const discard = "UPDATE river_job SET state = 'discarded', finalized_at = now() WHERE id = $1"

// A job that is given up holds its own key, and keeps nobody from another key: not even while its transaction lasts.
func TestDiscardedJobHoldsItsOwnKeyAlone(t *testing.T) {
	t.Parallel()
	mine := aDeadLetter()
	for name, subject := range map[string]*uuid.UUID{"with its payment": mine.Subject, "without a payment": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			o.keyAsIs(*mine.About, *mine.Subject, "unknown")
			others := otherThan(mine)
			for _, part := range []string{"tenant", "operation", "key"} {
				o.keyAsIs(*others[part].About, *others[part].Subject, "unknown")
			}
			tx, err := o.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(t.Context())
			if _, err := tx.Exec(t.Context(), discard, o.job(*mine.About, subject, 3)); err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{"tenant", "operation", "key"} {
				about := others[part].About
				if _, err := o.pool.Exec(t.Context(), `SELECT FROM idempotency_keys
					WHERE tenant_id = $1 AND operation = $2 AND key = $3 FOR NO KEY UPDATE NOWAIT`,
					about.Tenant, about.Operation, about.Key); err != nil {
					t.Errorf("a key that differs in its %s is locked: %v", part, err)
				}
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if hold := o.holdOf(mine); hold != "expiry" {
				t.Errorf("the key's hold is %s", hold)
			}
			for _, part := range []string{"tenant", "operation", "key"} {
				if hold := o.holdOf(others[part]); hold != "none" {
					t.Errorf("a key that differs in its %s is held: %s", part, hold)
				}
			}
		})
	}
}

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

// A job that will run again is no case, nor is a job of the schedule, which has one attempt. And what happens to the
// row of a job that was given up does not open a case that an operator has closed.
func TestOnlyTheEndOfAJobIsACase(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := aDeadLetter()
	id := o.job(*l.About, l.Subject, 3)
	o.exec("UPDATE river_job SET state = 'retryable' WHERE id = $1", id)
	o.exec(discard, o.job(*of(2).About, l.Subject, 1))
	if n := len(o.open()); n != 0 {
		t.Fatalf("%d dead letters are open before a job has ended", n)
	}
	o.exec(discard, id)
	open := o.open()
	if len(open) != 1 {
		t.Fatalf("%d dead letters are open", len(open))
	}
	if _, err := o.resolve(open[0].ID, 1, Dismiss); err != nil {
		t.Fatal(err)
	}
	o.exec("UPDATE river_job SET metadata = '{}' WHERE id = $1", id)
	if n := len(o.open()); n != 0 {
		t.Errorf("a case that was closed is open again")
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
		var id int64
		if err := o.pool.QueryRow(t.Context(), `INSERT INTO river_job (state, kind, args, max_attempts, attempt)
			VALUES ('running', 'statement_day', $1, 3, 3) RETURNING id`, args).Scan(&id); err != nil {
			t.Fatal(err)
		}
		o.exec(discard, id)
	}
	if n := len(o.open()); n != 3 {
		t.Errorf("%d dead letters are open", n)
	}
}
