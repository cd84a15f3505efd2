package mockpsp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// refusedOr fails on an error that a client could not be told.
func refusedOr(t *testing.T, err error) (refused bool) {
	t.Helper()
	if _, ok := errors.AsType[apiError](err); err != nil && !ok {
		t.Fatalf("not a refusal: %v", err)
	}
	return err != nil
}

func FuzzRefundBody(f *testing.F) {
	f.Add([]byte(`{"amountCents":500,"currency":"KRW","reference":"re_1","reason":"pm_declined"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := parseRefund(body)
		if refusedOr(t, err) {
			return
		}
		if in.AmountCents < 1 || in.AmountCents > maxAmountCents || len(in.Currency) != 3 ||
			utf8.RuneCountInString(in.Reason) > maxReasonRunes {
			t.Fatalf("accepted %+v", in)
		}
		if _, known := behaviours[in.fault()]; !known {
			t.Fatalf("the fault is %q", in.fault())
		}
		var theirs refundRequest
		if err := json.Unmarshal(body, &theirs); err != nil || theirs != in {
			t.Fatalf("%s is %+v, to encoding/json %+v, %v", body, in, theirs, err)
		}
		answer := jsonReply(http.StatusOK, &in)
		if again, err := parseRefund(answer.Body); err != nil || again != in {
			t.Fatalf("%q does not parse to the same: %+v %v", answer.Body, again, err)
		}
	})
}

// A query that is taken selects the same when it is written once more, and a cursor is one that the list has given out.
func FuzzListQuery(f *testing.F) {
	f.Add("idempotencyKey=k&createdAfter=2026-11-20T12:00:00.5%2B01:00&limit=7&cursor=" +
		formatCursor(ObjectCharge, 12))
	f.Add("limit=1&limit=2")
	f.Add("createdAfter=9999-12-31T23:59:59-01:00")
	f.Fuzz(func(t *testing.T, query string) {
		q, err := parseListQuery(query, ObjectCharge, "acme")
		if refusedOr(t, err) {
			return
		}
		if q.limit < 1 || q.limit > maxLimit || q.from < 0 || q.object != ObjectCharge || q.account != "acme" {
			t.Fatalf("%q is accepted as %+v", query, q)
		}
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if cursor := values.Get("cursor"); cursor != "" && cursor != formatCursor(ObjectCharge, q.from) {
			t.Fatalf("%q is taken for position %d", cursor, q.from)
		}
		again := url.Values{"limit": {fmt.Sprint(q.limit)}, "idempotencyKey": {q.key},
			"cursor": {formatCursor(ObjectCharge, q.from)}}
		if after := values.Get("createdAfter"); after != "" {
			asked, err := time.Parse(time.RFC3339Nano, after)
			kept, keptErr := time.Parse(timeLayout, q.createdAfter)
			if err != nil || keptErr != nil || !kept.Equal(asked.Truncate(time.Microsecond)) {
				t.Fatalf("%q becomes %q: %v, %v", after, q.createdAfter, err, keptErr)
			}
			again.Set("createdAfter", q.createdAfter)
		}
		second, err := parseListQuery(again.Encode(), ObjectCharge, "acme")
		if diff := cmp.Diff(q, second, cmp.AllowUnexported(listQuery{})); err != nil || diff != "" {
			t.Fatalf("%q is another query when written once more: %v\n%s", query, err, diff)
		}
	})
}

// Rates are numbers from 0 to 1, and a body that is refused changes none.
func FuzzFaults(f *testing.F) {
	f.Add([]byte(`{"rates":{"declined":0.5,"stuck":0},"webhooks":{"drop":1}}`))
	f.Add([]byte(`{"rates":{"declined":0.7,"stuck":0.7}}`))
	f.Add([]byte(`{"rates":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := serverOfRates()
		s.faults.set(map[string]float64{"declined": 0.25})
		err := s.parseFaults(body)
		rates, disorders := s.faults.named(), s.disorders.named()
		sum := 0.0
		for name, rate := range rates {
			if sum += rate; rate < 0 || rate > 1 || rate != rate {
				t.Fatalf("%s has the rate %g", name, rate)
			}
		}
		for name, rate := range disorders {
			if rate < 0 || rate > 1 || rate != rate || err != nil && rate != 0 {
				t.Fatalf("%s has the rate %g, %v", name, rate, err)
			}
		}
		if sum > 1+1e-9 || refusedOr(t, err) && (sum != 0.25 || rates["declined"] != 0.25) {
			t.Fatalf("rates are %v, %v", rates, err)
		}
		if err != nil {
			return
		}
		answer := jsonReply(http.StatusOK, map[string]map[string]float64{faultsMember: rates,
			disordersMember: disorders})
		if err := s.parseFaults(answer.Body); err != nil {
			t.Fatalf("what is shown is not taken: %s, %v", answer.Body, err)
		}
		if diff := cmp.Diff(rates, s.faults.named()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// The page's form says what the JSON does, or is refused with what was typed still in it.
func FuzzRateForm(f *testing.F) {
	f.Add("0.5", " 1e-3 ")
	f.Add("NaN", "+Inf")
	f.Add("0x1p-2", "1_0")
	f.Fuzz(func(t *testing.T, declined, drop string) {
		form := url.Values{"declined": {declined}, disorderField + "drop": {drop}}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		fields, faults, err := readRates(r, faultNames(), "")
		_, disorders, disorderErr := readRates(r, disorderNames(), disorderField)
		if err = errors.Join(err, disorderErr); err == nil {
			s := serverOfRates()
			in := map[string]map[string]*float64{faultsMember: faults, disordersMember: disorders}
			if err = s.setFaults(in); err == nil {
				for _, rate := range []float64{s.faults.named()["declined"], s.disorders.named()["drop"]} {
					if !(rate >= 0 && rate <= 1) {
						t.Fatalf("%q and %q are the rate %g", declined, drop, rate)
					}
				}
			}
		}
		refusedOr(t, err)
		if len(fields) != len(faultNames()) {
			t.Fatalf("%d fields", len(fields))
		}
		for _, field := range fields {
			if field.Name == "declined" && field.Value != strings.TrimSpace(declined) {
				t.Fatalf("%q is shown as %q", declined, field.Value)
			}
		}
	})
}

func FuzzResend(f *testing.F) {
	f.Add([]byte(`{"disorder":"stale"}`))
	f.Add([]byte(" \n"))
	f.Add([]byte(`{"disorder":"drop"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/_webhooks/ch_1", bytes.NewReader(body))
		how, err := parseResend(httptest.NewRecorder(), r)
		if refusedOr(t, err) {
			return
		}
		switch how {
		case disorderDuplicate, disorderForge, disorderStale:
			if !bytes.Contains(body, []byte(`:`)) {
				t.Fatalf("%q asks for %q", body, how)
			}
		case "":
		case disorderReorder, disorderDelay, disorderDrop:
			t.Fatalf("by hand there is %q", how)
		default:
			t.Fatalf("%q asks for %q", body, how)
		}
		if len(body) > maxBodyBytes {
			t.Fatalf("%d bytes are read", len(body))
		}
	})
}

// What a file is replayed as is what its intact part is replayed as, and further lines can follow that. Damage before
// its end is an error: a ledger never forgets in silence.
func FuzzLedgerFile(f *testing.F) {
	const line = `{"entry":{"id":"ch_1","object":"charge","account":"acme","idempotencyKey":"k","reference":"pay_1","amountCents":5,"currency":"USD",` +
		`"status":"succeeded","createdAt":"2026-11-20T12:00:00.000001Z"},"path":"/v1/charges","bodyHash":"00","fault":"pm_ok"}` + "\n"
	f.Add([]byte(line))
	f.Add([]byte(line + line))
	f.Add([]byte(line + line[:50]))
	f.Add([]byte("{}\n" + line))
	const refund = `{"entry":{"id":"rf_1","object":"refund","account":"acme","chargeId":"ch_1","amountCents":5,"currency":"USD",` +
		`"status":"succeeded","createdAt":"2026-11-20T12:00:00.000002Z"},"path":"","fault":"pm_ok"}` + "\n"
	f.Add([]byte(line + refund + strings.NewReplacer("succeeded", "failed", `"path"`,
		`"version":1,"changedAt":"2026-11-20T12:00:00.000003Z","path"`).Replace(refund)))
	f.Fuzz(func(t *testing.T, file []byte) {
		open := func(file []byte) (*ledger, int64, error) {
			l := &ledger{taken: map[string]int64{}, balance: map[money]int64{}, keys: map[keyRef]*keyState{},
				books: map[bookRef]*book{}, pending: map[keyRef]*record{}, prepared: map[string]*record{},
				newest: map[string]*record{}}
			intact, err := replay(bytes.NewReader(file), l.restore)
			return l, intact, err
		}
		l, intact, err := open(file)
		if err != nil {
			return
		}
		lines := bytes.Count(file[:intact], []byte("\n"))
		if n := bytes.IndexByte(file[intact:], '\n'); n >= 0 && intact+int64(n)+1 < int64(len(file)) {
			t.Fatalf("lines behind byte %d of %d are forgotten", intact, len(file))
		}
		if intact > 0 && file[intact-1] != '\n' || l.promised != len(l.pending) || len(l.all)+len(l.pending) > lines {
			t.Fatalf("%d lines are %d entries and %d promises, counted as %d", lines, len(l.all), len(l.pending),
				l.promised)
		}
		again, same, err := open(file[:intact])
		if err != nil || same != intact || len(again.all) != len(l.all) {
			t.Fatalf("%d bytes are intact; of these %d, %v", intact, same, err)
		}
		var last string
		for _, r := range l.all {
			if r.at() <= last {
				t.Fatalf("%q follows %q", r.at(), last)
			}
			last = r.at()
		}
	})
}

// The file of webhooks that are done is read like the ledger's, and knows three ends.
func FuzzWebhookFile(f *testing.F) {
	f.Add([]byte(`{"entryId":"ch_1","end":"delivered"}` + "\n" + `{"entryId":"rf_1","end":"givenUp"}` + "\n" + `{"ent`))
	f.Add([]byte(`{"entryId":"ch_1","end":"lost"}` + "\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		read := func(file []byte) (ends []webhookLine, intact int64, err error) {
			intact, err = replay(bytes.NewReader(file), func(line *webhookLine) error {
				ends = append(ends, *line)
				return nil
			})
			return ends, intact, err
		}
		ends, intact, err := read(file)
		if err != nil {
			if errors.Is(err, io.EOF) {
				t.Fatal("the end of a file is damage")
			}
			return
		}
		again, same, err := read(file[:intact])
		if diff := cmp.Diff(ends, again); err != nil || same != intact || diff != "" {
			t.Fatalf("%d bytes are intact; of these %d, %v\n%s", intact, same, err, diff)
		}
	})
}

func serverOfRates() *Server {
	faults, disorders := newFaultRates(nil), newDisorderRates(nil)
	return &Server{faults: faults, disorders: disorders, rates: []*Rates{faults, disorders}}
}
