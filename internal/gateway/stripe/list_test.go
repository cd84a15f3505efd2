package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"payonce/internal/gateway"
)

// chargeIs is a charge of ours, made at a time in seconds.
func chargeIs(n int, status string, created int64) string {
	captured, got := "true", 700
	outcome := `"failure_code":null,"outcome":{"reason":null}`
	if status != "succeeded" {
		captured, got = "false", 0
	}
	if status == "failed" {
		outcome = `"failure_code":"card_declined","outcome":{"reason":"insufficient_funds"}`
	}
	return fmt.Sprintf(`{"id":"ch_%d","object":"charge","amount":700,"amount_captured":%d,"captured":%s,`+
		`"currency":"usd","status":%q,"payment_intent":"pi_c%d",%s,"created":%d,`+
		`"metadata":{"origin":"payonce:here","reference":"pay_%d","idempotency_key":"key-%d"}}`,
		n, got, captured, status, n, outcome, created, n, n)
}

// ledger is a server with a list of charges, in the order of their creation.
type ledger struct {
	*httptest.Server
	created  []int64
	requests atomic.Int32
}

func ledgerOf(t *testing.T, created ...int64) *ledger {
	t.Helper()
	slices.Sort(created)
	l := &ledger{created: created}
	l.Server = httptest.NewServer(http.HandlerFunc(l.list))
	t.Cleanup(l.Close)
	return l
}

// list answers as https://docs.stripe.com/api/pagination says: newest first.
func (l *ledger) list(w http.ResponseWriter, r *http.Request) {
	l.requests.Add(1)
	q := r.URL.Query()
	number := func(name string, otherwise int64) int64 {
		if n, err := strconv.ParseInt(q.Get(name), 10, 64); err == nil {
			return n
		}
		return otherwise
	}
	first := len(l.created) - 1
	if after := q.Get("starting_after"); after != "" {
		n, _ := strconv.Atoi(strings.TrimPrefix(after, "ch_"))
		first = n - 1
	}
	var objects []string
	more := false
	for i := first; i >= 0; i-- {
		if at := l.created[i]; at < number("created[gte]", 0) || at >= number("created[lt]", 1<<60) {
			continue
		}
		if int64(len(objects)) == number("limit", 10) {
			more = true
			break
		}
		objects = append(objects, chargeIs(i, "succeeded", l.created[i]))
	}
	fmt.Fprint(w, listOf(more, objects...))
}

// readAll reads page after page, and checks that the order is ours.
func readAll(t *testing.T, c *Client, after time.Time) (references []string, pages int) {
	t.Helper()
	var last time.Time
	for cursor := ""; ; pages++ {
		page, err := c.List(t.Context(), gateway.ChargeObject, "acct_canary", after, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Records {
			if r.Created.Before(last) {
				t.Fatalf("%s after %s", r.Created, last)
			}
			last = r.Created
			references = append(references, r.Reference)
		}
		if page.Next == "" {
			return references, pages + 1
		}
		if pages > 500 {
			t.Fatal("reading page after page does not end")
		}
		cursor = page.Next
	}
}

func TestListIsOldestFirstAndMissesNothing(t *testing.T) {
	t.Parallel()
	now := today().Unix()
	for name, row := range map[string]struct {
		created []int64
		most    int32 // requests
	}{
		"nothing":              {nil, 1},
		"a few over years":     {spread(90, now-10*365*daySeconds, 40*daySeconds), 1},
		"many over years":      {spread(2000, now-10*365*daySeconds, daySeconds), 90},
		"all within a minute":  {spread(3000, now-100, 0, 1, 0), 160},
		"all in one second":    {spread(2500, now-5000, 0), 200},
		"old ones, then today": {append(spread(150, now-8*365*daySeconds, 3600), spread(1500, now-9000, 6)...), 115},
		"in the future":        {spread(120, now+30, 1), 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ledgerOf(t, row.created...)
			c := newClient(t, l.URL)
			got, _ := readAll(t, c, time.Time{})
			if len(got) != len(row.created) || len(got) != len(distinct(got)) {
				t.Fatalf("%d records, %d of them distinct, want %d", len(got), len(distinct(got)), len(row.created))
			}
			n := l.requests.Load()
			t.Log("requests", n)
			if n > row.most {
				t.Errorf("%d requests, want at most %d", n, row.most)
			}
		})
	}
}

// A scan goes on from there. The newest window has no end.
func TestPageIsReadToTheEndOfItsWindow(t *testing.T) {
	t.Parallel()
	at := today().Unix() - 7200
	l := ledgerOf(t, at)
	for cursor, want := range map[string]time.Time{
		"": {}, fmt.Sprintf("%d:3600", at): time.Unix(at+3600, 0).UTC(),
	} {
		page, err := newClient(t, l.URL).List(t.Context(), gateway.ChargeObject, "acct_canary", time.Unix(at, 0),
			cursor)
		if err != nil || len(page.Records) != 1 || !page.ReadTo.Equal(want) {
			t.Errorf("from %q: %d records, read to %s, want %s: %v", cursor, len(page.Records), page.ReadTo, want, err)
		}
	}
}

// Stripe's clock is ahead of ours, so the second is in the newest window. It cannot be cut, and reading it again and
// again would not end.
func TestSecondInTheFutureWithTooManyObjectsFails(t *testing.T) {
	t.Parallel()
	at := today().Unix() + 5
	l := ledgerOf(t, spread(100*secondPages+1, at, 0)...)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	_, err := newClient(t, l.URL).List(ctx, gateway.ChargeObject, "acct_canary", today(), fmt.Sprintf("%d:1", at))
	if n := l.requests.Load(); !errors.Is(err, errNoEnd) || n != secondPages {
		t.Fatalf("%v, after %d requests", err, n)
	}
}

func spread(n int, from int64, steps ...int64) (created []int64) {
	for i := range n {
		created = append(created, from)
		from += steps[i%len(steps)]
	}
	return created
}

func distinct(all []string) []string {
	all = slices.Clone(all)
	slices.Sort(all)
	return slices.Compact(all)
}

func TestListBeginsAtTheSecondOfAfter(t *testing.T) {
	t.Parallel()
	now := today().Unix()
	l := ledgerOf(t, now-2, now-1, now)
	got, _ := readAll(t, newClient(t, l.URL), time.Unix(now-1, 900_000_000))
	if !slices.Equal(got, []string{"pay_1", "pay_2"}) {
		t.Fatalf("read %q", got)
	}
}

func TestTooManyChargesInOneSecondAreAnError(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t, spread(101*100, today().Unix()-100, 0)...)
	c := newClient(t, l.URL)
	w := window{today().Unix() - 100, 1}
	if _, err := c.List(t.Context(), gateway.ChargeObject, "acct_canary", time.Time{}, w.cursor()); err == nil ||
		!strings.Contains(err.Error(), "more than 100 pages in one second") {
		t.Fatalf("error %v", err)
	}
}

// The second that is full is read twice: one page to see that it is full, and then all pages. An error on the way is
// not too many objects.
func TestErrorInAFullSecondIsSaid(t *testing.T) {
	t.Parallel()
	at := today().Unix() - 100
	var pages []answer
	for i := range windowPages + 1 {
		pages = append(pages, ok(listOf(true, chargeIs(i, "succeeded", at))))
	}
	s := scripted(t, map[string][]answer{chargesLine: append(pages, answer{status: 503})})
	_, err := newClient(t, s.URL).List(t.Context(), gateway.ChargeObject, "acct_canary", time.Time{},
		window{at, 2}.cursor())
	if err == nil || !strings.Contains(err.Error(), "503") {
		t.Fatalf("error %v", err)
	}
}

// An operator searches for the id under which we keep the object: a charge has that of its intent.
func TestUnreadableObjectHasTheIDThatWeWouldKeepItUnder(t *testing.T) {
	t.Parallel()
	for raw, c := range map[string]struct {
		object gateway.Object
		want   string
	}{
		`{"id":"ch_1","payment_intent":"pi_1"}`: {gateway.ChargeObject, "pi_1"},
		`{"id":"ch_2"}`:                         {gateway.ChargeObject, "ch_2"},
		`{"id":"re_1","payment_intent":"pi_1"}`: {gateway.RefundObject, "re_1"},
	} {
		if u := putAside(c.object, []byte(raw), errNoRecord); u.ID != c.want {
			t.Errorf("%s has the id %q", raw, u.ID)
		}
	}
}

func TestListThatIsNoneIsAnError(t *testing.T) {
	t.Parallel()
	one := chargeIs(1, "succeeded", today().Unix())
	for name, body := range map[string]string{
		"empty": "", "null": "null", "array": "[]", "no has_more": `{"object":"list","data":[]}`,
		"no data":          `{"object":"list","has_more":false}`,
		"data null":        `{"object":"list","data":null,"has_more":false}`,
		"data an object":   `{"object":"list","data":{"a":[]},"has_more":false}`,
		"data as text":     `{"object":"list","data":"[]","has_more":false}`,
		"has_more as text": `{"object":"list","data":[],"has_more":"false"}`,
		"no list":          `{"object":"search_result","data":[],"has_more":false}`, "more, and none": listOf(true),
		"cut off":     listOf(false, one)[:200],
		"more behind": listOf(false) + "{}", "data twice": replace(listOf(false), `"data"`, `"data":[`+one+`],"data"`),
		"more behind one without an id": listOf(true, `{"object":"charge"}`), "more, for ever": listOf(true, one),
		"before the window": listOf(false, chargeIs(1, "succeeded", 5)),
	} {
		s := scripted(t, map[string][]answer{chargesLine: {ok(body)}})
		page, err := newClient(t, s.URL).List(t.Context(), gateway.ChargeObject, "acct_canary",
			today().Add(-time.Hour), "")
		if err == nil || page.Records != nil || strings.Contains(err.Error(), "acct_canary") {
			t.Errorf("%s: %+v, %v", name, page, err)
		}
	}
	s := scripted(t, map[string][]answer{chargesLine: {{status: 503}}})
	if _, err := newClient(t, s.URL).List(t.Context(), gateway.ChargeObject, "acct_canary", time.Time{},
		""); err == nil {
		t.Error("a 503 is a list")
	}
	before := len(s.seen())
	_, err := newClient(t, s.URL).List(t.Context(), "payout", "acct_canary", time.Time{}, "")
	if err == nil || !strings.Contains(err.Error(), "no such object") || len(s.seen()) != before {
		t.Errorf("payouts are asked for: %v", err)
	}
}

func TestListThatLeadsNowhereIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	one := chargeIs(1, "succeeded", today().Unix())
	for name, row := range map[string]struct {
		object string
		most   int // requests
	}{
		"back to its own page":  {one, 2},
		"to an id that is none": {replace(one, `"ch_1"`, `"ch 1"`), 1},
	} {
		s := scripted(t, map[string][]answer{refundsLine: {ok(listOf(true, row.object))}})
		p := newClient(t, s.URL).pages("acct_canary", refundsPath, url.Values{"payment_intent": {"pi_1"}})
		var err error
		for range 3 {
			if _, err = p.next(t.Context()); err != nil {
				break
			}
		}
		if err == nil || len(s.seen()) > row.most {
			t.Errorf("%s: %d requests, %v", name, len(s.seen()), err)
		}
	}
}

func TestCursorIsReadStrictly(t *testing.T) {
	t.Parallel()
	s := scripted(t, nil)
	for _, cursor := range []string{
		"1", ":", "1:", ":1", "0:1", "1:0", "01:1", "1:01", "-1:1", "+1:1", "1:-1", " 1:1", "1:1 ", "1:1\n", "1:1:1",
		"1.0:1", "a:1",
		"999999999999:1", "1:99999999999", "1:9999999999",
	} {
		if _, err := newClient(t, s.URL).List(t.Context(), gateway.ChargeObject, "acct_canary", time.Time{},
			cursor); err == nil {
			t.Errorf("%q is taken", cursor)
		}
	}
	for _, w := range []window{{stripeBegan, firstWidth}, {today().Unix(), 1}, {1, widest}} {
		if got, err := parseCursor(w.cursor()); err != nil || got != w {
			t.Errorf("%+v is read as %+v, %v", w, got, err)
		}
	}
}

// One malformed object hides no other.
func TestObjectsOfAListAreReadEachOnItsOwn(t *testing.T) {
	t.Parallel()
	now := today().Unix()
	objects := []string{
		chargeIs(9, "succeeded", now), chargeIs(8, "failed", now-1), chargeIs(7, "pending", now-2),
		replace(chargeIs(6, "succeeded", now-3), `"captured":true`, `"captured":false`),
		replace(chargeIs(5, "succeeded", now-4), `"origin":"payonce:here"`, `"origin":"shop"`),
		replace(chargeIs(4, "succeeded", now-5), `"payment_intent":"pi_c4"`, `"payment_intent":null`),
		replace(chargeIs(3, "succeeded", now-6), `"amount_captured":700`, `"amount_captured":-1`),
		replace(chargeIs(2, "succeeded", now-7), `"currency"`, `"currency":"eur","currency"`),
		replace(chargeIs(1, "succeeded", now-8), `"usd"`, "\"\xff\""),
		replace(chargeIs(0, "succeeded", now-9), `"object":"charge"`, `"object":"refund","client_secret":"canary"`),
		replace(chargeIs(0, "succeeded", now-9), `"pi_c0"`, `"pi\u0000c0"`), // the database cannot store this id
		chargeIs(0, "resting", now-10),
	}
	s := scripted(t, map[string][]answer{chargesLine: {ok(listOf(false, objects...))}})
	page, err := newClient(t, s.URL).List(t.Context(), gateway.ChargeObject, "acct_canary", time.Time{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Records) != 2 || page.Records[0].ID != "pi_c8" || page.Records[1].ID != "pi_c9" || page.Foreign != 2 ||
		page.Records[0].DeclineCode != "insufficient_funds" || page.Records[1].AmountMinor != 700 {
		t.Errorf("page %+v", page)
	}
	var ids []string
	for _, u := range page.Unreadable {
		ids = append(ids, u.ID)
		if !strings.HasPrefix(u.Name, "sha256:") || len(u.Name) != 71 || u.Reason == "" || len(u.Raw) == 0 ||
			strings.Contains(string(u.Raw), `"client_secret":"canary"`) {
			t.Errorf("unreadable %+v", u)
		}
	}
	if !slices.Equal(ids, []string{"pi_c0", "ch_0", "pi_c0", "pi_c1", "pi_c2", "pi_c3"}) {
		t.Errorf("unreadable %q", ids)
	}
}

// A refund that is no refund, or whose status we do not know, may be money that has moved.
func TestRefundsOfAListAreReadEachOnItsOwn(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC) // of refundIs
	for name, c := range map[string]struct {
		object                       string
		records, unreadable, foreign int
	}{
		"succeeded":          {refundIs("succeeded"), 1, 0, 0},
		"failed":             {refundIs("failed"), 1, 0, 0},
		"pending":            {refundIs("pending"), 0, 0, 0},
		"requires action":    {refundIs("requires_action"), 0, 0, 0},
		"an unknown status":  {refundIs("paid_twice"), 0, 1, 0},
		"another object":     {replace(refundIs("succeeded"), `"object":"refund"`, `"object":"charge"`), 0, 1, 0},
		"no text":            {replace(refundIs("succeeded"), `"usd"`, `7`), 0, 1, 0},
		"no currency":        {replace(refundIs("succeeded"), `"usd"`, `"US"`), 0, 1, 0},
		"of another program": {replace(refundIs("succeeded"), `"origin":"payonce:here"`, `"origin":"shop"`), 1, 0, 0},
		"its pending one":    {unmarked(refundIs("pending")), 1, 0, 0},
		"of no intent":       {replace(refundIs("succeeded"), `"pi_1"`, `null`), 0, 0, 1},
	} {
		s := scripted(t, map[string][]answer{refundsLine: {ok(listOf(false, c.object))}})
		page, err := newClient(t, s.URL).List(t.Context(), gateway.RefundObject, "acct_canary", at, "")
		if err != nil || len(page.Records) != c.records || len(page.Unreadable) != c.unreadable ||
			page.Foreign != c.foreign {
			t.Errorf("%s: %+v, %v", name, page, err)
		}
	}
}

// A scan goes on behind the last record of a page.
func TestListIsSortedWhateverTheOrderOfThePSP(t *testing.T) {
	t.Parallel()
	now := today().Unix()
	s := scripted(t, map[string][]answer{chargesLine: {ok(listOf(false, chargeIs(1, "succeeded", now-5),
		chargeIs(2, "succeeded", now), chargeIs(3, "succeeded", now-9)))}})
	if got, _ := readAll(t, newClient(t, s.URL), time.Time{}); !slices.Equal(got, []string{"pay_3", "pay_1", "pay_2"}) {
		t.Fatalf("read %q", got)
	}
}

// bookIs is a balance transaction, in the currency of the payout.
func bookIs(kind string, created int64, source string) string {
	return fmt.Sprintf(`{"id":"txn_1","object":"balance_transaction","amount":650,"fee":30,"net":620,"currency":"eur",`+
		`"type":%q,"created":%d,"source":%s}`, kind, created, source)
}

func TestStatementHasTheMovementsOfTheDayInTheCustomersCurrency(t *testing.T) {
	t.Parallel()
	day := today().Truncate(24 * time.Hour).Add(-24 * time.Hour)
	at := day.Unix() + 100
	s := scripted(t, map[string][]answer{bookLine: {ok(listOf(false,
		bookIs("payout", at+50, `null`),
		bookIs("payment_refund", at+45, replace(refundIs("succeeded"), "re_1", "re_2")),
		bookIs("refund", at+40, refundIs("succeeded")), bookIs("stripe_fee", at+30, `"fee_1"`),
		bookIs("charge", at+20, replace(chargeIs(2, "succeeded", at+20), `"origin":"payonce:here",`, ``)),
		bookIs("payment", at+10, chargeIs(1, "succeeded", at-1000)), bookIs("charge", at, chargeIs(0, "succeeded",
			at))))}})
	var got []string
	err := newClient(t, s.URL).Statement(t.Context(), "acct_canary", day.Add(5*time.Hour),
		func(l gateway.Line) error {
			got = append(got, fmt.Sprintf("%s %s %d %s %d", l.Type, l.ID, l.AmountMinor, l.Currency,
				l.Created.Unix()-at))
			if l.LineID != "txn_1" || l.FeeMinor != 30 || l.NetMinor != 620 || l.BalanceCurrency != "EUR" {
				t.Errorf("line %+v", l)
			}
			return nil
		})
	want := []string{"charge pi_c0 700 USD 0", "payment pi_c1 700 USD 10", "charge  0  20", "stripe_fee  0  30",
		"refund re_1 500 USD 40", "payment_refund re_2 500 USD 45", "payout  0  50"}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("statement %q, %v", got, err)
	}
	q := s.seen()[0].form
	if q.Get("created[gte]") != fmt.Sprint(day.Unix()) || q.Get("created[lt]") != fmt.Sprint(day.Unix()+daySeconds) ||
		q.Get("expand[]") != "data.source" {
		t.Fatalf("asked for %v", q)
	}
}

// A refund may fail days after it succeeded. Its own day is read by then, and a list by creation does not have it.
func TestStatementOfTheDayHasARefundWhoseMoneyCameBack(t *testing.T) {
	t.Parallel()
	day := today().Truncate(24 * time.Hour).Add(-24 * time.Hour)
	at := day.Unix() + 100
	line := bookIs("refund_failure", at, refundIs("failed"))
	s := scripted(t, map[string][]answer{bookLine: {ok(listOf(false, line))}})
	var got []string
	err := newClient(t, s.URL).Statement(t.Context(), "acct_canary", day, func(r gateway.Line) error {
		got = append(got, r.ID+" "+r.Status)
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"re_1 declined"}) {
		t.Fatalf("statement %q, %v", got, err)
	}
}

func TestStatementIsThereTenMinutesAfterTheDay(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string][]answer{bookLine: {ok(listOf(false))}})
	day := today().Truncate(24 * time.Hour)
	for later, there := range map[time.Duration]bool{
		12 * time.Hour: false, 24*time.Hour + 10*time.Minute - 1: false, 24*time.Hour + 10*time.Minute: true,
	} {
		c := newClient(t, s.URL, func(c *Config) { c.Now = func() time.Time { return day.Add(later) } })
		err := c.Statement(t.Context(), "acct_canary", day, func(gateway.Line) error { return nil })
		if errors.Is(err, gateway.ErrNoStatement) == there || there && err != nil {
			t.Errorf("%s later: %v", later, err)
		}
	}
}

// A statement that leaves out a movement would prove that it is missing.
func TestStatementThatCannotBeReadWholeIsAnError(t *testing.T) {
	t.Parallel()
	day := today().Truncate(24 * time.Hour).Add(-24 * time.Hour)
	at := day.Unix() + 100
	for name, body := range map[string]string{
		"malformed": listOf(false, `{"object":"balance_transaction"}`),
		"a type that is no text": listOf(false, fmt.Sprintf(`{"object":"balance_transaction","created":%d,"source":%s,`+
			`"type":7}`, at, chargeIs(1, "succeeded", at))),
		"of another day": listOf(false, bookIs("charge", at-200, chargeIs(1, "succeeded", at))),
		"malformed source": listOf(false, bookIs("charge", at, replace(chargeIs(1, "succeeded", at), `"usd"`,
			`"US"`))),
		"a fee of less than a króna": listOf(false, replace(bookIs("charge", at, chargeIs(1, "succeeded", at)), `"eur"`,
			`"isk"`)),
		"source not expanded": listOf(false, bookIs("charge", at, `"ch_1"`)),
		"a dispute without its source": listOf(false, replace(bookIs("adjustment", at, `null`), `"type"`,
			`"reporting_category":"dispute","type"`)),
		"a debit that came back, without its source": listOf(false, bookIs("payment_failure_refund", at, `"py_1"`)),
		"another object": listOf(false, chargeIs(1, "succeeded", at)),
	} {
		s := scripted(t, map[string][]answer{bookLine: {ok(body)}})
		if err := newClient(t, s.URL).Statement(t.Context(), "acct_canary", day,
			func(gateway.Line) error { return nil }); err == nil || errors.Is(err, gateway.ErrNoStatement) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := scripted(t, map[string][]answer{bookLine: {ok(listOf(false, bookIs("charge", at, chargeIs(1, "succeeded",
		at))))}})
	stop := errors.New("stop")
	if err := newClient(t, s.URL).Statement(t.Context(), "acct_canary", day,
		func(gateway.Line) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
}

func TestLinesOfAPayoutAreThoseThatStripeListsUnderIt(t *testing.T) {
	t.Parallel()
	item := func(id, kind string) string {
		return fmt.Sprintf(`{"id":%q,"object":"balance_transaction","type":%q}`, id, kind)
	}
	read := func(answers ...answer) (ids []string, s *script, err error) {
		s = scripted(t, map[string][]answer{bookLine: answers})
		err = newClient(t, s.URL).PayoutLines(t.Context(), "acct_canary", "po_1", func(id string) error {
			ids = append(ids, id)
			return nil
		})
		return ids, s, err
	}
	first := ok(listOf(true, item("txn_po", "payout"), item("txn_2", "refund")))
	ids, s, err := read(first, ok(listOf(false, item("txn_1", "charge"), item("txn_0", "payout_failure"))))
	if err != nil || !slices.Equal(ids, []string{"txn_2", "txn_1", "txn_0"}) {
		t.Errorf("read %q, %v", ids, err)
	}
	if q := s.seen()[1].form; q.Get("payout") != "po_1" || q.Get("starting_after") != "txn_2" {
		t.Errorf("asked for %v", q)
	}
	if _, _, err := read(answer{status: 400}); !errors.Is(err, gateway.ErrNoPayoutLines) {
		t.Errorf("a payout that is not automatic: %v", err)
	}
	for name, second := range map[string]answer{"a failure": {status: 503}, "a refusal": {status: 400},
		"a line without an id": ok(listOf(false, `{"type":"charge"}`))} {
		if _, _, err := read(first, second); err == nil || errors.Is(err, gateway.ErrNoPayoutLines) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A second that two windows have is read twice, and one that none has is never read.
func TestWindowEndsWhereTheNextOneBegins(t *testing.T) {
	t.Parallel()
	const from, width = stripeBegan, 10
	w := window{from, width}
	for created, has := range map[int64]bool{
		from - 1: false, from: true, from + 9: true, from + 10: false, 1 << 40: false,
	} {
		if w.has(created) != has {
			t.Errorf("%d seconds after its beginning: %t", created-from, !has)
		}
	}
	if next := w.following(0); next.has(from+9) || !next.has(from+10) {
		t.Errorf("the next window is %+v", next)
	}
	if newest := w.unbounded(); newest.has(from-1) || !newest.has(1<<40) {
		t.Error("the newest window has an end, or no beginning")
	}
}

func TestOnlyASecondMayHaveManyPages(t *testing.T) {
	t.Parallel()
	for width, pages := range map[int64]int{1: secondPages, 2: windowPages} {
		if got := (window{stripeBegan, width}).pages(); got != pages {
			t.Errorf("%d seconds: %d pages", width, got)
		}
	}
}

func TestNextWindowIsWiderWhereFewObjectsAre(t *testing.T) {
	t.Parallel()
	for objects, width := range map[int]int64{sparse: 20, sparse + 1: 10} {
		if got := (window{stripeBegan, 10}).following(objects); got.width != width || got.from != stripeBegan+10 {
			t.Errorf("after %d objects: %+v", objects, got)
		}
	}
}

func TestOnlyWhatIsExpandedIsAskedForSo(t *testing.T) {
	t.Parallel()
	for expand, asked := range map[string]bool{"": false, "data.source": true} {
		if query := (source{expand: expand}).query(window{}); query.Has("expand[]") != asked {
			t.Errorf("%q: %v", expand, query)
		}
	}
}

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
		func(gateway.Line) error { return nil })
	if n := len(s.seen()); err == nil || !strings.Contains(err.Error(), "503") || n != 1 {
		t.Errorf("a statement: %v, after %d requests", err, n)
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
	if err == nil || err.Error() != fmt.Sprintf("answer longer than %d bytes", maxLonePage) {
		t.Fatal(err)
	}
}
