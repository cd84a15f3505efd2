package operator

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/query"
	"payonce/test/pgproxy"
)

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
		{"keys", "tenant=caf%C3%A9", "[tenant]", nil},
		{"keys", "tenant=" + strings.Repeat("a", 256), "[tenant]", nil},
		{"keys", "limit=0&cursor=x", "[cursor limit]", nil},
		{"keys", "limit=101", "[limit]", nil},
		{"webhooks", "status=dead_letter", "[]", nil},
		{"webhooks", "status=processed", "[status]", nil},
		{"payments", "createdAfter=2026-11-20T09:30:00Z&createdBefore=2026-11-20T09:30:01Z", "[]", nil},
		{"payments", "createdAfter=2026-11-20T09:30:00Z&createdBefore=2026-11-20T09:30:00Z", "[createdBefore]", nil},
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
		{"search", "q=pay_x", "[]", nil},
		{"search", "", "[q]", nil},
		{"search", "q=", "[q]", nil},
	} {
		refused := map[string]func(string) []string{
			"keys":         func(q string) []string { return wrong(ops.Keys, q) },
			"webhooks":     func(q string) []string { return wrong(ops.Webhooks, q) },
			"payments":     func(q string) []string { return wrong(ops.Payments, q) },
			"statements":   func(q string) []string { return wrong(ops.Statements, q) },
			"breaks":       func(q string) []string { return wrong(ops.Breaks, q) },
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

func wantNames(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
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

// Each key is in one of three indexes. A part that read more than its own index would repeat keys, and would push new
// ones out of a short list.
func TestLatestKeysAreThoseReservedLastWithoutTheExpiredOnes(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.rowsOfKeys("acme", 0, "expired", "completed", "unknown", "failed_retryable", "in_progress")
	all := []string{"acme-4-in_progress", "acme-3-failed_retryable", "acme-2-unknown", "acme-1-completed"}
	for _, limit := range []int32{1, 2, 10} {
		latest, err := o.ops.LatestKeys(t.Context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, k := range latest {
			got = append(got, k.Key)
			if answered := k.ResponseStatus == 201; answered != (k.Status == idempotency.CompletedStatus) {
				t.Errorf("%s has the response %d", k.Key, k.ResponseStatus)
			}
		}
		wantNames(t, "the latest", got, all[:min(int(limit), len(all))]...)
	}
}

// rowsOfKeys puts a key of each status into the table, each reserved a second later than the one before, and all of
// them some hours later.
func (f *fixture) rowsOfKeys(tenant string, hours int, statuses ...string) {
	f.t.Helper()
	f.exec(`INSERT INTO tenants (id, psp_account) VALUES ($1, $1) ON CONFLICT DO NOTHING`, tenant)
	f.exec(`ALTER TABLE idempotency_keys DISABLE TRIGGER USER`)
	for i, status := range statuses {
		f.exec(`INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation,
			lease_id, subject, created_at, reserved_at, expires_at, locked_until, reconcile_after, unknown_since,
			finished_at, delete_after, response_status)
			SELECT $1, 'POST /payments', $1 || '-' || $2::int || '-' || $3, $3, '', 1, 1, gen_random_uuid(),
			       gen_random_uuid(), a.at, a.at, a.at, CASE WHEN $3 = 'in_progress' THEN a.at END,
			       CASE WHEN $3 = 'unknown' THEN a.at END, CASE WHEN $3 = 'unknown' THEN a.at END,
			       CASE WHEN $3 NOT IN ('in_progress', 'unknown') THEN a.at END,
			       CASE WHEN $3 = 'expired' THEN a.at END, CASE WHEN $3 = 'completed' THEN 201 END
			FROM (SELECT now() + make_interval(hours => $4, secs => $2) AS at) AS a`, tenant, i, status, hours)
	}
	f.exec(`ALTER TABLE idempotency_keys ENABLE TRIGGER USER`)
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
			payment_method, status) VALUES ($1, $2, 'order-0000000042', 1, 'cus-1', 100, 'USD', 'pm_ok', 'processing')`,
			tenant, id)
		want = append([]string{payment.ID(id).String()}, want...)
	}
	name := func(p PaymentEntry) string { return p.PaymentID }
	for _, limit := range []string{"1", "2", "3", "7", "100"} {
		wantNames(t, "in pages of "+limit, pages(t, o.ops.Payments, name, "limit="+limit), want...)
	}
	wantNames(t, "of globex", pages(t, o.ops.Payments, name, "limit=1&tenant=globex"), want[2], want[5])
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
