package idempotency

import (
	"fmt"
	"testing"
)

// contradiction is a change that makes a row in a status impossible, and the constraint that says so.
type contradiction struct {
	status  Status
	set, by string
}

func contradictions() []contradiction {
	cases := []contradiction{
		{InProgressStatus, "locked_until = NULL", "idempotency_keys_lease_iff_in_progress"},
		{CompletedStatus, "locked_until = now()", "idempotency_keys_lease_iff_in_progress"},
		{FailedRetryableStatus, "locked_until = now()", "idempotency_keys_lease_iff_in_progress"},
		{UnknownStatus, "locked_until = now()", "idempotency_keys_lease_iff_in_progress"},
		{ExpiredStatus, "locked_until = now()", "idempotency_keys_lease_iff_in_progress"},
		{UnknownStatus, "reconcile_after = NULL", "idempotency_keys_reconcile_iff_unknown"},
		{InProgressStatus, "reconcile_after = now()", "idempotency_keys_reconcile_iff_unknown"},
		{CompletedStatus, "reconcile_after = now()", "idempotency_keys_reconcile_iff_unknown"},
		{UnknownStatus, "unknown_since = NULL", "idempotency_keys_unknown_since_iff_unknown"},
		{InProgressStatus, "unknown_since = now()", "idempotency_keys_unknown_since_iff_unknown"},
		{CompletedStatus, "unknown_since = now()", "idempotency_keys_unknown_since_iff_unknown"},
		{FailedRetryableStatus, "unknown_since = now()", "idempotency_keys_unknown_since_iff_unknown"},
		{ExpiredStatus, "unknown_since = now()", "idempotency_keys_unknown_since_iff_unknown"},
		{ExpiredStatus, "delete_after = NULL", "idempotency_keys_deleted_once_expired"},
		{InProgressStatus, "delete_after = now()", "idempotency_keys_deleted_once_expired"},
		{UnknownStatus, "delete_after = now()", "idempotency_keys_deleted_once_expired"},
		{CompletedStatus, "delete_after = now()", "idempotency_keys_deleted_once_expired"},
		{FailedRetryableStatus, "delete_after = now()", "idempotency_keys_deleted_once_expired"},
		{UnknownStatus, "lookup_failures = -1", "idempotency_keys_lookup_failures_check"},
		{InProgressStatus, "finished_at = now()", "idempotency_keys_finished_unless_open"},
		{UnknownStatus, "finished_at = now()", "idempotency_keys_finished_unless_open"},
		{CompletedStatus, "finished_at = NULL", "idempotency_keys_finished_unless_open"},
		{FailedRetryableStatus, "finished_at = NULL", "idempotency_keys_finished_unless_open"},
		{ExpiredStatus, "finished_at = NULL", "idempotency_keys_finished_unless_open"},
		{InProgressStatus, "status = 'paused', locked_until = NULL, finished_at = now()", "idempotency_keys_status_known"},
		{InProgressStatus, "fingerprint = 'short'", "idempotency_keys_fingerprint_is_sha256"},
		{InProgressStatus, "attempt = 0", "idempotency_keys_attempt_check"},
		{InProgressStatus, "generation = 0", "idempotency_keys_generation_check"},
	}
	for _, column := range responseColumns() {
		for _, status := range []Status{InProgressStatus, UnknownStatus, FailedRetryableStatus} {
			cases = append(cases, contradiction{status, column + " = " + otherValues()[column], "idempotency_keys_response_only_when_completed"})
		}
		cases = append(cases, contradiction{CompletedStatus, column + " = NULL", "idempotency_keys_completed_has_response"})
	}
	return cases
}

// The CHECKs are asked on their own, with the triggers out of the way.
func TestRowsThatContradictTheirStatusAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range contradictions() {
		b.again().putInto(c.status)
		err := b.tryRolledBack("ALTER TABLE idempotency_keys DISABLE TRIGGER USER; UPDATE idempotency_keys SET " + c.set)
		if got := refusedBy(t, err); got != c.by {
			t.Errorf("%s with %s: refused by %q, want %q", c.status, c.set, got, c.by)
		}
	}
}

func TestWhatHasHappenedIsNotRewritten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(UnknownStatus)
	for _, sql := range []string{
		"UPDATE idempotency_key_events SET reason = 'another'", "TRUNCATE idempotency_key_events", "TRUNCATE idempotency_keys",
	} {
		if got := refusedBy(t, b.tryRolledBack(sql)); got != "history_is_append_only" {
			t.Errorf("%s: refused by %q", sql, got)
		}
	}
}

func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(UnknownStatus)
	b.exec(`INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
		SELECT tenant_id, operation, key, 1, 1, 'test', 'unknown', 'unknown', n::text FROM idempotency_keys, generate_series(1, 300) AS n`)
	events := b.events()
	if len(events) != maxEvents || events[0].Reason != fmt.Sprint(300-maxEvents+1) || events[maxEvents-1].Reason != "300" {
		t.Fatalf("%d events, first %+v, last %+v", len(events), events[0], events[len(events)-1])
	}
	err := b.tryRolledBack(`INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
		VALUES ('acme', 'o', 'k', 1, 1, 'test', 'unknown', 'unknown', repeat('x', 501))`)
	if got := refusedBy(t, err); got != "idempotency_key_events_reason_check" {
		t.Fatalf("a reason without bounds: refused by %q", got)
	}
}
