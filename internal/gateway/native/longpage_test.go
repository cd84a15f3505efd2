package native_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"payonce/internal/gateway"
)

// shelf is a PSP that lists records by limit and cursor, as the contract says.
type shelf struct {
	url  string
	asks atomic.Int32
}

func newShelf(t *testing.T, records []string) *shelf {
	t.Helper()
	s := &shelf{}
	s.url = serving(t, func(w http.ResponseWriter, r *http.Request) {
		s.asks.Add(1)
		from, _ := strconv.Atoi(r.FormValue("cursor"))
		limit, err := strconv.Atoi(r.FormValue("limit"))
		if err != nil || limit < 1 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		to := min(from+limit, len(records))
		rest := `"hasMore":false`
		if to < len(records) {
			rest = fmt.Sprintf(`"hasMore":true,"nextCursor":"%d"`, to)
		}
		_, _ = io.WriteString(w, `{"data":[`+strings.Join(records[from:to], ",")+`],`+rest+`}`)
	}).URL
	return s
}

// withMember is chargeHeld as charge number i, with a member that nobody reads.
func withMember(i, size int) string {
	return replace(replace(chargeHeld, `"ch_1"`, fmt.Sprintf(`"ch_%d"`, i)), `{"id"`, `{"metadata":"`+
		strings.Repeat("m", size)+`","id"`)
}

// readAll reads the list to its end.
func (c *client) readAll() (records []gateway.Record, unreadable []gateway.Unreadable) {
	c.t.Helper()
	for cursor := ""; ; {
		page, err := c.List(c.t.Context(), gateway.ChargeObject, "canary-account", time.Time{}, cursor)
		if err != nil {
			c.t.Fatal(err)
		}
		records, unreadable = append(records, page.Records...), append(unreadable, page.Unreadable...)
		if cursor = page.Next; cursor == "" {
			return records, unreadable
		}
	}
}

// A hundred records with 27 KB of metadata each are more than a page may have.
func TestPageThatIsTooLongIsAskedForInParts(t *testing.T) {
	t.Parallel()
	all := make([]string, 250)
	for i := range all {
		all[i] = withMember(i, 27<<10)
	}
	s := newShelf(t, all)
	records, unreadable := newClient(t, s.url).readAll()
	if len(records) != len(all) || len(unreadable) > 0 {
		t.Fatalf("%d records of %d, %d unreadable", len(records), len(all), len(unreadable))
	}
	for i, r := range records {
		if r.ID != fmt.Sprint("ch_", i) {
			t.Fatalf("record %d is %s", i, r.ID)
		}
	}
	// Of 38 that fit, all are taken: seven pages, each after one that was too long, but for the last.
	if n := s.asks.Load(); n > 14 {
		t.Errorf("the PSP was asked %d times", n)
	}
}

// A PSP may ignore the limit. Only a page of one record may be longer than a page: the others are requested in parts
// again, so that nobody waits for a page of any length.
func TestOnlyAPageOfOneRecordMayBeLong(t *testing.T) {
	t.Parallel()
	all := make([]string, 12)
	for i := range all {
		all[i] = withMember(i, 250<<10)
	}
	limits := make(chan string, 9)
	s := serving(t, func(w http.ResponseWriter, r *http.Request) {
		limits <- r.FormValue("limit")
		_, _ = io.WriteString(w, listing(all...))
	})
	page, err := newClient(t, s.URL).list()
	if err != nil || len(page.Records) != len(all) {
		t.Fatalf("%d records, error %v", len(page.Records), err)
	}
	close(limits)
	var got []string
	for limit := range limits {
		got = append(got, limit)
	}
	if want := "100 4 2 1"; strings.Join(got, " ") != want {
		t.Fatalf("asked for %s records, want %s", got, want)
	}
}

// A record may have more than a page by itself. One that is longer still is passed over, and called by its id.
func TestRecordThatIsTooLongHidesNoOther(t *testing.T) {
	t.Parallel()
	long := replace(withMember(3, 5<<20), `{"metadata"`, `{"id":"ch_long","metadata"`)
	s := newShelf(t, []string{withMember(0, 0), withMember(1, 2<<20), withMember(2, 0), long, withMember(4, 0)})
	records, unreadable := newClient(t, s.url).readAll()
	if len(records) != 4 || records[1].ID != "ch_1" || records[3].ID != "ch_4" || len(unreadable) != 1 {
		t.Fatalf("%d records, %d unreadable", len(records), len(unreadable))
	}
	u := unreadable[0]
	if u.ID != "ch_long" || u.Reason != "record longer than 4194304 bytes" || u.Name != sumOf(long) ||
		string(u.Raw) != long[:64<<10] {
		t.Fatalf("unreadable is %s %s %s, and %d bytes of it are kept", u.ID, u.Name, u.Reason, len(u.Raw))
	}
	if n := s.asks.Load(); n > 12 {
		t.Errorf("the PSP was asked %d times", n)
	}
}

// What we do not read of a record makes no lookup fail, however long it is.
func TestLookupReadsALongRecord(t *testing.T) {
	t.Parallel()
	s := newShelf(t, []string{withMember(1, 2<<20), withMember(2, 0)})
	l, ok := newClient(t, s.url).lookup().(gateway.Found)
	if !ok || len(l.Records) != 2 {
		t.Fatalf("lookup %T", l)
	}
	s = newShelf(t, []string{withMember(1, 5<<20)})
	lookupFailed(t, newClient(t, s.url).lookup(), "record longer than 4194304 bytes")
}
