package native_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
	"payonce/test/wait"
)

const (
	header     = "id,object,idempotencyKey,reference,chargeId,amountCents,currency,status,feeCents,netCents,createdAt\r\n"
	chargeLine = "ch_1,charge,canary-key-1,pay_canary,,12000,USD,succeeded,350,11650,2026-11-20T12:00:00.000001Z\r\n"
	refundLine = "rf_1,refund,canary-key-2,re_canary,ch_1,500,USD,succeeded,0,-500,2026-11-20T12:00:00.000002Z\r\n"
	trailer    = "total,2,,,,,,,,,\r\n"
	statement  = header + chargeLine + refundLine + trailer
)

func discard(gateway.Line) error { return nil }

// statement reads the statement of the day, and returns the ids delivered. Its error holds nothing that a log must not.
func (c *client) statement() (ids []string, err error) {
	c.t.Helper()
	err = c.Statement(c.t.Context(), "canary-account", noon, func(r gateway.Line) error {
		ids = append(ids, r.ID)
		return nil
	})
	if err != nil {
		c.checked(gateway.Indeterminate{Reason: err.Error()})
	}
	return ids, err
}

// broken checks that a statement fails for a reason, after having delivered some records.
func broken(t *testing.T, c *client, delivered int, reason string) {
	t.Helper()
	ids, err := c.statement()
	if err == nil || err.Error() != reason || len(ids) != delivered {
		t.Fatalf("delivered %v, error %v; want %d and: %s", ids, err, delivered, reason)
	}
}

func TestStatementIsSentAsTheContractSays(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	s := serving(t, func(w http.ResponseWriter, r *http.Request) {
		got <- requestText(r)
		_, _ = io.WriteString(w, header+"total,0,,,,,,,,,\r\n")
	})
	c := newClient(t, s.URL)
	// Past midnight in Seoul, the day before in UTC.
	night := time.Date(2026, 11, 21, 8, 59, 0, 0, time.FixedZone("KST", 9*60*60))
	if err := c.Statement(t.Context(), "canary-account", night, discard); err != nil {
		t.Fatal(err)
	}
	want := `GET /v1/settlements/2026-11-20.csv
Accept: text/csv
Authorization: Bearer ` + secret + `
Cache-Control: no-cache
Psp-Account: canary-account
`
	if diff := cmp.Diff(want, wait.For(t, "the request", got)); diff != "" {
		t.Fatalf("request differs (-want +got):\n%s", diff)
	}
}

// hashedLine is the name of the line of an id that has 255 letters.
const hashedLine = "SfJ0Wqkod-skcbpkTf-HYguM4srT8ZJFF6yl1Bt7FTE.g0"

func TestStatementDeliversEachLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 255)
	odd := `ch_9,charge,"a ""key"", theirs","two` + "\r\n" + `lines",,0,KRW,succeeded,0,0,2026-11-20T23:59:59.999998Z` +
		"\npo_1,payout,,,,11650,USD,paid,0,-11650,2026-11-20T23:59:59.999998Z" +
		"\nadj_1,adjustment,,,,,USD,,0,-7,2026-11-20T23:59:59.999999Z" +
		"\n" + long + ",,,,,,USDC,,0,-7,2026-11-20T23:59:59.999999Z\n"
	s := answering(t, 200, header+chargeLine+refundLine+odd+"total,6,,,,,,,,,")
	var got []gateway.Line
	err := newClient(t, s.URL).Statement(t.Context(), "canary-account", noon, func(l gateway.Line) error {
		got = append(got, l)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	late := noon.Add(12*time.Hour - 2*time.Microsecond)
	want := []gateway.Line{
		{Record: gateway.Record{Object: "charge", ID: "ch_1", Account: "canary-account", Key: "canary-key-1",
			Reference: "pay_canary", AmountMinor: 12000, Currency: "USD", Status: "succeeded",
			Created: noon.Add(time.Microsecond)}, LineID: "ch_1@2026-11-20T12:00:00.000001Z", Type: "charge",
			FeeMinor: 350, NetMinor: 11650, BalanceCurrency: "USD"},
		{Record: gateway.Record{Object: "refund", ID: "rf_1", Account: "canary-account", Key: "canary-key-2",
			Reference: "re_canary", ChargeID: "ch_1", AmountMinor: 500, Currency: "USD", Status: "succeeded",
			Created: noon.Add(2 * time.Microsecond)}, LineID: "rf_1@2026-11-20T12:00:00.000002Z", Type: "refund",
			NetMinor: -500, BalanceCurrency: "USD"},
		{Record: gateway.Record{Object: "charge", ID: "ch_9", Account: "canary-account", Key: `a "key", theirs`,
			Reference: "two\nlines", Currency: "KRW", Status: "succeeded", Created: late},
			LineID: "ch_9@2026-11-20T23:59:59.999998Z", Type: "charge", BalanceCurrency: "KRW"},
		{Record: gateway.Record{Object: "payout", ID: "po_1", Account: "canary-account", Created: late},
			LineID: "po_1@2026-11-20T23:59:59.999998Z", Type: "payout", NetMinor: -11650, BalanceCurrency: "USD"},
		{Record: gateway.Record{ID: "adj_1", Account: "canary-account", Created: late.Add(time.Microsecond)},
			LineID: "adj_1@2026-11-20T23:59:59.999999Z", Type: "adjustment", NetMinor: -7, BalanceCurrency: "USD"},
		{Record: gateway.Record{ID: long, Account: "canary-account", Created: late.Add(time.Microsecond)},
			LineID: hashedLine, Type: "none", NetMinor: -7, BalanceCurrency: "USDC"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("lines differ (-want +got):\n%s", diff)
	}
}

func TestLinesOfAPayoutAreRead(t *testing.T) {
	t.Parallel()
	const paid = "id,createdAt\r\nch_1,2026-11-20T12:00:00.000001Z\r\nrf_1,2026-11-20T12:00:00.000002Z\r\n"
	got := make(chan string, 1)
	read := func(status int, body string) (ids []string, err error) {
		s := serving(t, func(w http.ResponseWriter, r *http.Request) {
			got <- r.URL.Path + " " + r.Header.Get("PSP-Account")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
		err = newClient(t, s.URL).PayoutLines(t.Context(), "canary-account", "po_1", func(id string) error {
			ids = append(ids, id)
			return nil
		})
		if asked := wait.For(t, "the request", got); asked != "/v1/payouts/po_1.csv canary-account" {
			t.Errorf("asked for %s", asked)
		}
		return ids, err
	}
	long := strings.Repeat("a", 255) + ",2026-11-20T23:59:59.999999Z\r\n"
	ids, err := read(200, paid+long+"total,3\r\n")
	want := []string{"ch_1@2026-11-20T12:00:00.000001Z", "rf_1@2026-11-20T12:00:00.000002Z", hashedLine}
	if diff := cmp.Diff(want, ids); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	if _, err := read(404, ""); !errors.Is(err, gateway.ErrNoPayoutLines) {
		t.Error(err)
	}
	for name, body := range map[string]string{"cut": paid, "another total": paid + "total,1\r\n",
		"no id": replace(paid, "rf_1", "r f") + "total,2\r\n", "a statement": statement} {
		if _, err := read(200, body); err == nil || errors.Is(err, gateway.ErrNoPayoutLines) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStatementOfNoDayIsNamed(t *testing.T) {
	t.Parallel()
	if _, err := newClient(t, answering(t, 404, statement).URL).statement(); !errors.Is(err, gateway.ErrNoStatement) {
		t.Fatalf("error %v", err)
	}
	for _, status := range []int{201, 202, 204, 206, 302, 401, 410, 429, 500, 503} {
		c := newClient(t, answering(t, status, statement).URL)
		broken(t, c, 0, fmt.Sprintf("PSP answered %d", status))
	}
}

// A cut can fall on any byte. None of them makes a shorter file that looks whole.
func TestStatementCutAnywhereIsIncomplete(t *testing.T) {
	t.Parallel()
	whole := len(statement) - len("\r\n") // the last line needs no end
	for cut := range whole {
		c := newClient(t, answering(t, 200, statement[:cut]).URL)
		if ids, err := c.statement(); err == nil {
			t.Fatalf("%q is taken for whole, with %v", statement[:cut], ids)
		}
		c.Close()
	}
	for _, text := range []string{statement[:whole], statement[:whole+1], statement} {
		if ids, err := newClient(t, answering(t, 200, text).URL).statement(); err != nil || len(ids) != 2 {
			t.Fatalf("delivered %v, error %v", ids, err)
		}
	}
}

func TestStatementIsBrokenByALineThatIsWrong(t *testing.T) {
	t.Parallel()
	swap := func(from, to string) string { return replace(statement, from, to) }
	const other = "another total than that of the lines"
	for name, row := range map[string]struct {
		body      string
		delivered int
		reason    string
	}{
		"nothing":              {"", 0, "ends without its trailer"},
		"no header":            {chargeLine + refundLine + trailer, 0, "line 1: another header"},
		"columns in disorder":  {swap("id,object", "object,id"), 0, "line 1: another header"},
		"a column more":        {swap("createdAt\r\n", "createdAt,fee\r\n"), 0, "line 1: malformed"},
		"BOM":                  {"\ufeff" + statement, 0, "line 1: another header"},
		"not a CSV":            {"<html>not, here</html>", 0, "line 1: malformed"},
		"no trailer":           {header + chargeLine + refundLine, 2, "ends without its trailer"},
		"a line too few":       {header + chargeLine + trailer, 1, "line 3: " + other},
		"a line too many":      {header + chargeLine + refundLine + refundLine + trailer, 3, "line 5: " + other},
		"a total that is none": {swap("total,2", "total,+2"), 2, "line 4: " + other},
		"a total of two":       {swap("total,2,", "total,2,2"), 2, "line 4: " + other},
		"more behind":          {statement + chargeLine, 2, "line 5: more behind the trailer"},
		"garbage behind":       {statement + "canary", 2, "line 5: malformed"},
		"a field too few":      {swap(",canary-key-2", ""), 1, "line 3: malformed"},
		"a field too many":     {swap("canary-key-2", "canary,key"), 1, "line 3: malformed"},
		"a bare quote":         {swap("canary-key-2", `canary"key`), 1, "line 3: malformed"},
		"an open quote":        {swap("canary-key-2", `"canary`), 1, "line 3: malformed"},
		"invalid UTF-8":        {swap("re_canary", "\xff"), 1, "line 3: malformed"},
		"no id":                {swap("rf_1", ""), 1, "line 3: record with a malformed id"},
		"a refund of nothing":  {swap("re_canary,ch_1", "re_canary,"), 1, "line 3: record with a malformed chargeId"},
		"a fraction":           {swap(",500,", ",500.0,"), 1, "line 3: record with a malformed amountCents"},
		"a sign":               {swap(",500,", ",+500,"), 1, "line 3: record with a malformed amountCents"},
		"a negative":           {swap(",500,", ",-500,"), 1, "line 3: record with a malformed amountCents"},
		"a zero before":        {swap(",500,", ",0500,"), 1, "line 3: record with a malformed amountCents"},
		"an amount beyond": {swap(",500,", ",9999999999999999999,"), 1,
			"line 3: record with a malformed amountCents"},
		"no amount":   {swap(",500,", ",,"), 1, "line 3: record with a malformed amountCents"},
		"no currency": {swap("500,USD", "500,"), 1, "line 3: line with a malformed currency"},
		"no status":   {swap("succeeded,0,-500", ",0,-500"), 1, "line 3: record with a malformed status"},
		"a fee of nothing": {swap("succeeded,0,-500", "succeeded,,-500"), 1,
			"line 3: record with a malformed feeCents or netCents"},
		"a net beyond": {swap("succeeded,0,-500", "succeeded,0,-9999999999999999999"), 1,
			"line 3: record with a malformed feeCents or netCents"},
		"a status of its own": {swap("succeeded,0,-500", "paid,0,-500"), 1,
			"line 3: record with a malformed status"},
		"no time": {swap("2026-11-20T12:00:00.000002Z", ""), 1,
			"line 3: record with a malformed createdAt"},
		"the day after": {swap("2026-11-20T12:00:00.000002Z", "2026-11-21T00:00:00Z"), 1,
			"line 3: record of another day"},
		"the day after, in zone": {swap("2026-11-20T12:00:00.000002Z", "2026-11-20T23:00:00-01:00"), 1,
			"line 3: record of another day"},
		"newest first": {header + refundLine + chargeLine + trailer, 1, "line 3: not oldest first"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken(t, newClient(t, answering(t, 200, row.body).URL), row.delivered, row.reason)
		})
	}
}

func TestErrorOfTheReaderEndsTheStatement(t *testing.T) {
	t.Parallel()
	errFull, calls := errors.New("no place"), 0
	err := newClient(t, answering(t, 200, statement).URL).Statement(t.Context(), "canary-account", noon,
		func(gateway.Line) error {
			calls++
			return errFull
		})
	if !errors.Is(err, errFull) || calls != 1 || err.Error() != "line 2: take record: no place" {
		t.Fatalf("%d calls, error %v", calls, err)
	}
}

func TestStatementOfNoAccountIsNotSent(t *testing.T) {
	t.Parallel()
	s := serving(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.RequestURI) })
	for _, account := range []string{"", "acme ", "a\nb"} {
		if err := newClient(t, s.URL).Statement(t.Context(), account, noon, discard); err == nil ||
			err.Error() != "no such account" {
			t.Fatalf("error %v", err)
		}
	}
}

func TestLineMayHave64KiBAndNoMore(t *testing.T) {
	t.Parallel()
	const max, tooLong = 64 << 10, "longer than 65536 bytes"
	line := func(length int) string {
		return replace(chargeLine, "pay_canary", strings.Repeat("x", length-len(chargeLine)+len("pay_canary")))
	}
	// The line is taken. It is the reference that no record can have.
	broken(t, newClient(t, answering(t, 200, header+line(max)).URL), 0, "line 2: record with a malformed reference")
	broken(t, newClient(t, answering(t, 200, header+line(max+1)).URL), 0, "line 2: "+tooLong)
	for name, row := range map[string]struct{ begin, on string }{
		"a line": {"", "x"}, "a quoted field": {`"`, "x\n"}, "lines of nothing": {"", "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serving(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, header+chargeLine+row.begin)
				endless(w, row.on)
			})
			broken(t, newClient(t, s.URL), 1, "line 3: "+tooLong)
		})
	}
}

// Sixty thousand lines (5 MB) pass through, and next to nothing is kept. Not parallel: it looks at the heap of all.
func TestLongStatementPassesThrough(t *testing.T) {
	const lines, block = 60_000, 1000
	s := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, header)
		text := strings.Repeat(chargeLine, block)
		for range lines / block {
			_, _ = io.WriteString(w, text)
		}
		_, _ = fmt.Fprintf(w, "total,%d,,,,,,,,,\r\n", lines)
	})
	c := newClient(t, s.URL)
	n := 0
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	err := c.Statement(t.Context(), "canary-account", noon, func(gateway.Line) error {
		if n++; n == lines {
			runtime.GC()
			runtime.ReadMemStats(&now)
		}
		return nil
	})
	if err != nil || n != lines {
		t.Fatalf("%d lines, error %v", n, err)
	}
	if kept := int64(now.HeapAlloc) - int64(before.HeapAlloc); kept > 2<<20 {
		t.Fatalf("%d bytes are kept of a statement", kept)
	}
}
