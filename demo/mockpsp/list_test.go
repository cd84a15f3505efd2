package mockpsp

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestPagesNeitherSkipNorRepeatWhileEntriesAreAppended(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	const before, limit = 7, 3
	for i := range before {
		p.charge(fmt.Sprintf("key-%d", i), "pm_ok")
	}
	appended, seen := 0, []string{}
	for cursor := ""; ; {
		page := p.list(fmt.Sprintf("/v1/charges?limit=%d&cursor=%s", limit, cursor))
		for _, e := range page.Data {
			seen = append(seen, e.IdempotencyKey)
		}
		if appended < 4 { // one more between any two pages
			p.charge(fmt.Sprintf("key-%d", before+appended), "pm_ok")
			appended++
		}
		if !page.HasMore {
			break
		}
		if len(page.Data) != limit || page.NextCursor == "" {
			t.Fatalf("a page of %d with cursor %q says that there is more", len(page.Data), page.NextCursor)
		}
		cursor = page.NextCursor
	}
	if len(seen) < before {
		t.Fatalf("seen: %v", seen)
	}
	for i, key := range seen {
		if key != fmt.Sprintf("key-%d", i) {
			t.Fatalf("not oldest first, each once: %v", seen)
		}
	}
}

func TestLastPageHasNoCursor(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	if got := p.get("/v1/charges").body; got != `{"data":[],"hasMore":false}` {
		t.Errorf("empty list: %s", got)
	}
	p.charge("key-1", "pm_ok")
	p.charge("key-2", "pm_ok")
	if page := p.list("/v1/charges?limit=2"); page.HasMore || page.NextCursor != "" || len(page.Data) != 2 {
		t.Errorf("full last page: %+v", page)
	}
}

func TestCreatedAfterIsStrictAlsoWhenTheClockStandsStill(t *testing.T) {
	t.Parallel()
	still := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	p := setup(t, func(c *Config) { c.Now = func() time.Time { return still } })
	for i := range 3 {
		p.charge(fmt.Sprintf("key-%d", i), "pm_ok")
	}
	all := p.list("/v1/charges").Data
	for i, e := range all {
		rest := p.list("/v1/charges?createdAfter=" + e.CreatedAt).Data
		if len(rest) != len(all)-i-1 {
			t.Errorf("after %s there are %d, want %d", e.CreatedAt, len(rest), len(all)-i-1)
		}
	}
	zoned := url.QueryEscape("2026-11-20T21:00:00.0000005+09:00") // half a microsecond after the first
	if rest := p.list("/v1/charges?createdAfter=" + zoned).Data; len(rest) != 2 {
		t.Errorf("after %s there are %d, want 2", zoned, len(rest))
	}
}

func TestFiltersCombine(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	for _, key := range []string{"key-1", "key-2", "key-3"} {
		p.charge(key, "pm_ok").want(t, http.StatusCreated, "")
	}
	for query, want := range map[string]string{
		"":                         "key-1 key-2 key-3",
		"?idempotencyKey=&cursor=": "key-1 key-2 key-3",
		"?idempotencyKey=key-2":    "key-2",
		"?idempotencyKey=key2":     "",
		"?idempotencyKey=key-2&createdAfter=2999-01-01T00:00:00Z": "",
	} {
		var keys []string
		for _, e := range p.list("/v1/charges" + query).Data {
			keys = append(keys, e.IdempotencyKey)
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("%q lists %q, want %q", query, got, want)
		}
	}
}

func TestWhatIsBookedLateIsFoundAtOnceAndListedLater(t *testing.T) {
	t.Parallel()
	at, path := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), ledgerPath(t)
	clock := func(c *Config) { c.Now = func() time.Time { return at } }
	p := setup(t, onFile(path, clock)) // late is an hour
	p.putFaults(`{"rates":{"booked_late":1}}`).want(t, http.StatusOK, "")
	charge := p.charge("key-1", "pm_ok").entry(t)
	refund := p.refund(charge.ID, "key-2", "", 300).entry(t)
	elsewhere := p.door("/_refunds", `{"chargeId":"`+charge.ID+`","amountCents":200}`).view(t)
	dispute := p.disputed(charge.ID, "")
	p.putFaults(`{"rates":{}}`).want(t, http.StatusOK, "")
	newer := p.charge("key-3", "pm_ok").entry(t)

	wantBooked := func(when string, charges, refunds, disputes, lines int) {
		t.Helper()
		for list, want := range map[string]int{"charges": charges, "refunds": refunds, "disputes": disputes} {
			if got := p.list("/v1/" + list).Data; len(got) != want {
				t.Errorf("%s: %d %s, want %d: %+v", when, len(got), list, want, got)
			}
		}
		if got := p.settlement("2026-11-20"); len(got) != lines {
			t.Errorf("%s: the settlement file has %v, want %d lines", when, got, lines)
		}
	}
	wantBooked("at once", 1, 0, 0, 1)
	if page := p.list("/v1/charges?limit=1"); page.Data[0] != newer || page.HasMore {
		t.Errorf("first is %+v", page)
	}
	for query, want := range map[string]entry{"charges?idempotencyKey=key-1": charge,
		"refunds?idempotencyKey=key-2": refund} {
		if got := p.list("/v1/" + query).Data; len(got) != 1 || got[0] != want {
			t.Errorf("%s finds %+v", query, got)
		}
	}
	for _, read := range []string{"/v1/charges/" + charge.ID, "/v1/disputes/" + dispute.ID} {
		p.get(read).want(t, http.StatusOK, "")
	}
	p.stop()

	at = at.Add(time.Hour - time.Second)
	p = setup(t, onFile(path, clock))
	wantBooked("after a restart", 1, 0, 0, 1)
	at = at.Add(2 * time.Second)
	wantBooked("later", 2, 2, 1, 5)
	if got := p.list("/v1/charges").Data; got[0] != charge || p.list("/v1/refunds").Data[1] != elsewhere.entry {
		t.Errorf("listed %+v: not in the order in which they were made", got)
	}
}

func TestBadListQueryIsRefused(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	for _, query := range []string{
		"limit=0", "limit=101", "limit=ten", "limit=1&limit=2", "createdAfter=yesterday",
		"createdafter=2026-11-20T00:00:00Z",
		"cursor=!!!", "cursor=" + url.QueryEscape(formatCursor(ObjectRefund, 1)), "cursor=" +
			formatCursor(ObjectCharge, -1), "cursor=NQ", "limit=%zz",
	} {
		answer := p.get("/v1/charges?" + query)
		if answer.status != http.StatusBadRequest || answer.code() != "invalid_request" {
			t.Errorf("%s: %d %s", query, answer.status, answer.body)
		}
	}
	if got := p.get("/v1/charges?limit=100").status; got != http.StatusOK {
		t.Errorf("limit 100: %d", got)
	}
	if got := len(p.list("/v1/charges?cursor=" + formatCursor(ObjectCharge, 1000)).Data); got != 0 {
		t.Errorf("a cursor past the end lists %d", got)
	}
}
