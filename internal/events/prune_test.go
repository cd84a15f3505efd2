package events

import (
	"testing"
	"time"
)

const oneDay = 24 * time.Hour

func (p *post) prunes(want int64, limit int32) {
	p.t.Helper()
	if n, err := p.d.Prune(p.t.Context(), 30*oneDay, limit); err != nil || n != want {
		p.t.Fatalf("%d events pruned, want %d: %v", n, want, err)
	}
}

func TestOldEventsGoWithTheirDeliveries(t *testing.T) {
	t.Parallel()
	p := setup(t)
	p.endpoint("acme", "http://a")
	p.events(4)
	for _, table := range []string{"events", "event_deliveries"} { // three are older than 30 days
		p.exec(`UPDATE ` + table + ` AS e SET version = e.version - CASE WHEN o.n < 4 THEN 30 ELSE 29 END * 86400000000
			FROM (SELECT payment_id, row_number() OVER (ORDER BY payment_id) AS n FROM events) AS o
			WHERE o.payment_id = e.payment_id`)
	}
	p.prunes(2, 2)
	p.prunes(1, 2)
	p.prunes(0, 2)
	p.want("1 1", "SELECT concat_ws(' ', (SELECT count(*) FROM events), (SELECT count(*) FROM event_deliveries))")
}

// The cursor of a reader who has missed nothing is the last event of the tenant, however old it is.
func TestLastEventOfATenantStays(t *testing.T) {
	t.Parallel()
	p := setup(t)
	p.event("acme", "payment.succeeded")
	p.event("acme", "payment.succeeded")
	p.event("globex", "payment.succeeded")
	p.dispatch()
	p.exec("UPDATE events SET version = position")
	p.prunes(1, 9)
	p.want("2 3", "SELECT string_agg(position::text, ' ' ORDER BY position) FROM events")
}

// An event without a place is still to be told.
func TestNewEventIsNotPruned(t *testing.T) {
	t.Parallel()
	p := setup(t)
	p.event("acme", "payment.succeeded")
	p.exec("UPDATE events SET version = 1")
	p.prunes(0, 2)
}

func TestDeletedEndpointGoesAfterItsDeliveries(t *testing.T) {
	t.Parallel()
	p := setup(t)
	old, kept := p.endpoint("acme", "http://a"), p.endpoint("acme", "http://b")
	other := p.endpoint("acme", "http://c", "x")
	p.events(3)
	p.exec("UPDATE webhook_endpoints SET deleted_at = payonce_now() - interval '2 hours' WHERE id = ANY($1)", []any{old, other})
	p.exec("UPDATE webhook_endpoints SET deleted_at = payonce_now() - interval '59 minutes' WHERE id = $1", kept)
	for _, want := range []int64{2, 2, 1, 0} {
		if n, err := p.d.PruneEndpoints(t.Context(), 2); err != nil || n != want {
			t.Fatalf("%d rows pruned, want %d: %v", n, want, err)
		}
	}
	p.want("3 1", `SELECT concat_ws(' ', (SELECT count(*) FROM event_deliveries WHERE endpoint_id = $1),
		(SELECT count(*) FROM webhook_endpoints))`, kept)
}
