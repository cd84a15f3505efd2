package idempotency

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"payonce/test/pgtest"
)

// contradiction is a value of a column that a key cannot have when it comes to a status.
type contradiction struct {
	to            Status
	column, value string
}

// contradictions are of every column that comes and goes with the status.
func contradictions() []contradiction {
	cases := []contradiction{
		{InProgressStatus, "fingerprint", "'short'"},
		{UnknownStatus, "lookup_failures", "-1"},
	}
	has := map[string][]Status{
		"locked_until":    {InProgressStatus},
		"reconcile_after": {UnknownStatus},
		"unknown_since":   {UnknownStatus},
		"finished_at":     {CompletedStatus, FailedRetryableStatus, ExpiredStatus},
		"delete_after":    {ExpiredStatus},
	}
	for column, with := range has {
		for _, status := range statuses() {
			value := "clock_timestamp()"
			if slices.Contains(with, status) {
				value = "NULL"
			}
			cases = append(cases, contradiction{status, column, value})
		}
	}
	for _, column := range responseColumns() {
		for _, status := range []Status{InProgressStatus, UnknownStatus, FailedRetryableStatus} {
			cases = append(cases, contradiction{status, column, otherValues()[column]})
		}
		cases = append(cases, contradiction{CompletedStatus, column, "NULL"})
	}
	return cases
}

// Every edge is tried with one column that contradicts the status at its end, and nothing else that is wrong with it.
func TestRowsThatContradictTheirStatusAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const refusal = "idempotency_keys_fits_its_status"
	for _, e := range Edges() {
		if e.From == "" || e.To == "" {
			continue
		}
		b.again().putInto(e.From)
		if err := b.tryRolledBack(move(nil), string(e.To)); err != nil {
			t.Fatalf("%s to %s, with nothing wrong: %v", e.From, e.To, err)
		}
		for _, c := range contradictions() {
			if c.to != e.To || (c.column == "fingerprint" && e.From != ExpiredStatus) {
				continue // of an attempt, a fingerprint does not change at all
			}
			err := b.tryRolledBack(move(map[string]string{c.column: c.value}), string(e.To))
			if got := pgtest.RefusedBy(t, err); got != refusal {
				t.Errorf("%s to %s with %s = %s: refused by %q, want %q", e.From, e.To, c.column, c.value, got, refusal)
			}
		}
	}
	for old, new := range map[string]string{"sha256('apple')": "'short'::bytea",
		"CASE WHEN $1 = 'in_progress' THEN now() END": "NULL"} {
		if got := pgtest.RefusedBy(t, b.tryRolledBack(strings.Replace(born, old, new, 1), "in_progress", 1,
			1)); got != refusal {
			t.Errorf("a key begins with %s for %s: refused by %q", new, old, got)
		}
	}
	if got := pgtest.RefusedBy(t, b.tryRolledBack(strings.Replace(born, "$3,", "$3::integer - 1,", 1), "in_progress", 1,
		1)); got != "idempotency_keys_begins_in_progress" {
		t.Errorf("a key begins with generation 0: refused by %q", got)
	}
	b.again().putInto(InProgressStatus)
	if got := pgtest.RefusedBy(t, b.tryRolledBack(move(nil), "paused")); got != "idempotency_keys_edge_is_legal" {
		t.Errorf("a status of no name: refused by %q", got)
	}
}

func TestWhatHasHappenedIsNotRewritten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(UnknownStatus)
	for _, sql := range []string{
		"UPDATE idempotency_key_events SET reason = 'another'", "TRUNCATE idempotency_key_events",
		"TRUNCATE idempotency_keys",
	} {
		if got := pgtest.RefusedBy(t, b.tryRolledBack(sql)); got != "history_is_append_only" {
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
	if len(events) != MaxEvents || events[0].Reason != fmt.Sprint(300-MaxEvents+1) ||
		events[MaxEvents-1].Reason != "300" {
		t.Fatalf("%d events, first %+v, last %+v", len(events), events[0], events[len(events)-1])
	}
	err := b.tryRolledBack(`INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
		VALUES ('acme', 'o', 'k', 1, 1, 'test', 'unknown', 'unknown', repeat('x', 501))`)
	if got := pgtest.RefusedBy(t, err); got != "idempotency_key_events_reason_check" {
		t.Fatalf("a reason without bounds: refused by %q", got)
	}
}
