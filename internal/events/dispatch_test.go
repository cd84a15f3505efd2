package events

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/payments"
	"payonce/test/pgtest"
)

// feed are the ids of events, in the order of the feed of a tenant.
func (p *post) feed(tenant string) string {
	p.t.Helper()
	return strings.Join(pgtest.Values[string](p.t, p.pool, `SELECT payment_id::text FROM events
		WHERE tenant_id = $1 AND position IS NOT NULL ORDER BY position`, tenant), " ")
}

func in(names ...payments.EventName) string {
	var ids []string
	for _, n := range names {
		ids = append(ids, uuid.UUID(n.PaymentID).String())
	}
	return strings.Join(ids, " ")
}

// Somebody who has read the second event, and continues after it, finds the first one, which was written before and
// committed after.
func TestEventThatCommitsLateGetsALaterPlace(t *testing.T) {
	t.Parallel()
	p := setup(t)
	tx := p.begin()
	late := p.write(tx, "acme", "payment.succeeded")
	early := p.event("acme", "payment.succeeded")
	p.dispatch()
	if got := p.feed("acme"); got != in(early) {
		t.Fatalf("the feed is %s", got)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.dispatch()
	if got := p.feed("acme"); got != in(early, late) {
		t.Fatalf("the feed is %s", got)
	}
	if n := p.counted("payonce_events_dispatched_total", ""); n != 2 {
		t.Errorf("%v events were counted", n)
	}
}

func TestPlacesAreGivenOutInOrderAndOnce(t *testing.T) {
	t.Parallel()
	p := setup(t)
	name := p.event("acme", "payment.succeeded")
	p.exec(`INSERT INTO events (tenant_id, payment_id, version, type, status, refunded_minor, changed_at)
		SELECT tenant_id, payment_id, version + n, type, status, 0, changed_at
		FROM events, generate_series(1, $1::int) AS n`, dispatchBatch)
	p.dispatch()
	p.dispatch()
	p.event("globex", "payment.succeeded")
	p.dispatch()
	p.want("1002 1 1002 true", `SELECT concat_ws(' ', count(*), min(position), max(position),
		CASE WHEN bool_and(version = $1 + position - 1) FILTER (WHERE tenant_id = 'acme') THEN 'true' END)
		FROM events`, name.Version)
	p.want("1002", "SELECT position::text FROM event_feed")
}

func TestEndpointGetsWhatItWantsAndNothingOfOthers(t *testing.T) {
	t.Parallel()
	p := setup(t)
	all, refunds := p.endpoint("acme", "http://a"), p.endpoint("acme", "http://b", "refund.succeeded", "refund.failed")
	disabled, deleted := p.endpoint("acme", "http://c"), p.endpoint("acme", "http://d")
	p.exec("UPDATE webhook_endpoints SET disabled_at = payonce_now(), disabled_reason = 'test' WHERE id = $1", disabled)
	p.exec("UPDATE webhook_endpoints SET deleted_at = payonce_now() WHERE id = $1", deleted)
	p.endpoint("globex", "http://e")
	p.event("acme", "payment.succeeded")
	p.event("acme", "refund.failed")
	p.dispatch()
	for id, want := range map[uuid.UUID]int{all: 2, refunds: 1, disabled: 2, deleted: 0} {
		if n := p.count("SELECT count(*) FROM event_deliveries WHERE endpoint_id = $1", id); n != want {
			t.Errorf("%d deliveries, want %d", n, want)
		}
	}
	if n := p.count("SELECT count(*) FROM event_deliveries WHERE tenant_id = 'globex'"); n != 0 {
		t.Errorf("another tenant gets %d", n)
	}
}

// Before an event has its place, a merchant may have asked for a delivery.
func TestDeliveryThatIsThereIsKept(t *testing.T) {
	t.Parallel()
	p := setup(t)
	p.endpoint("acme", "http://a")
	p.event("acme", "payment.succeeded")
	p.exec(`INSERT INTO event_deliveries (tenant_id, endpoint_id, payment_id, version, attempts)
		SELECT e.tenant_id, w.id, e.payment_id, e.version, 7 FROM events AS e, webhook_endpoints AS w`)
	p.dispatch()
	p.want("7", "SELECT attempts::text FROM event_deliveries")
}

func TestDispatchThatIsCutOffIsDoneAgain(t *testing.T) {
	t.Parallel()
	for change, table := range map[string]string{"INSERT": "event_deliveries", "UPDATE": "event_feed"} {
		p := setup(t)
		p.endpoint("acme", "http://a")
		name := p.event("acme", "payment.succeeded")
		over := p.failOn(change, table)
		if err := p.d.Dispatch(t.Context()); err == nil {
			t.Fatal("there was no trouble")
		}
		if got := p.feed("acme"); got != "" {
			t.Fatalf("%s: the feed has %s", table, got)
		}
		over()
		p.dispatch()
		if got := p.feed("acme"); got != in(name) {
			t.Fatalf("%s: the feed is %s", table, got)
		}
		p.want("1", "SELECT count(*)::text FROM event_deliveries")
	}
}

// Two that gave out places at the same time could give out one twice, or the later one first.
func TestOnlyOneDispatches(t *testing.T) {
	t.Parallel()
	p := setup(t)
	p.event("acme", "payment.succeeded")
	tx := p.begin()
	pgtest.Value[int64](t, tx, "SELECT position FROM event_feed FOR UPDATE")
	p.dispatch()
	if got := p.feed("acme"); got != "" {
		t.Fatalf("the feed has %s", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.dispatch()
	if got := p.feed("acme"); got == "" {
		t.Fatal("the feed is empty")
	}
}

// enqueued are the endpoints that get a job. The queue refuses some.
func (p *post) enqueued(refuses ...uuid.UUID) (got map[uuid.UUID]bool) {
	p.t.Helper()
	got = map[uuid.UUID]bool{}
	err := p.d.EnqueueDue(p.t.Context(), func(_ context.Context, _ pgx.Tx, due []Endpoint) (taken []Endpoint, _ error) {
		for _, e := range due {
			if _, twice := got[e.ID]; twice {
				p.t.Errorf("two jobs for %v", e)
			}
			got[e.ID] = e.Failing
			if !slices.Contains(refuses, e.ID) {
				taken = append(taken, e)
			}
		}
		return taken, nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

func TestEndpointGetsAJobIfSomethingIsDue(t *testing.T) {
	t.Parallel()
	p := setup(t)
	due, failing, busy := p.endpoint("acme", "http://a"), p.endpoint("acme", "http://b"), p.endpoint("acme", "http://c")
	resting, disabled := p.endpoint("acme", "http://d"), p.endpoint("acme", "http://e")
	later, deleted := p.endpoint("acme", "http://f"), p.endpoint("acme", "http://g")
	idle := p.endpoint("acme", "http://h", "x")
	p.events(2)
	p.exec("UPDATE webhook_endpoints SET failures = 1 WHERE id = $1", failing)
	p.exec("UPDATE webhook_endpoints SET rest_until = payonce_now() + interval '1 hour' WHERE id = $1", resting)
	p.exec("UPDATE webhook_endpoints SET disabled_at = payonce_now(), disabled_reason = 'test' WHERE id = $1", disabled)
	p.exec("UPDATE webhook_endpoints SET deleted_at = payonce_now() WHERE id = $1", deleted)
	p.exec("UPDATE event_deliveries SET due_at = payonce_now() + interval '1 hour' WHERE endpoint_id = $1", later)
	got := p.enqueued(busy)
	if len(got) != 3 || got[due] || !got[failing] || got[busy] {
		t.Fatalf("jobs for %v, not for %v", got, []uuid.UUID{due, failing, busy})
	}
	if _, ok := got[idle]; ok {
		t.Error("a job for an endpoint with nothing to deliver")
	}
	// While they have a job, they get no other. The one whose job was about to end gets its next one.
	if got := p.enqueued(); len(got) != 1 || got[busy] {
		t.Fatalf("then jobs for %v", got)
	}
	p.exec("UPDATE webhook_endpoints SET rest_until = payonce_now()") // The jobs are over, or they have died.
	if got := p.enqueued(); len(got) != 4 {
		t.Fatalf("at last jobs for %v", got)
	}
}

// Those of each kind that have rested longest get jobs. An endpoint of one kind waits for none of the other.
func TestEndpointsThatWorkDoNotHideThoseThatFail(t *testing.T) {
	t.Parallel()
	p := setup(t)
	failing, last := p.endpoint("acme", "http://failing"), p.endpoint("acme", "http://last")
	p.exec("UPDATE webhook_endpoints SET failures = 1 WHERE id = $1", failing)
	p.exec(`INSERT INTO webhook_endpoints (tenant_id, id, url, secret, rest_until)
		SELECT 'acme', gen_random_uuid(), 'http://a', $1, payonce_now() - interval '1 hour'
		FROM generate_series(1, $2)`, secret, dueBatch)
	p.events(1)
	got := p.enqueued()
	if _, ok := got[last]; ok || !got[failing] || len(got) != dueBatch+1 {
		t.Errorf("%d jobs, for the one that fails: %t, for the one that has rested least: %t", len(got), got[failing], ok)
	}
}
