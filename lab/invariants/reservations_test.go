package invariants

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

func watch(t *testing.T, s *shop) *Reservations {
	t.Helper()
	o, err := WatchReservations(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return o
}

// sentFor is what the API sends for a payment of these tests.
func sentFor(reference string) []byte {
	return fmt.Appendf(nil, `{"amountCents":12000,"currency":"USD","paymentMethod":"pm_ok","reference":%q}`, reference)
}

func TestSendBehindItsReservationIsFine(t *testing.T) {
	t.Parallel()
	s := lived(t)
	o := watch(t, s)
	o.Arrived(t.Context(), "acme", paidKey, sentFor(s.reference(paidKey)))
	if found, err := o.Violations(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	if all, unasked := o.Arrivals(); all != 1 || unasked != 0 {
		t.Errorf("%d arrivals, %d unasked", all, unasked)
	}
}

func TestSendWithoutAReservationIsFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	reference := s.reference(paidKey)
	body := string(sentFor(reference))
	for name, a := range map[string]struct{ account, key, body string }{
		"another key":        {"acme", "another-0123456789ab", body},
		"another account":    {"globex", paidKey, body},
		"another payment":    {"acme", paidKey, string(sentFor(s.reference(lostKey)))},
		"another generation": {"acme", paidKey + ".g2", body},
		"no id of ours":      {"acme", paidKey, string(sentFor("order-7"))},
		"no key of ours":     {"acme", "short", body},
		"another amount":     {"acme", paidKey, strings.Replace(body, "12000", "12001", 1)},
		"another currency":   {"acme", paidKey, strings.Replace(body, "USD", "EUR", 1)},
		"another method":     {"acme", paidKey, strings.Replace(body, "pm_ok", "pm_slow", 1)},
		"no JSON":            {"acme", paidKey, "{"},
	} {
		o := watch(t, s)
		o.Arrived(t.Context(), a.account, a.key, []byte(a.body))
		if found, err := o.Violations(t.Context()); err != nil || len(found) != 1 || found[0].Invariant != "I9" {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

func TestSendOfAKeyThatIsNobodysAnyMoreIsCounted(t *testing.T) {
	t.Parallel()
	s := lived(t)
	o := watch(t, s)
	const held = `locked_until = now() + interval '1 minute', finished_at = NULL, response_status = NULL, response_content_type = NULL,
		response_location = NULL, response_schema_version = NULL, response_body = NULL`
	for _, set := range []string{
		"status = 'in_progress', " + held, "locked_until = now()",
		"status = 'unknown', locked_until = NULL, unknown_since = now(), reconcile_after = now()",
		"status = 'failed_retryable', unknown_since = NULL, reconcile_after = NULL, finished_at = now()",
	} {
		s.breach("UPDATE idempotency_keys SET "+set+" WHERE tenant_id = 'acme' AND key = $1", paidKey)
		o.Arrived(t.Context(), "acme", paidKey, sentFor(s.reference(paidKey)))
	}
	if late := o.Late(); !maps.Equal(late, map[string]int{"lease over": 1, "unknown": 1, "failed_retryable": 1}) {
		t.Errorf("late: %v", late)
	}
	if found, err := o.Violations(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// The database was away when the request arrived: what has been written by then is asked for later.
func TestSendWhileTheDatabaseIsAwayIsAskedForLater(t *testing.T) {
	t.Parallel()
	s := lived(t)
	o := watch(t, s)
	pool := o.pool
	away, err := WatchReservations(t.Context(), "postgres://nobody@127.0.0.1:1/nowhere") // nothing listens there
	if err != nil {
		t.Fatal(err)
	}
	o.pool = away.pool
	o.Arrived(t.Context(), "acme", paidKey, sentFor(s.reference(paidKey)))
	if _, unasked := o.Arrivals(); unasked != 1 {
		t.Fatalf("%d unasked", unasked)
	}
	if _, err := o.Violations(t.Context()); err == nil {
		t.Error("no error while the database is away")
	}
	away.Close()
	o.pool = pool
	o.unasked = append(o.unasked, arrival{account: "acme", key: paidKey,
		sent: sent{Reference: s.reference(paidKey)}, at: time.Now().Add(-time.Hour)})
	found, err := o.Violations(t.Context())
	if err != nil || len(found) != 1 || !strings.Contains(found[0].Detail, "later") {
		t.Errorf("%v, %v", found, err)
	}
}
