package stripe

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
)

// A read that goes on without the failed part would say that there are no objects in it. One that is tried again in
// smaller parts would send many requests to a PSP that cannot answer.
func TestReadEndsWithTheFirstAnswerThatFails(t *testing.T) {
	t.Parallel()
	now, failed := today().Unix(), answer{status: 503}
	var full []answer
	for i := range windowPages {
		full = append(full, ok(listOf(true, chargeIs(i, "succeeded", now-firstWidth-1))))
	}
	for name, row := range map[string]struct {
		before []answer
		from   window
	}{
		"an old window":               {nil, window{now - 3*firstWidth, firstWidth}},
		"an old second":               {nil, window{now - firstWidth, 1}},
		"an old window that is full":  {full, window{now - 2*firstWidth, firstWidth}},
		"the newest window":           {nil, window{now, firstWidth}},
		"the newest second":           {nil, window{now + 5, 1}},
		"the newest, after two pages": {full[:2], window{now - firstWidth - 1, 2 * firstWidth}},
	} {
		s := scripted(t, map[string][]answer{chargesLine: append(slices.Clone(row.before), failed)})
		_, err := newClient(t, s.URL).List(t.Context(), gateway.ChargeObject, "acct_canary", time.Time{},
			row.from.cursor())
		if n := len(s.seen()); err == nil || !strings.Contains(err.Error(), "503") || n != len(row.before)+1 {
			t.Errorf("%s: %v, after %d requests", name, err, n)
		}
	}
	s := scripted(t, map[string][]answer{bookLine: {failed}})
	err := newClient(t, s.URL).Statement(t.Context(), "acct_canary", today().Add(-48*time.Hour),
		func(gateway.Record) error { return nil })
	if n := len(s.seen()); err == nil || !strings.Contains(err.Error(), "503") || n != 1 {
		t.Errorf("a statement: %v, after %d requests", err, n)
	}
}

// What has arrived is a whole intent that is cancelled. But the connection was cut, so it may not be the whole answer.
// By it, the key would be released, and the next attempt would charge again.
func TestIntentInAnAnswerThatIsCutProvesNothing(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string][]answer{
		confirmLine: {{lost: true}}, readLine: {{status: 200, body: intentIs("canceled"), cut: true}},
	})
	c := newClient(t, s.URL)
	indeterminate(t, c.Charge(t.Context(), aCharge()), "connection lost")
	l := c.Lookup(t.Context(), aCharge(), gateway.EndUnsent)
	if l != (gateway.LookupFailed{Reason: "connection lost"}) {
		t.Errorf("lookup %T %+v", l, l)
	}
}

// A window that ends with this second is not the newest one. Without a bound, it could not be cut, and would be read
// again and again.
func TestFullWindowThatEndsWithThisSecondIsCut(t *testing.T) {
	t.Parallel()
	now := today().Unix()
	l := ledgerOf(t, spread(100*windowPages+1, now-90, 0)...)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	l.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.requests.Load() == 60 {
			stop()
		}
		l.list(w, r)
	})
	page, err := newClient(t, l.URL).List(ctx, gateway.ChargeObject, "acct_canary", time.Time{},
		window{now - 99, 100}.cursor())
	if err != nil || len(page.Records) != len(l.created) || page.Next == "" || page.ReadTo.IsZero() {
		t.Fatalf("%d records, next %q, read to %s, after %d requests: %v", len(page.Records), page.Next, page.ReadTo,
			l.requests.Load(), err)
	}
}

// Only a page of one object may be longer than a page, so that nobody waits for a page of any length. And that page
// may be longer, so that one long object does not hide all others.
func TestOnlyAPageOfOneObjectMayBeLong(t *testing.T) {
	t.Parallel()
	long := replace(chargeIs(1, "succeeded", today().Unix()), `"origin"`, `"x":"`+strings.Repeat("x", maxPageBytes)+
		`","origin"`)
	limits := make(chan string, 9)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limits <- r.URL.Query().Get("limit")
		fmt.Fprint(w, listOf(false, long))
	}))
	t.Cleanup(s.Close)
	page, err := newClient(t, s.URL).List(t.Context(), gateway.ChargeObject, "acct_canary", time.Time{}, "")
	close(limits)
	var got []string
	for limit := range limits {
		got = append(got, limit)
	}
	if err != nil || len(page.Records) != 1 || !slices.Equal(got, []string{"100", "10", "1"}) {
		t.Fatalf("%d records, asked for %q at once: %v", len(page.Records), got, err)
	}
}

// It is an error then. Asking for fewer objects than one would not end.
func TestObjectThatIsLongerThanAnyPageEndsTheRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLonePage)
	var last string // requests come one at a time
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if last == "1" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		last = r.URL.Query().Get("limit")
		fmt.Fprint(w, listOf(false, `"`+long+`"`))
	}))
	t.Cleanup(s.Close)
	_, err := newClient(t, s.URL).List(t.Context(), gateway.ChargeObject, "acct_canary", time.Time{}, "")
	if err == nil || err.Error() != fmt.Sprintf("list charges: answer longer than %d bytes", maxLonePage) {
		t.Fatal(err)
	}
}
