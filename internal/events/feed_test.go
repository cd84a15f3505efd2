package events

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// read reads a page of acme's feed.
func (m *merchant) read(p Position) (ids []string, page Page) {
	m.t.Helper()
	page, err := m.registry.Feed(m.t.Context(), "acme", p)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, e := range page.Events {
		ids = append(ids, e.ID)
	}
	return ids, page
}

func (m *merchant) wantFeed(p Position, more bool, want ...payments.EventName) (next *payments.EventName) {
	m.t.Helper()
	ids, page := m.read(p)
	var wanted []string
	for _, n := range want {
		wanted = append(wanted, IDOf(n))
	}
	if diff := cmp.Diff(wanted, ids); diff != "" || page.More != more {
		m.t.Fatalf("more is %t (-want +got):\n%s", page.More, diff)
	}
	return page.Next
}

func (m *merchant) switchOn() {
	m.t.Helper()
	if err := m.registry.SetFeed(m.t.Context(), "acme", true); err != nil {
		m.t.Fatal(err)
	}
}

// The event that was written first commits last. Its version is lower than what was read meanwhile.
func TestFeedDoesNotSkipAnEventThatCommitsLate(t *testing.T) {
	t.Parallel()
	m := newMerchant(t)
	m.switchOn()
	late := pgtest.Begin(t, m.pool)
	first := m.write(late, "acme", "payment.succeeded")
	second := m.event("acme", "payment.succeeded")
	if next := m.wantFeed(Position{Limit: 10}, false); next != nil {
		t.Errorf("an event without a place is shown, or has moved the cursor to %v", *next)
	}
	m.dispatch()
	next := m.wantFeed(Position{Limit: 10}, false, second)
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	next = m.wantFeed(Position{Limit: 10, After: next}, false)
	m.dispatch()
	next = m.wantFeed(Position{Limit: 10, After: next}, false, first)
	m.wantFeed(Position{Limit: 10}, false, second, first)
	m.wantFeed(Position{Limit: 10, After: next}, false)
}

func TestPagesOfTheFeedHaveEachEventOnce(t *testing.T) {
	t.Parallel()
	m := newMerchant(t)
	m.switchOn()
	var all []payments.EventName
	for n := range 7 {
		kind := "payment.succeeded"
		if n%3 == 0 {
			kind = "dispute.won"
		}
		all = append(all, m.event("acme", kind))
	}
	m.dispatch()
	next := m.wantFeed(Position{Limit: 3}, true, all[0], all[1], all[2])
	next = m.wantFeed(Position{Limit: 3, After: next}, true, all[3], all[4], all[5])
	next = m.wantFeed(Position{Limit: 3, After: next}, false, all[6])
	if *next != all[6] {
		t.Errorf("the last page leads on behind %v", *next)
	}
	next = m.wantFeed(Position{Limit: 2, Type: "dispute.won"}, true, all[0], all[3])
	m.wantFeed(Position{Limit: 2, Type: "dispute.won", After: next}, false, all[6])
	// A consumer of one type never reads the others again.
	if next = m.wantFeed(Position{Limit: 2, Type: "dispute.lost"}, false); *next != all[6] {
		t.Errorf("after a page without events, the next begins behind %v", *next)
	}
}

// A page looks at a limited number of events. What it has looked at in vain is not looked at again.
func TestPageOfARareTypeEndsEarlyAndLeadsOn(t *testing.T) {
	t.Parallel()
	m := newMerchant(t)
	m.switchOn()
	last := m.event("acme", "payment.succeeded")
	m.exec(`INSERT INTO events (tenant_id, payment_id, version, type, status, psp_charge_id, refunded_minor, changed_at)
		SELECT tenant_id, payment_id, version - n, type, status, psp_charge_id, 0, changed_at
		FROM events, generate_series(1, $1) AS n`, scanned)
	rare := m.event("acme", "dispute.won")
	m.dispatch()
	next := m.wantFeed(Position{Limit: 1, Type: "dispute.won"}, true)
	if next == nil || next.Version != last.Version-1 {
		t.Fatalf("the next page begins behind %v", next)
	}
	m.wantFeed(Position{Limit: 1, Type: "dispute.won", After: next}, false, rare)
}

func TestFeedSaysWhyItCannotGoOn(t *testing.T) {
	t.Parallel()
	m := newMerchant(t)
	ask := func(tenant string, after *payments.EventName) error {
		_, err := m.registry.Feed(t.Context(), tenant, Position{Limit: 10, After: after})
		return err
	}
	if err := ask("acme", nil); !errors.Is(err, ErrFeedOff) {
		t.Errorf("without feed: %v", err)
	}
	m.switchOn()
	own := m.event("acme", "payment.succeeded")
	if err := ask("acme", &own); !errors.Is(err, ErrGone) {
		t.Errorf("after an event without a place: %v", err)
	}
	m.dispatch()
	if err := ask("acme", &own); err != nil {
		t.Error(err)
	}
	if err := m.registry.SetFeed(t.Context(), "globex", true); err != nil {
		t.Fatal(err)
	}
	if err := ask("globex", &own); !errors.Is(err, ErrGone) {
		t.Errorf("after an event of another tenant: %v", err)
	}
	if page, err := m.registry.Feed(t.Context(), "globex", Position{Limit: 10}); err != nil || len(page.Events) != 0 {
		t.Errorf("another tenant reads %+v, %v", page, err)
	}
	m.exec("DELETE FROM events")
	if err := ask("acme", &own); !errors.Is(err, ErrGone) {
		t.Errorf("after an event that was pruned: %v", err)
	}
	m.wantFeed(Position{Limit: 10}, false)
}

// Without the feed and without an endpoint, no events are written. A reader who goes on behind that time would not hear
// of what came meanwhile.
func TestFeedDoesNotGoOnBehindAGap(t *testing.T) {
	t.Parallel()
	for name, gap := range map[string]func(*merchant){
		"feed off": func(m *merchant) {
			if err := m.registry.SetFeed(t.Context(), "acme", false); err != nil {
				t.Fatal(err)
			}
			m.switchOn()
		},
		"last endpoint deleted": func(m *merchant) {
			made, _ := m.make()
			if err := m.registry.SetFeed(t.Context(), "acme", false); err != nil {
				t.Fatal(err)
			}
			if err := m.registry.Delete(t.Context(), "acme", made.ID); err != nil {
				t.Fatal(err)
			}
			m.make()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMerchant(t)
			m.switchOn()
			first, second := m.event("acme", "payment.succeeded"), m.event("acme", "payment.succeeded")
			m.dispatch()
			gap(m)
			for _, after := range []payments.EventName{first, second} {
				_, err := m.registry.Feed(t.Context(), "acme", Position{Limit: 10, After: &after})
				if !errors.Is(err, ErrGap) {
					t.Errorf("after an event from before the gap: %v", err)
				}
			}
			if next := m.wantFeed(Position{Limit: 10}, false); next != nil {
				t.Errorf("the cursor %v leads to before the gap", *next)
			}
			third, fourth := m.event("acme", "payment.succeeded"), m.event("acme", "payment.succeeded")
			m.dispatch()
			next := m.wantFeed(Position{Limit: 1}, true, third)
			m.wantFeed(Position{Limit: 1, After: next}, false, fourth)
		})
	}
}

// To go from an endpoint to another, or to the feed, leaves no gap if the new one is there first.
func TestFeedGoesOnWhileSomethingIsWanted(t *testing.T) {
	t.Parallel()
	m := newMerchant(t)
	made, _ := m.make()
	event := m.event("acme", "payment.succeeded")
	m.dispatch()
	m.make()
	if err := m.registry.Delete(t.Context(), "acme", made.ID); err != nil {
		t.Fatal(err)
	}
	m.switchOn()
	m.wantFeed(Position{Limit: 10, After: &event}, false)
}

// A client keeps the cursor. So what it was told must survive a failover.
func TestFeedTellsOnlyWhatIsDurable(t *testing.T) {
	t.Parallel()
	m := newMerchant(t)
	m.switchOn()
	event := m.event("acme", "payment.succeeded")
	m.dispatch()
	proxy := pgproxy.Start(t, m.pool.Config().ConnString())
	m.registry.DB = pgtest.Open(t, proxy.URL(), pgtest.Limits())
	m.wantFeed(Position{Limit: 10}, false, event)
	if n := proxy.Sent("Durable"); n != 1 {
		t.Errorf("it was read durably %d times", n)
	}
	m.wantFeed(Position{Limit: 10, After: &event}, false)
	if n := proxy.Sent("Durable"); n != 1 {
		t.Error("nothing new was read durably")
	}
	proxy.On("Durable", pgproxy.CutBefore)
	if _, err := m.registry.Feed(t.Context(), "acme", Position{Limit: 10}); !postgres.Unavailable(err) {
		t.Errorf("if it may not be durable: %v", err)
	}
}

func TestEventIsDeliveredOnceMore(t *testing.T) {
	t.Parallel()
	m := newMerchant(t)
	every, _ := m.make()
	won, _ := m.make("dispute.won")
	disabled, _ := m.make()
	m.exec("UPDATE webhook_endpoints SET disabled_at = payonce_now(), disabled_reason = 'test' WHERE id = $1",
		uuid.UUID(disabled.ID))
	theirs, _, err := m.registry.Create(t.Context(), "globex", NewEndpoint{URL: address})
	if err != nil {
		t.Fatal(err)
	}
	event := m.event("acme", "payment.succeeded")
	ask := func(tenant string, e payments.EventName, to *EndpointID) ([]EndpointID, error) {
		return m.registry.Redeliver(t.Context(), tenant, e, to, "")
	}
	if got, err := ask("acme", event, nil); !errors.Is(err, ErrNoEvent) {
		t.Errorf("an event that the dispatch has not seen is delivered to %v, %v", got, err)
	}
	m.dispatch()
	m.exec("DELETE FROM event_deliveries WHERE endpoint_id <> $1", uuid.UUID(every.ID))
	m.exec(`UPDATE event_deliveries SET due_at = NULL, attempts = 7, first_at = payonce_now(),
		delivered_at = payonce_now()`)
	for _, c := range []struct {
		to   *EndpointID
		want []EndpointID
	}{{nil, []EndpointID{every.ID}}, {&won.ID, []EndpointID{won.ID}}, {&disabled.ID, []EndpointID{disabled.ID}}} {
		got, err := ask("acme", event, c.to)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	if n := pgtest.Value[int](t, m.pool, `SELECT count(*) FROM event_deliveries WHERE due_at <= payonce_now()
		AND attempts = 0 AND first_at IS NULL AND delivered_at IS NULL`); n != 3 {
		t.Errorf("%d of 3 deliveries are due and new", n)
	}

	for _, id := range []EndpointID{won.ID, every.ID} {
		if err := m.registry.Delete(t.Context(), "acme", id); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := ask("acme", event, nil); err != nil || len(got) > 0 {
		t.Errorf("deleted endpoints get it: %v, %v", got, err)
	}
	for name, c := range map[string]struct {
		tenant string
		event  payments.EventName
		to     *EndpointID
		want   error
	}{
		"deleted endpoint":    {"acme", event, &won.ID, ErrNoEndpoint},
		"another's endpoint":  {"acme", event, &theirs.ID, ErrNoEndpoint},
		"another's event":     {"globex", event, nil, ErrNoEvent},
		"another's and own":   {"globex", event, &theirs.ID, ErrNoEvent},
		"event that is not":   {"acme", payments.EventName{PaymentID: event.PaymentID, Version: 1}, nil, ErrNoEvent},
		"payment that is not": {"acme", payments.EventName{Version: event.Version}, nil, ErrNoEvent},
	} {
		if got, err := ask(c.tenant, c.event, c.to); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
