package native_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
	"payonce/test/wait"
)

func (c *client) list() (gateway.Page, error) {
	c.t.Helper()
	page, err := c.List(c.t.Context(), gateway.ChargeObject, "canary-account", time.Time{}, "")
	if err != nil {
		c.checked(gateway.Indeterminate{Reason: err.Error()})
	}
	return page, err
}

func listFailed(t *testing.T, c *client, reason string) {
	t.Helper()
	page, err := c.list()
	if err == nil || err.Error() != reason || page.Records != nil || page.Next != "" {
		t.Fatalf("page %+v, error %v; want: %s", page, err, reason)
	}
}

func TestListIsSentAsTheContractSays(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	s := serving(t, func(w http.ResponseWriter, r *http.Request) {
		got <- strings.SplitN(requestText(r), "\n", 2)[0]
		_, _ = io.WriteString(w, nothingHeld)
	})
	c := newClient(t, s.URL)
	seoul := time.FixedZone("KST", 9*60*60)
	for want, row := range map[string]struct {
		object gateway.Object
		after  time.Time
		cursor string
	}{
		"GET /v1/charges?limit=100":              {object: gateway.ChargeObject},
		"GET /v1/refunds?cursor=a%26b&limit=100": {object: gateway.RefundObject, cursor: "a&b"},
		"GET /v1/charges?createdAfter=2026-11-20T12%3A00%3A00.000000001Z&cursor=c&limit=100": {gateway.ChargeObject,
			noon.Add(1).In(seoul), "c"},
	} {
		if _, err := c.List(t.Context(), row.object, "canary-account", row.after, row.cursor); err != nil {
			t.Fatal(err)
		}
		if asked := wait.For(t, "the request", got); asked != want {
			t.Errorf("asked for %s, want %s", asked, want)
		}
	}
}

func TestLongestCursorIsTaken(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("x", 1024)
	body := `{"data":[` + chargeHeld + `],"hasMore":true,"nextCursor":"` + longest + `"}`
	if page, err := newClient(t, answering(t, 200, body).URL).list(); err != nil || page.Next != longest {
		t.Errorf("the next page is %q: %v", page.Next, err)
	}
}

// With 255 characters and 500 of a reason, each escaped, and everything else at its longest.
func TestLongestPageFits(t *testing.T) {
	t.Parallel()
	longest := strings.NewReplacer(
		`"pay_canary"`, `"`+strings.Repeat(`\u0001`, 255)+`"`, `"pm_canary"`, `"`+strings.Repeat(`\u0001`, 500)+`"`,
		`ch_1`, strings.Repeat("c", 255), `canary-key-0123456789`, strings.Repeat("k", 300),
	).Replace(chargeHeld)
	all := make([]string, gateway.MaxPage)
	for i := range all {
		all[i] = longest
	}
	page, err := newClient(t, answering(t, 200, listing(all...)).URL).list()
	if err != nil || len(page.Records) != gateway.MaxPage {
		t.Fatalf("%d records, error %v", len(page.Records), err)
	}
	listFailed(t, newClient(t, answering(t, 200, listing(append(all, longest)...)).URL),
		"answer has more than 100 records")
}

// A scan that goes on from a wrong page misses money, or never ends.
func TestPageThatLeadsAstrayIsRefused(t *testing.T) {
	t.Parallel()
	page := func(data, rest string) string { return fmt.Sprintf(`{"data":[%s],%s}`, data, rest) }
	for name, row := range map[string]struct{ reason, body string }{
		"no hasMore":            {"answer malformed", page(chargeHeld, `"nextCursor":"x"`)},
		"more without a cursor": {"answer without a clear end", page(chargeHeld, `"hasMore":true`)},
		"a cursor without more": {"answer without a clear end",
			page(chargeHeld, `"hasMore":false,"nextCursor":"x"`)},
		"more behind nothing": {"answer without a clear end", page(``, `"hasMore":true,"nextCursor":"x"`)},
		"a cursor that is too big": {"answer without a clear end",
			page(chargeHeld, `"hasMore":true,"nextCursor":"`+strings.Repeat("x", 1025)+`"`)},
		"newest first": {"answer is not oldest first",
			page(chargeRefused+","+chargeHeld, `"hasMore":false`)},
		"another account": {"record of another account",
			page(replace(chargeHeld, "canary-account", "globex"), `"hasMore":false`)},
		"another object":             {"record of another object", page(refundHeld, `"hasMore":false`)},
		"not a list":                 {"answer malformed", `{"data":{}}`},
		"no opening bracket":         {"answer malformed", `{"data":` + chargeHeld + `],"hasMore":false}`},
		"no colon":                   {"answer malformed", `{"data"` + `[],"hasMore":false}`},
		"another sign for the colon": {"answer malformed", `{"data";[],"hasMore":false}`},
		"another sign for the comma": {"answer malformed", page(chargeHeld+";"+chargeRefused, `"hasMore":false`)},
		"a member that is too long": {"answer malformed",
			page(chargeHeld, `"hasMore":false,"total":`+strings.Repeat("1", 64<<10+1))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listFailed(t, newClient(t, answering(t, 200, row.body).URL), row.reason)
		})
	}
	for _, status := range []int{201, 204, 302, 404, 500} {
		listFailed(t, newClient(t, answering(t, status, nothingHeld).URL), fmt.Sprintf("PSP answered %d", status))
	}
}

// sumOf names a record by its bytes.
func sumOf(raw string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(raw))) }

// One record that cannot be read must not hide all those behind it, whatever is wrong with it; and it is no excuse for
// a page that leads astray. Of two ids, the first one names the record.
func TestUnreadableRecordsAreReturnedApart(t *testing.T) {
	t.Parallel()
	const noJSON = "record is not the JSON of one"
	for raw, row := range map[string]struct{ id, reason string }{
		replace(chargeHeld, `"succeeded"`, `"pending"`): {"ch_1", "record with a malformed status"},
		`7`:                                     {"", noJSON},
		replace(chargeHeld, `"ch_1"`, `"ch 1"`): {"", "record with a malformed id"},
		`"}],[{\"\\"`:                           {"", noJSON},
		`{"note":\}`:                            {"", noJSON},
		replace(chargeHeld, `{"id"`, `{"note":1,"note":2,"id"`):                               {"ch_1", noJSON},
		replace(chargeHeld, `"ch_1"`, `"ch_1","id":"ch_2"`):                                   {"ch_1", noJSON},
		replace(chargeHeld, `pay_canary`, "\xff"):                                             {"ch_1", noJSON},
		replace(chargeHeld, `"pay_canary"`, "\"\\ud800\""):                                    {"ch_1", noJSON},
		replace(chargeHeld, `"pay_canary"`, "\"a\nb\""):                                       {"ch_1", noJSON},
		replace(chargeHeld, `"pay_canary"`, strings.Repeat("[{}", 20_000)):                    {"", ""},
		replace(chargeHeld, `12000`, strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)): {"ch_1", noJSON},
		replace(chargeHeld, "canary-account", "globex"): {"ch_1",
			"record of another account"},
		refundHeld: {"rf_1", "record of another object"},
	} {
		body := `{"data":[` + chargeHeld + `,` + raw + `,` + chargeRefused + `],"hasMore":true,"nextCursor":"there"}`
		c := newClient(t, answering(t, 200, body).URL)
		if row.reason == "" { // its brackets do not close, and nobody knows where it ends
			listFailed(t, c, "answer malformed")
			continue
		}
		page, err := c.list()
		if err != nil {
			t.Fatalf("%.200s: %v", raw, err)
		}
		want := gateway.Page{
			Records:    []gateway.Record{parsed(t, chargeHeld), parsed(t, chargeRefused)},
			Unreadable: []gateway.Unreadable{{Raw: []byte(raw), Name: sumOf(raw), ID: row.id, Reason: row.reason}},
			Next:       "there",
		}
		if diff := cmp.Diff(want, page); diff != "" {
			t.Fatalf("page differs (-want +got):\n%s", diff)
		}
		lookupFailed(t, c.lookup(), row.reason)
	}
	astray := listing(chargeRefused, `{}`, chargeHeld)
	listFailed(t, newClient(t, answering(t, 200, astray).URL), "answer is not oldest first")
}

// What is wrong outside of the records is wrong with the answer.
func TestListItselfIsReadStrictly(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"data":[],"data":[],"hasMore":false}`, `{"data":[],"hasMore":false,"hasMore":false}`,
		`{"data":[],"hasMore":false,"x":{"a":1,"a":2}}`,
		"{\"data\":[],\"hasMore\":false,\"x\":\"\xff\"}", `{"data":[],"hasMore":false} x`,
		`{"data":[,],"hasMore":false}`, `{"data":[{},],"hasMore":false}`,
		`{"data":[]"hasMore":false}`, `{"data":[],"hasMore":false,}`, `{"data":[],"hasMore":0}`,
		`{"data":[],"hasMore":false,x:1}`, `[]`, `{}`, ``,
		`{"data":null,"hasMore":false}`, `{"hasMore":false}`, `{"data":[]}`,
		`{"data":[],"hasMore":false,"nextCursor":7}`, `{"data":[],"hasMore":false`,
		`{"data":[{}{}],"hasMore":false}`, `{"data":[7 7],"hasMore":false}`,
		`{"data":{},"hasMore":false}`, `{"data":"","hasMore":false}`, `{"Data":[],"hasMore":false}`,
		`{"data":[],"hasMore":null}`, `{"data":[],"hasMore":"false"}`, nothingHeld + nothingHeld,
		"\ufeff" + nothingHeld, `null`, `"none"`, `<html></html>`, `{"error":{"code":"internal_error"}}`,
	} {
		c := newClient(t, answering(t, 200, body).URL)
		listFailed(t, c, "answer malformed")
		lookupFailed(t, c.lookup(), "answer malformed")
	}
}

// Without a readable record there is a page that follows all the same.
func TestPageOfNothingReadableLeadsOn(t *testing.T) {
	t.Parallel()
	page, err := newClient(t, answering(t, 200, `{"data":[{}],"hasMore":true,"nextCursor":"there"}`).URL).list()
	if err != nil || len(page.Unreadable) != 1 || page.Next != "there" {
		t.Fatalf("page %+v, error %v", page, err)
	}
}

// An operator acts on the reason: the first one that was found says what the PSP did.
func TestFirstReasonToRefuseAPageIsTold(t *testing.T) {
	t.Parallel()
	globex := replace(chargeHeld, "canary-account", "globex")
	for body, reason := range map[string]string{
		`{"data":[` + globex + `],"hasMore":true,"nextCursor":"here"}`: "record of another account",
		`{"data":[` + globex + `],"nextCursor":"here"}`:                "answer malformed",
	} {
		_, err := newClient(t, answering(t, 200, body).URL).List(t.Context(), gateway.ChargeObject, "canary-account",
			time.Time{}, "here")
		if err == nil || err.Error() != reason {
			t.Errorf("%s: %v", body, err)
		}
	}
	odd := replace(chargeHeld, "canary-key-0123456789", "canary-key-0123456789.g2")
	s := serving(t, func(w http.ResponseWriter, r *http.Request) {
		held := chargeHeld
		if r.URL.Query().Get("cursor") == "here" {
			held = odd
		}
		_, _ = io.WriteString(w, `{"data":[`+held+`],"hasMore":true,"nextCursor":"here"}`)
	})
	lookupFailed(t, newClient(t, s.URL).lookup(), "answer has another key")
}

func TestPageThatLeadsBackToItselfIsRefused(t *testing.T) {
	t.Parallel()
	s := answering(t, 200, `{"data":[`+chargeHeld+`],"hasMore":true,"nextCursor":"here"}`)
	c := newClient(t, s.URL)
	page, err := c.list()
	if err != nil {
		t.Fatal(err)
	}
	page, err = c.List(t.Context(), gateway.ChargeObject, "canary-account", time.Time{}, page.Next)
	if err == nil || err.Error() != "answer leads back to its own page" || page.Records != nil {
		t.Fatalf("page %+v, error %v", page, err)
	}
}

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
