package operator

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/gateway/stripe"
	"payonce/internal/operator/internal/dbsqlc"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/internal/query"
	"payonce/test/pgproxy"
)

// A read that takes too long is told apart from a database that does not answer: asking again does not help, and other
// filters do.
func TestListWithTooMuchToReadSaysSo(t *testing.T) {
	t.Parallel()
	o := setup(t)
	sleep := func(statement string) Page[int] {
		return func(ctx context.Context) (query.List[int], error) {
			var nothing any
			return query.List[int]{}, o.db.Reader().QueryRow(ctx, statement).Scan(&nothing)
		}
	}
	free := &Service{lists: make(chan struct{}, 1)}
	const short = 50 * time.Millisecond
	gone, hangUp := context.WithCancel(t.Context())
	hungUp := func(ctx context.Context) (query.List[int], error) {
		hangUp()
		return sleep("SELECT pg_sleep(60)")(ctx)
	}
	for name, row := range map[string]struct {
		ctx     context.Context
		longest time.Duration
		read    Page[int]
		tooMuch bool
	}{
		"the time is over": {t.Context(), short, sleep("SELECT pg_sleep(60)"), true},
		"PostgreSQL has stopped it": {t.Context(), time.Minute,
			sleep("SELECT pg_cancel_backend(pg_backend_pid())"), true},
		"the operator has gone":      {gone, time.Minute, hungUp, false},
		"the table is not there yet": {t.Context(), time.Minute, sleep("SELECT 1 FROM nothing"), false},
	} {
		_, err := bounded(free, row.longest, row.read)(row.ctx)
		if got := errors.Is(err, ErrTooMuch); err == nil || got != row.tooMuch {
			t.Errorf("%s: %v", name, err)
		}
	}
	l, err := bounded(free, short, func(ctx context.Context) (query.List[int], error) {
		<-ctx.Done()
		return query.List[int]{Next: "all the same"}, nil
	})(t.Context())
	if err != nil || l.Next != "all the same" {
		t.Errorf("what was read at the last moment: %+v, %v", l, err)
	}
	_, err = bounded(free, time.Minute, sleep("SELECT 1 FROM nothing"))(t.Context())
	if !postgres.Unavailable(err) {
		t.Errorf("a table that is not there yet: %v", err)
	}
}

// A list that waits for its place has the same bound. An operator who has gone is not told anything.
func TestListThatGetsNoPlaceEnds(t *testing.T) {
	t.Parallel()
	taken := make(chan struct{})
	backstop := time.AfterFunc(10*time.Second, func() { <-taken })
	defer backstop.Stop()
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	for ctx, tooMuch := range map[context.Context]bool{t.Context(): true, gone: false} {
		_, err := bounded(&Service{lists: taken}, time.Millisecond,
			func(context.Context) (query.List[int], error) { return query.List[int]{}, nil })(ctx)
		if got := errors.Is(err, ErrTooMuch); err == nil || got != tooMuch {
			t.Errorf("too much is %t, want %t: %v", got, tooMuch, err)
		}
	}
}

// wrong says what a list refuses of a query.
func wrong[T any](l Listing[T], raw string) []string {
	q := query.Parse(raw)
	l(q)
	var names []string
	for _, d := range q.Bad() {
		names = append(names, d.Parameter)
	}
	slices.Sort(names)
	return names
}

func TestFiltersRefuseWhatTheyCannotRead(t *testing.T) {
	t.Parallel()
	var ops *Service
	at := url.QueryEscape(cursor{at: time.Unix(1_795_000_000, 0), id: "x"}.String())
	for _, row := range []struct {
		list, query, refused string
		got                  func(string) []string
	}{
		{"keys", "status=unknown&tenant=acme&limit=100&cursor=" + at, "[]", nil},
		{"keys", "status=open", "[status]", nil},
		{"keys", "status=", "[status]", nil},
		{"keys", "tenant=", "[tenant]", nil},
		{"keys", "tenant=caf%E9", "[tenant]", nil},
		{"keys", "tenant=" + strings.Repeat("a", 256), "[tenant]", nil},
		{"keys", "limit=0&cursor=x", "[cursor limit]", nil},
		{"keys", "limit=101", "[limit]", nil},
		{"webhooks", "status=dead_letter", "[]", nil},
		{"webhooks", "status=processed", "[status]", nil},
		{"payments", "createdAfter=2026-11-20T09:30:00Z&createdBefore=2026-11-20T09:30:01Z", "[]", nil},
		{"payments", "createdAfter=2026-11-20T09:30:00Z&createdBefore=2026-11-20T09:30:00Z", "[createdBefore]", nil},
		{"payments", "reference=caf%C3%A9", "[]", nil},
		{"payments", "reference=", "[reference]", nil},
		{"payments", "createdAfter=yesterday&status=paid&cursor=pay_x", "[createdAfter cursor status]", nil},
		{"statements", "account=acme&cursor=" + at, "[cursor]", nil}, // the id is not one of a run
		{"breaks", "status=gone&kind=amount&cursor=7", "[]", nil},
		{"breaks", "kind=color&cursor=07", "[cursor kind]", nil},
		{"breaks", "cursor=0", "[cursor]", nil},
		{"breaks", "cursor=1", "[]", nil},
		{"breaks", "cursor=9223372036854775808", "[cursor]", nil},
		{"dead letters", "kind=lookups_exhausted&age=0&openedAfter=2026-11-20T09:30:00Z", "[]", nil},
		{"dead letters", "kind=lost&age=-1&openedBefore=now&status=closed", "[age kind openedBefore status]", nil},
		{"dead letters", "age=1h", "[age]", nil},
		{"dead letters", "age=9999999999", "[age]", nil},
		{"dead letters", "age=315360000", "[]", nil},
		{"dead letters", "age=315360001", "[age]", nil},
		{"books", "account=acme&day=2026-11-20", "[]", nil},
		{"books", "day=2026-11-31", "[account day]", nil},
		{"search", "q=pay_x", "[]", nil},
		{"search", "q=caf%C3%A9", "[]", nil},
		{"search", "", "[q]", nil},
		{"search", "q=", "[q]", nil},
	} {
		refused := map[string]func(string) []string{
			"keys":         func(q string) []string { return wrong(ops.Keys, q) },
			"webhooks":     func(q string) []string { return wrong(ops.Webhooks, q) },
			"payments":     func(q string) []string { return wrong(ops.Payments, q) },
			"statements":   func(q string) []string { return wrong(ops.Statements, q) },
			"breaks":       func(q string) []string { return wrong(ops.Breaks, q) },
			"books":        func(q string) []string { return wrong(ops.Books, q) },
			"dead letters": func(q string) []string { return wrong(ops.DeadLetters, q) },
			"search":       func(q string) []string { return wrong(ops.Search, q) },
		}[row.list](row.query)
		if got := fmt.Sprint(refused); got != row.refused {
			t.Errorf("%s?%s: refused are %s, want %s", row.list, row.query, got, row.refused)
		}
	}
}

// What an operator's filter accepts can be read from the database, and is bounded.
func FuzzOperatorFilter(f *testing.F) {
	for _, text := range []string{"status=unknown&tenant=acme&limit=7", "status=open&age=60&kind=job_discarded",
		"cursor=AAAGQtZVR4AAeA", "createdAfter=2026-11-20T09:30:00%2B09:00", "cursor=7&kind=amount", "q=%00"} {
		f.Add(text)
	}
	var ops *Service
	f.Fuzz(func(t *testing.T, text string) {
		for _, read := range []func(string) []string{ // No list may panic, whatever is wrong with its parameters.
			func(q string) []string { return wrong(ops.Keys, q) },
			func(q string) []string { return wrong(ops.Payments, q) },
			func(q string) []string { return wrong(ops.Statements, q) },
			func(q string) []string { return wrong(ops.Webhooks, q) },
			func(q string) []string { return wrong(ops.Breaks, q) },
			func(q string) []string { return wrong(ops.Books, q) },
			func(q string) []string { return wrong(ops.DeadLetters, q) },
			func(q string) []string { return wrong(ops.Search, q) },
		} {
			read(text)
		}
		q := query.Parse(text)
		if f := deadLettersOf(q); len(q.Bad()) == 0 && f.Age < 0 {
			t.Fatalf("%q is an age of %s", text, f.Age)
		}
		position, _ := q.Get("cursor")
		if run, err := parseRunCursor(position); err == nil && uuid.Validate(run.id) != nil {
			t.Fatalf("%q begins after the run %q", text, run.id)
		}
		if webhook, err := parseCursor(position); err == nil {
			if again, err := parseCursor(webhook.String()); err != nil || again != webhook {
				t.Fatalf("%q is the cursor %+v, and then %+v, %v", text, webhook, again, err)
			}
		}
		if b, err := parseNumber(position); err == nil && b < 1 {
			t.Fatalf("%q begins before the break %d", text, b)
		}
	})
}

// Each list is read page by page: nothing is missing, nothing is repeated, and the order holds.
func pages[T any](t *testing.T, l Listing[T], name func(T) string, raw string) []string {
	t.Helper()
	values, err := url.ParseQuery(raw)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for range 100 {
		q := &query.Query{Values: values}
		read := l(q)
		if bad := q.Bad(); len(bad) > 0 {
			t.Fatalf("%s: %+v", raw, bad)
		}
		page, err := read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range page.Rows {
			names = append(names, name(row))
		}
		if len(page.Rows) == 0 && values.Has("cursor") {
			t.Fatalf("%s: the list leads on to a page without rows", raw)
		}
		if page.Next == "" {
			return names
		}
		values.Set("cursor", page.Next)
	}
	t.Fatalf("%s: the list does not end", raw)
	return nil
}

func TestKeysAreListedNewestFirstAndExpiredOnesLast(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.rowsOfKeys("acme", 0, "in_progress", "unknown", "completed", "failed_retryable", "expired", "expired")
	o.rowsOfKeys("globex", 1, "completed", "unknown")
	name := func(k KeyEntry) string { return k.Key }
	all := []string{"globex-1-unknown", "globex-0-completed", "acme-3-failed_retryable", "acme-2-completed",
		"acme-1-unknown", "acme-0-in_progress", "acme-5-expired", "acme-4-expired"}
	for _, limit := range []string{"1", "2", "3", "100"} {
		wantNames(t, "in pages of "+limit, pages(t, o.ops.Keys, name, "limit="+limit), all...)
	}
	wantNames(t, "of a tenant", pages(t, o.ops.Keys, name, "limit=1&tenant=globex"), all[:2]...)
	wantNames(t, "unknown", pages(t, o.ops.Keys, name, "limit=1&status=unknown"), all[0], all[4])
	wantNames(t, "completed", pages(t, o.ops.Keys, name, "limit=1&status=completed"), all[1], all[3])
	wantNames(t, "expired", pages(t, o.ops.Keys, name, "limit=1&status=expired&tenant=acme"), all[6], all[7])
	wantNames(t, "of nobody", pages(t, o.ops.Keys, name, "tenant=nobody"))

	// It would have to read all keys to find none of this tenant.
	far, proxy := o.behindProxy()
	proxy.On("ListKeys", pgproxy.CutBefore)
	wantNames(t, "of nobody, without a search", pages(t, far.Keys, name, "tenant=nobody"))
}

func TestWebhooksAreListedWaitingOnesFirst(t *testing.T) {
	t.Parallel()
	o := setup(t)
	for i, result := range []string{"", "resolved", "", "confirmed", "resolved"} {
		o.exec(`INSERT INTO webhook_events (id, sent_at, received_at, body, processed_at, result)
			SELECT 'evt_' || $1::int, a.at, a.at, convert_to('{"type":"charge.succeeded","data":{"id":"ch_1",
				"object":"charge","status":"succeeded","account":"acme","reference":"pay_1","idempotencyKey":"k",
				"amountCents":1,"currency":"USD","createdAt":"2026-11-20T09:30:00Z"}}', 'UTF8'),
				CASE WHEN $2 <> '' THEN a.at END, nullif($2, '')
			FROM (SELECT now() + make_interval(secs => $1) AS at) AS a`, i, result)
	}
	o.exec(`INSERT INTO webhook_events (id, sent_at, body) VALUES ('evt_odd', now(), 'not JSON')`)
	name := func(w WebhookEntry) string { return w.ID }
	all := []string{"evt_2", "evt_0", "evt_odd", "evt_4", "evt_3", "evt_1"}
	if got := pages(t, o.ops.Webhooks, name, "limit=2"); !slices.Equal(slices.Sorted(slices.Values(got)),
		slices.Sorted(slices.Values(all))) || !slices.Equal(got[3:], all[3:]) || got[0] != "evt_2" {
		t.Errorf("webhooks are %q", got)
	}
	wantNames(t, "resolved", pages(t, o.ops.Webhooks, name, "limit=1&status=resolved"), "evt_4", "evt_1")
	type_ := func(w WebhookEntry) string { return w.ID + " " + w.Type + " " + w.PSPID + " " + string(w.Status) }
	wantNames(t, "of a type", pages(t, o.ops.Webhooks, type_, "status=confirmed"),
		"evt_3 charge.succeeded ch_1 confirmed")
	if got := pages(t, o.ops.Webhooks, type_, "status=waiting"); !slices.Contains(got, "evt_odd   waiting") {
		t.Errorf("waiting are %q", got)
	}
}

func TestPaymentsOfAllTenantsAreListedInOneOrder(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.exec(`ALTER TABLE payments DISABLE TRIGGER USER`)
	var want []string
	for i := range 7 {
		id, tenant := uuid.Must(uuid.NewV7()), []string{"acme", "globex", "initech"}[i%3]
		o.exec(`INSERT INTO tenants (id, psp_account) VALUES ($1, $1) ON CONFLICT DO NOTHING`, tenant)
		o.exec(`INSERT INTO payments (tenant_id, id, idempotency_key, generation, customer_id, amount_minor, currency,
			payment_method, status, reference)
			VALUES ($1, $2, 'order-0000000042', 1, 'cus-1', 100, 'USD', 'pm_ok', 'processing', nullif($3, '0'))`,
			tenant, id, fmt.Sprint(i/3))
		want = append([]string{payment.ID(id).String()}, want...)
	}
	name := func(p PaymentEntry) string { return p.PaymentID }
	for _, limit := range []string{"1", "2", "3", "7", "100"} {
		wantNames(t, "in pages of "+limit, pages(t, o.ops.Payments, name, "limit="+limit), want...)
	}
	wantNames(t, "of globex", pages(t, o.ops.Payments, name, "limit=1&tenant=globex"), want[2], want[5])
	wantNames(t, "of a reference", pages(t, o.ops.Payments, name, "limit=2&reference=1"), want[1:4]...)
	wantNames(t, "succeeded", pages(t, o.ops.Payments, name, "status=succeeded"))
}

func TestRunsAndBreaksAreListed(t *testing.T) {
	t.Parallel()
	o := setup(t)
	for i, account := range []string{"acme", "globex", "acme"} {
		o.exec(`INSERT INTO statement_runs (id, account, day, started_at, status, lines, breaks, pending)
			VALUES (gen_random_uuid(), $1, date '2026-11-20' + $2::int, now() + make_interval(secs => $2), 'complete', 3, 1, 0)`,
			account, i)
		o.exec(`INSERT INTO statement_breaks (account, day, object, kind, psp_id, reference, other_tenant, lines,
			their_amount_minor, their_currency, moved_at, first_seen, last_seen, raised_by, seen_by, gone_at)
			VALUES ($1, date '2026-11-20' + $2::int, 'charge', CASE $2 WHEN 0 THEN 'amount' ELSE 'missing_here' END,
			        'ch_' || $2::int, '', false, 1, 100, 'USD', now(), now(), now(), gen_random_uuid(),
			        gen_random_uuid(), CASE $2 WHEN 1 THEN now() END)`, account, i)
	}
	page, err := o.ops.Statements(query.Parse("limit=1"))(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(page)
	stamped := regexp.MustCompile(`"day":"2026-11-22",.*"startedAt":"[0-9-]{10}T[0-9:]{8}\.[0-9]{6}Z"`)
	if err != nil || !stamped.Match(text) {
		t.Errorf("a run is %s, %v", text, err)
	}
	run := func(r RunEntry) string { return r.Account + " " + r.Day.Format(time.DateOnly) }
	wantNames(t, "runs", pages(t, o.ops.Statements, run, "limit=1"), "acme 2026-11-22", "globex 2026-11-21",
		"acme 2026-11-20")
	wantNames(t, "runs of globex", pages(t, o.ops.Statements, run, "account=globex"), "globex 2026-11-21")
	name := func(b BreakEntry) string { return b.PSPID + " " + b.Theirs.Decimal() }
	wantNames(t, "breaks", pages(t, o.ops.Breaks, name, "limit=1"), "ch_2 1.00 USD", "ch_0 1.00 USD")
	wantNames(t, "breaks that are gone", pages(t, o.ops.Breaks, name, "status=gone"), "ch_1 1.00 USD")
	wantNames(t, "breaks of a kind", pages(t, o.ops.Breaks, name, "kind=amount&account=acme"), "ch_0 1.00 USD")
}

func TestBreaksAreFilteredWhetherTheyAreOpenOrGone(t *testing.T) {
	t.Parallel()
	o := setup(t)
	for _, gone := range []bool{false, true} {
		for i, row := range [][2]string{{"acme", "amount"}, {"globex", "amount"}, {"acme", "currency"}} {
			o.exec(`INSERT INTO statement_breaks (account, day, object, kind, psp_id, reference, other_tenant, lines,
					moved_at, first_seen, last_seen, raised_by, seen_by, gone_at)
				VALUES ($1, date '2026-11-20', 'charge', $2, 'ch_' || $3::int || $4::bool, '', false, 1, now(), now(),
				        now(), gen_random_uuid(), gen_random_uuid(), CASE WHEN $4 THEN now() END)`,
				row[0], row[1], i, gone)
		}
	}
	name := func(b BreakEntry) string { return b.PSPID }
	for status, all := range map[string][]string{
		"open": {"ch_2false", "ch_1false", "ch_0false"}, "gone": {"ch_2true", "ch_1true", "ch_0true"},
	} {
		read := func(query string) []string { return pages(t, o.ops.Breaks, name, "limit=1&status="+status+query) }
		wantNames(t, "all", read(""), all...)
		wantNames(t, "of an account", read("&account=acme"), all[0], all[2])
		wantNames(t, "of a kind", read("&kind=amount"), all[1], all[2])
		wantNames(t, "of an account and a kind", read("&account=globex&kind=amount"), all[1])
	}
}

// stamp is a time as the API shows it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// wantForm checks that a row of a list has these members, and none of those.
func wantForm(t *testing.T, what string, row any, members, none []string) {
	t.Helper()
	text, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if !strings.Contains(string(text), m) {
			t.Errorf("%s: %s is missing in %s", what, m, text)
		}
	}
	for _, m := range none {
		if strings.Contains(string(text), m) {
			t.Errorf("%s: %s is in %s", what, m, text)
		}
	}
}

func TestKeyInAListHasWhatItsRowHas(t *testing.T) {
	t.Parallel()
	id, now, created := uuid.Must(uuid.NewV7()), time.Now(), int16(201)
	wantForm(t, "completed", keyEntryOf(dbsqlc.ListKeysRow{Operation: payment.CreateOperation, Subject: id,
		Hold: "none", ResponseStatus: &created}),
		[]string{`"paymentId":"` + payment.ID(id).String() + `"`, `"responseStatus":201`},
		[]string{"refundId", "deadLetterHold", "unknownSince", "nextLookupAt"})
	wantForm(t, "unknown", keyEntryOf(dbsqlc.ListKeysRow{Operation: payment.RefundOperation, Subject: id,
		Hold: "release", UnknownSince: &now, ReconcileAfter: &now}),
		[]string{`"refundId":"` + payment.RefundID(id).String() + `"`, `"deadLetterHold":"release"`,
			`"unknownSince":"` + stamp(now), `"nextLookupAt":"` + stamp(now)},
		[]string{"paymentId", "responseStatus"})
}

// Each side of a break may be missing: that is what the break is about.
func TestBreakInAListHasTheSidesThatThereAre(t *testing.T) {
	t.Parallel()
	id, now, theirs, ours := uuid.Must(uuid.NewV7()), time.Now(), int64(700), int64(900)
	usd, status := "USD", "succeeded"
	wantForm(t, "missing here", breakEntryOf(dbsqlc.ListBreaksRow{Object: "charge", Reference: "order 7",
		Subject: &id, TheirAmountMinor: &theirs, TheirCurrency: &usd}),
		[]string{`"status":"open"`, `"theirs":{"amountCents":700,"currency":"USD"}`, `"reference":"order 7"`},
		[]string{"ours", "goneAt"})
	wantForm(t, "missing there, and gone", breakEntryOf(dbsqlc.ListBreaksRow{Object: "refund", Subject: &id,
		OurAmountMinor: &ours, OurCurrency: &usd, OurStatus: &status, GoneAt: &now}),
		[]string{`"status":"gone"`, `"ours":{"amountCents":900,"currency":"USD","status":"succeeded"}`,
			`"reference":"` + payment.RefundID(id).String() + `"`, `"goneAt":"` + stamp(now)},
		[]string{"theirs"})
	wantForm(t, "of nothing of ours", breakEntryOf(dbsqlc.ListBreaksRow{Object: "charge"}), nil,
		[]string{"reference", "ours", "theirs"})
}

// An event that this program ignores is shown with its type: an operator sees what else the PSP sends.
func TestWebhookInAListHasWhatItsBodySays(t *testing.T) {
	t.Parallel()
	limits := gateway.DefaultLimits()
	psp, err := stripe.New(stripe.Config{URL: "http://127.0.0.1:1", Secret: "sk_test_x", Limits: limits, Now: time.Now,
		Installation: func() string { return "here" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	other, err := native.New("http://127.0.0.1:1", pspSecret, limits, nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	ops, now := New(Config{PSPs: gateway.PSPs{stripe.Name: psp, native.Name: other}}), time.Now()
	ignored := ops.webhookEntryOf(dbsqlc.ListWebhooksRow{ID: "stripe.evt_1", Result: "ignored", ProcessedAt: &now,
		Body: []byte(`{"object":"event","type":"payment_intent.succeeded","livemode":true}`)})
	alone := ops.webhookEntryOf(dbsqlc.ListWebhooksRow{ID: "stripe.evt_1", Result: "ignored", ProcessedAt: &now,
		Body: []byte(`{"type":"invoice.created"}`)})
	if alone.Type != "invoice.created" || alone.Bytes != 26 {
		t.Errorf("an event whose type alone is kept is listed as %+v", alone)
	}
	wantForm(t, "ignored", ignored, []string{`"status":"ignored"`, `"type":"payment_intent.succeeded"`,
		`"processedAt":"` + stamp(now)}, []string{"pspId"})
	broken := ops.webhookEntryOf(dbsqlc.ListWebhooksRow{ID: "evt_1", Waiting: true, Body: []byte(`{`)})
	wantForm(t, "of no form", broken,
		[]string{`"status":"waiting"`, `"bytes":1`}, []string{"type", "processedAt"})
}

// A reader who is told that there is no more stops reading.
func TestPageSaysWhetherThereIsMore(t *testing.T) {
	t.Parallel()
	wantForm(t, "a page", query.List[int]{Rows: []int{7}, Next: "x"},
		[]string{`{"data":[7],"hasMore":true,"nextCursor":"x"}`}, nil)
	wantForm(t, "the last page", query.List[int]{Rows: []int{7}}, []string{`{"data":[7],"hasMore":false}`}, nil)
}

// An event about a dispute of another program's payment is kept whole, and its job ignores it. Where its provider is
// not configured, nobody can read its type.
func TestTypeOfAnIgnoredWebhookIsNotItsBody(t *testing.T) {
	t.Parallel()
	ops, now := New(Config{PSPs: gateway.PSPs{}}), time.Now()
	body := `{"id":"evt_1","object":"event","type":"charge.dispute.created","data":{"object":{"object":"dispute",` +
		`"evidence":{"customer_email_address":"jane@example.com"}}}}`
	e := ops.webhookEntryOf(dbsqlc.ListWebhooksRow{ID: "stripe.evt_1", Result: "ignored", ProcessedAt: &now,
		Body: []byte(body)})
	if strings.Contains(e.Type, "jane@example.com") {
		t.Errorf("the list shows as its type: %s", e.Type)
	}
}
