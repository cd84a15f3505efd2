package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
)

func (f *fixture) summary() Summary {
	f.t.Helper()
	s, err := f.ops.Summary(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func TestSummaryOfAnEmptyHouseIsAllZeros(t *testing.T) {
	t.Parallel()
	o := setup(t)
	// just now, however slow the test is
	o.exec(`UPDATE tenants SET created_at = clock_timestamp() + interval '1 hour'`)
	raw, err := json.Marshal(o.summary())
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"keys":{"completed":0,"expired":0,"failed_retryable":0,"in_progress":0,"unknown":0},"oldestUnknownSeconds":0,` +
		`"deadLetters":{"open":{},"oldestSeconds":0},"webhooks":{"count":0,"oldestSeconds":0},"lookups":{"count":0,"oldestSeconds":0},"oldestEventSeconds":0,` +
		`"ledger":[{"account":"acme","object":"charge","ageSeconds":0},{"account":"acme","object":"refund","ageSeconds":0}],"jobs":{}}`
	if string(raw) != want {
		t.Fatalf("summary is %s", raw)
	}
}

func TestSummaryTellsWhatWaitsAndForHowLong(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.lost("pm_ok")
	if s := o.summary(); s.Lookups.Count != 0 {
		t.Errorf("a lookup that is not due is %+v", s.Lookups)
	}
	o.exec(`UPDATE idempotency_keys SET reconcile_after = clock_timestamp() - interval '2 hours', unknown_since = clock_timestamp() - interval '3 hours'`)
	o.exec(`INSERT INTO webhook_events (id, received_at, sent_at, body, processed_at, result) VALUES
		('msg_1', clock_timestamp() - interval '4 hours', clock_timestamp(), '{}', NULL, NULL),
		('msg_2', clock_timestamp(), clock_timestamp(), '{}', NULL, NULL),
		('msg_3', clock_timestamp() - interval '9 hours', clock_timestamp(), '{}', clock_timestamp(), 'resolved')`)
	// The refunds' ledger was read just now, and has nothing in it.
	o.exec(`INSERT INTO ledger_watermarks (account, object, scanned_to, updated_at) VALUES
		('acme', 'refund', '0001-01-01 00:00:00Z', clock_timestamp() + interval '1 hour'),
		('acme', 'charge', clock_timestamp(), clock_timestamp() - interval '5 hours')`)
	o.exec(`INSERT INTO river_job (kind, max_attempts, args, state, finalized_at) VALUES
		('resolve', 5, '{}', 'available', NULL), ('resolve', 5, '{}', 'available', NULL), ('resolve', 5, '{}', 'running', NULL),
		('resolve', 5, '{}', 'completed', now()), ('resolve', 5, '{}', 'discarded', now())`)

	s := o.summary()
	near := func(what string, got, want time.Duration) {
		t.Helper()
		if got < want || got > want+10*time.Minute {
			t.Errorf("%s is %s old, want %s", what, got, want)
		}
	}
	near("unknown key", s.OldestUnknown, 3*time.Hour)
	near("lookup", s.Lookups.Oldest, 2*time.Hour)
	near("webhook", s.Webhooks.Oldest, 4*time.Hour)
	if s.Keys[idempotency.UnknownStatus] != 1 || s.Lookups.Count != 1 || s.Webhooks.Count != 2 ||
		s.DeadLetters.Open[deadletters.LookupsExhausted] != 1 {
		t.Errorf("summary is %+v", s)
	}
	if len(s.Jobs) != 2 || s.Jobs["available"] != 2 || s.Jobs["running"] != 1 {
		t.Errorf("jobs are %v", s.Jobs)
	}
	if len(s.Ledger) != 2 || s.Ledger[0].Object != "charge" || s.Ledger[1].Age != 0 {
		t.Fatalf("ledger is %+v", s.Ledger)
	}
	near("ledger", s.Ledger[0].Age, 5*time.Hour)
	raw, err := json.Marshal(s)
	if err != nil || !strings.Contains(string(raw), `"webhooks":{"count":2,"oldestSeconds":14`) ||
		!strings.Contains(string(raw), `"object":"charge","scannedTo":"20`) ||
		strings.Contains(string(raw), "0001-01-01") {
		t.Errorf("%s, %v", raw, err)
	}
}

// What waits for the reconciler is late: an event without a place, and a delivery to an endpoint that does not rest.
// What waits for a merchant is not.
func TestSummaryTellsForHowLongEventsWait(t *testing.T) {
	t.Parallel()
	o := setup(t)
	wait := func(kind string, want time.Duration) {
		t.Helper()
		if got := o.summary().OldestEvent; got < want || got > want+10*time.Minute {
			t.Errorf("%s: the oldest event is %s old, want %s", kind, got, want)
		}
	}
	o.exec(`INSERT INTO webhook_endpoints (tenant_id, id, url, secret)
		VALUES ('acme', gen_random_uuid(), 'https://shop.example', sha256('x'))`)
	delivery := `INSERT INTO event_deliveries (tenant_id, endpoint_id, payment_id, version, due_at)
		SELECT tenant_id, id, gen_random_uuid(), 1, clock_timestamp() + $1 * interval '1 hour' FROM webhook_endpoints`
	o.exec(delivery, 1)
	wait("a delivery that is not due", 0)
	o.exec(delivery, -3)
	wait("a delivery that is due", 3*time.Hour)
	for what, c := range map[string]struct {
		set   string
		until time.Duration
	}{
		"an endpoint that rests":         {"failures = 1, rest_until = now() + interval '1 hour'", 0},
		"an endpoint that has rested":    {"failures = 1, rest_until = now() - interval '1 hour'", time.Hour},
		"an endpoint that is disabled":   {"disabled_at = now(), disabled_reason = 'test'", 0},
		"an endpoint that is deleted":    {"deleted_at = now()", 0},
		"an endpoint that was enabled":   {"enabled_at = clock_timestamp() - interval '1 hour'", time.Hour},
		"an endpoint that was always so": {"enabled_at = clock_timestamp() - interval '9 hours'", 3 * time.Hour},
	} {
		o.exec("UPDATE webhook_endpoints SET " + c.set)
		wait(what, c.until)
		o.exec(`UPDATE webhook_endpoints SET failures = 0, rest_until = now(), disabled_at = NULL, disabled_reason = NULL, deleted_at = NULL,
			enabled_at = NULL`)
	}
	event := `INSERT INTO events (tenant_id, payment_id, version, type, status, refunded_minor, changed_at, position)
		VALUES ('acme', gen_random_uuid(), extract(epoch FROM clock_timestamp() - $1 * interval '1 hour') * 1000000,
			'payment.succeeded', 'succeeded', 0, now(), $2)`
	o.exec(event, 5, 1)
	wait("an event that has its place", 3*time.Hour)
	o.exec(event, 4, nil)
	wait("an event without a place", 4*time.Hour)
	o.exec("DELETE FROM event_deliveries")
	wait("an event without a place, and no delivery", 4*time.Hour)
	o.exec("DELETE FROM events")
	o.exec(event, -1, nil)
	wait("an event whose version is ahead of the clock", 0)
}

// A ledger that nobody has ever read is behind for as long as there is one.
func TestLedgerThatWasNeverReadIsAsOldAsItsTenant(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.exec(`UPDATE tenants SET created_at = clock_timestamp() - interval '2 days'`)
	o.exec(`INSERT INTO ledger_watermarks (account, object, scanned_to, updated_at) VALUES
		('acme', 'charge', clock_timestamp(), clock_timestamp()), ('nobody', 'charge', clock_timestamp(), clock_timestamp() - interval '9 days')`)
	ledger := o.summary().Ledger
	if len(ledger) != 2 || ledger[0].Object != "refund" || ledger[0].Age < 48*time.Hour ||
		ledger[0].Age > 49*time.Hour || ledger[1].Age > time.Hour {
		t.Fatalf("ledger is %+v", ledger)
	}
}
