package idempotency

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"payonce/test/pgtest"
)

// move takes a key to the status $1 and sets whatever else such a key must have, so that the edge alone decides;
// changes sets columns otherwise.
func move(changes map[string]string) string {
	set := map[string]string{
		"status":          "$1",
		"locked_until":    "CASE WHEN $1 = 'in_progress' THEN clock_timestamp() + interval '30 seconds' END",
		"reconcile_after": "CASE WHEN $1 = 'unknown' THEN clock_timestamp() END",
		"unknown_since":   "CASE WHEN $1 = 'unknown' THEN clock_timestamp() END",
		"delete_after":    "CASE WHEN $1 = 'expired' THEN clock_timestamp() END",
		"finished_at":     "CASE WHEN $1 NOT IN ('in_progress', 'unknown') THEN coalesce(finished_at, clock_timestamp()) END",
		"attempt": `CASE WHEN $1 = 'in_progress' AND status = 'failed_retryable' THEN attempt + 1
			WHEN $1 = 'in_progress' AND status = 'expired' THEN 1 ELSE attempt END`,
		"generation": "CASE WHEN $1 = 'in_progress' AND status = 'expired' THEN generation + 1 ELSE generation END",
	}
	for _, column := range responseColumns() {
		set[column] = fmt.Sprintf("CASE $1 WHEN 'completed' THEN coalesce(%[1]s, %[2]s) WHEN 'expired' THEN %[1]s END",
			column, otherValues()[column])
	}
	maps.Copy(set, changes)
	assignments := make([]string, 0, len(set))
	for _, column := range slices.Sorted(maps.Keys(set)) {
		assignments = append(assignments, column+" = "+set[column])
	}
	return "UPDATE idempotency_keys SET " + strings.Join(assignments, ", ")
}

// another is move with another value in one column.
func another(column string) string { return move(map[string]string{column: otherValues()[column]}) }

// born inserts a key in the status $1 with attempt $2 of generation $3, complete in the same way.
const born = `
INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at,
    expires_at, locked_until, reconcile_after, unknown_since, delete_after, finished_at, response_status, response_content_type, response_location,
    response_schema_version, response_body)
SELECT 'acme', 'POST /payments', 'born-000000000001', $1, sha256('apple'), $2, $3, gen_random_uuid(), gen_random_uuid(), now(), now(), now(),
    CASE WHEN $1 = 'in_progress' THEN now() END, CASE WHEN $1 = 'unknown' THEN now() END,
    CASE WHEN $1 = 'unknown' THEN now() END, CASE WHEN $1 = 'expired' THEN now() END,
    CASE WHEN $1 NOT IN ('in_progress', 'unknown') THEN now() END,
    CASE WHEN $1 = 'completed' THEN 201 END, CASE WHEN $1 = 'completed' THEN '' END, CASE WHEN $1 = 'completed' THEN '' END,
    CASE WHEN $1 = 'completed' THEN 1 END, CASE WHEN $1 = 'completed' THEN ''::bytea END`

// All pairs of statuses are tried on the database, behind the application's back. What it lets through is what Edges
// lists.
func TestDatabaseAllowsTheListedEdgesAndNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, to := range statuses() {
		err := b.tryRolledBack(born, string(to), 1, 1)
		b.wantEdge(Edge{"", to}, err, "idempotency_keys_begins_in_progress")
	}
	for _, from := range statuses() {
		b.again().putInto(from)
		refusal := "idempotency_keys_edge_is_legal"
		if from == CompletedStatus {
			refusal = "idempotency_keys_completed_is_final"
		}
		for _, to := range statuses() {
			if from == to {
				continue
			}
			b.wantEdge(Edge{from, to}, b.tryRolledBack(move(nil), string(to)), refusal)
		}
		b.wantEdge(Edge{from, ""}, b.tryRolledBack("DELETE FROM idempotency_keys"),
			"idempotency_keys_delete_only_expired")
	}
}

func (b *bench) wantEdge(e Edge, err error, refusal string) {
	b.t.Helper()
	got, want := pgtest.RefusedBy(b.t, err), refusal
	if slices.Contains(Edges(), e) {
		want = ""
	}
	if got != want {
		b.t.Errorf("%q to %q: refused by %q, want %q", e.From, e.To, got, want)
	}
}

// Staying is no transition. Only an unknown key is touched while it stays: the reconciler puts off its next look.
func TestKeyIsTouchedWhileItStaysOnlyIfUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, status := range statuses() {
		b.again().putInto(status)
		got := pgtest.RefusedBy(t, b.tryRolledBack(`UPDATE idempotency_keys SET lease_id = lease_id`))
		want := map[Status]string{UnknownStatus: "", CompletedStatus: "idempotency_keys_completed_is_final"}[status]
		if status != UnknownStatus && status != CompletedStatus {
			want = "idempotency_keys_edge_is_legal"
		}
		if got != want {
			t.Errorf("%s: refused by %q, want %q", status, got, want)
		}
	}
}

// Which generation begins is for the statement that reserves, which looks at the tombstone.
func TestKeyBeginsAsTheFirstAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		attempt, generation int
		refusal             string
	}{{1, 1, ""}, {2, 1, "idempotency_keys_begins_in_progress"}, {1, 2, ""},
		{2, 2, "idempotency_keys_begins_in_progress"}} {
		if got := pgtest.RefusedBy(t, b.tryRolledBack(born, "in_progress", c.attempt, c.generation)); got != c.refusal {
			t.Errorf("attempt %d of generation %d: refused by %q, want %q", c.attempt, c.generation, got, c.refusal)
		}
	}
	for column, value := range map[string]string{"dead_letter_hold": "'expiry'", "lookup_failures": "1"} {
		sql := strings.Replace(strings.Replace(born, "(tenant_id,", "("+column+", tenant_id,", 1), "SELECT 'acme'",
			"SELECT "+value+", 'acme'", 1)
		if got := pgtest.RefusedBy(t, b.tryRolledBack(sql, "in_progress", 1,
			1)); got != "idempotency_keys_begins_in_progress" {
			t.Errorf("a key begins with %s = %s: refused by %q", column, value, got)
		}
	}
}

// otherValues gives each column another value than it has, in a way that fits its status.
func otherValues() map[string]string {
	return map[string]string{
		"tenant_id": "'globex'", "operation": "'POST /payments/{id}/refunds'", "key": "'order-0000000043'",
		"fingerprint": "sha256('pear')",
		"attempt":     "attempt + 1", "generation": "generation + 1", "lease_id": "gen_random_uuid()",
		"subject":    "gen_random_uuid()",
		"created_at": "created_at - interval '1 second'", "reserved_at": "reserved_at - interval '1 second'",
		"finished_at": "finished_at + interval '1 second'", "expires_at": "expires_at + interval '1 second'",
		"response_status": "402", "response_content_type": "'text/plain'", "response_location": "'/things/2'",
		"response_schema_version": "2", "response_body": `'\x00'`,
	}
}

func responseColumns() []string {
	return []string{"response_status", "response_content_type", "response_location", "response_schema_version",
		"response_body"}
}

func TestNoColumnOfACompletedKeyChanges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(CompletedStatus)
	for column, value := range otherValues() {
		for _, new := range []string{value, "NULL"} {
			if new == "NULL" && !slices.Contains(responseColumns(), column) {
				continue
			}
			err := b.tryRolledBack(fmt.Sprintf("UPDATE idempotency_keys SET %s = %s", column, new))
			if got := pgtest.RefusedBy(t, err); got != "idempotency_keys_completed_is_final" {
				t.Errorf("%s = %s: refused by %q", column, new, got)
			}
		}
	}
	for _, set := range []string{
		"locked_until = now()", "reconcile_after = now()", "unknown_since = now()", "delete_after = now()",
		"lookup_failures = 1",
	} {
		if got := pgtest.RefusedBy(t, b.tryRolledBack("UPDATE idempotency_keys SET "+
			set)); got != "idempotency_keys_completed_is_final" {
			t.Errorf("%s: refused by %q", set, got)
		}
	}
}

// Expiry is the one change of a completed key, and takes nothing else along.
func TestExpiryChangesNothingButTheStatus(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(CompletedStatus)
	for column, value := range otherValues() {
		if column == "lease_id" || column == "finished_at" {
			continue // say nothing about the answer
		}
		err := b.tryRolledBack(fmt.Sprintf("UPDATE idempotency_keys SET status = 'expired', delete_after = now(), %s = %s", column, value))
		if got := pgtest.RefusedBy(t, err); got != "idempotency_keys_completed_is_final" &&
			got != "idempotency_keys_identity_is_fixed" {
			t.Errorf("%s: refused by %q", column, got)
		}
	}
	err := b.tryRolledBack("UPDATE idempotency_keys SET status = 'expired', delete_after = now(), response_body = NULL")
	if got := pgtest.RefusedBy(t, err); got != "idempotency_keys_completed_is_final" {
		t.Errorf("without its body: refused by %q", got)
	}
	b.expire()
}

// The edge that nearly all keys take.
func TestCompletionChangesNothingThatTheKeyStandsFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(InProgressStatus)
	const complete = `UPDATE idempotency_keys SET status = 'completed', locked_until = NULL, finished_at = now(), response_status = 201,
		response_content_type = '', response_location = '', response_schema_version = 1, response_body = ''`
	if err := b.tryRolledBack(complete); err != nil {
		t.Fatal(err)
	}
	for _, column := range []string{"tenant_id", "operation", "key", "fingerprint", "subject", "attempt", "generation",
		"created_at", "reserved_at"} {
		got := pgtest.RefusedBy(t, b.tryRolledBack(complete+", "+column+" = "+otherValues()[column]))
		if got != "idempotency_keys_identity_is_fixed" && got != "idempotency_keys_attempt_is_a_fence" {
			t.Errorf("%s: refused by %q", column, got)
		}
	}
}

func TestWhatAKeyStandsForChangesOnlyWithItsGeneration(t *testing.T) {
	t.Parallel()
	always := []string{"tenant_id", "operation", "key", "created_at"}
	withGeneration := []string{"fingerprint", "subject", "reserved_at"}
	b := setup(t)
	for _, c := range []struct {
		from, to Status
		fixed    []string
		free     []string
	}{
		{InProgressStatus, UnknownStatus, slices.Concat(always, withGeneration, []string{"generation"}), nil},
		{UnknownStatus, UnknownStatus, slices.Concat(always, withGeneration, []string{"generation"}), nil},
		{FailedRetryableStatus, InProgressStatus, slices.Concat(always, withGeneration, []string{"generation"}), nil},
		{ExpiredStatus, InProgressStatus, always, withGeneration},
	} {
		b.again().putInto(c.from)
		for _, column := range c.fixed {
			if got := pgtest.RefusedBy(t, b.tryRolledBack(another(column),
				string(c.to))); got != "idempotency_keys_identity_is_fixed" {
				t.Errorf("%s of a key from %s to %s: refused by %q", column, c.from, c.to, got)
			}
		}
		for _, column := range c.free {
			if got := pgtest.RefusedBy(t, b.tryRolledBack(another(column), string(c.to))); got != "" {
				t.Errorf("%s of a key from %s to %s: refused by %q", column, c.from, c.to, got)
			}
		}
	}
}

func TestFencingTokenMovesByOneAndOnlyWhenTheKeyChangesHands(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		from, to            Status
		attempt, generation string
		refusal             string
	}{
		{InProgressStatus, UnknownStatus, "attempt", "generation", ""},
		{InProgressStatus, UnknownStatus, "attempt + 1", "generation", "idempotency_keys_attempt_is_a_fence"},
		{InProgressStatus, FailedRetryableStatus, "attempt + 1", "generation", "idempotency_keys_attempt_is_a_fence"},
		{UnknownStatus, FailedRetryableStatus, "attempt + 1", "generation", "idempotency_keys_attempt_is_a_fence"},
		{FailedRetryableStatus, ExpiredStatus, "attempt + 1", "generation", "idempotency_keys_attempt_is_a_fence"},
		{FailedRetryableStatus, InProgressStatus, "attempt + 1", "generation", ""},
		{FailedRetryableStatus, InProgressStatus, "attempt", "generation", "idempotency_keys_attempt_is_a_fence"},
		{FailedRetryableStatus, InProgressStatus, "attempt + 2", "generation", "idempotency_keys_attempt_is_a_fence"},
		{ExpiredStatus, InProgressStatus, "1", "generation + 1", ""},
		{ExpiredStatus, InProgressStatus, "1", "generation", "idempotency_keys_attempt_is_a_fence"},
		{ExpiredStatus, InProgressStatus, "1", "generation + 2", "idempotency_keys_attempt_is_a_fence"},
		{ExpiredStatus, InProgressStatus, "2", "generation + 1", "idempotency_keys_attempt_is_a_fence"},
	} {
		b.again().putInto(c.from)
		sql := move(map[string]string{"attempt": c.attempt, "generation": c.generation})
		if got := pgtest.RefusedBy(t, b.tryRolledBack(sql, string(c.to))); got != c.refusal {
			t.Errorf("%s to %s with attempt = %s, generation = %s: refused by %q, want %q", c.from, c.to, c.attempt,
				c.generation, got, c.refusal)
		}
	}
}

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
