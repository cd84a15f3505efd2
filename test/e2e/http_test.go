package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"payonce/internal/app"
	"payonce/internal/config"
	"payonce/internal/httpapi"
	"payonce/internal/postgres"
	"payonce/internal/problem"
	"payonce/internal/tenants"
)

// What the API makes of requests before anything is reserved, and what HTTP asks of it besides.

// addKey makes an API key, with its tenant if there is none. It must come before the first request: the directory
// remembers for a second that it does not know a key.
func (w *world) addKey(tenant, secret string, may ...tenants.Permission) {
	w.t.Helper()
	r := tenants.NewRegistry(postgres.Wrap(w.db, patience), app.NewID)
	if tenant != "" {
		if err := r.EnsureTenant(w.t.Context(), tenant); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := r.AddKey(w.t.Context(), tenant, secret, "", may); err != nil {
		w.t.Fatal(err)
	}
}

// authorized is a call with exactly these Authorization headers.
func (c call) authorized(values ...string) call {
	c.as, c.header = "-", http.Header{"Authorization": values}
	return c
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const nobody = "01k9z3w5m8fk2v7q4d6h0r1txe"
	for _, path := range []string{
		"/payments/pay_" + nobody, "/payments/re_" + nobody, "/payments/" + nobody, "/payments/pay_" +
			strings.ToUpper(nobody),
		"/payments/pay_9" + nobody[1:], "/payments/x", "/payments/%00", "/payments/%ff", "/refunds/re_" + nobody,
		"/refunds/pay_" + nobody, "/refunds/x",
		"/payments/pay_" + nobody + "/refunds", "/payments/re_" + nobody + "/refunds", "/payments/x/refunds",
		"/idempotency-keys/" + freshKey(), "/idempotency-keys/short", "/idempotency-keys/someone@example.com",
		"/idempotency-keys/4111111111111111",
		"/idempotency-keys/" + strings.Repeat("k", 256), "/idempotency-keys/0123456789%2Fabcdef",
		"/idempotency-keys/0123456789abcdef%00", "/idempotency-keys/%ff",
	} {
		w.do(call{method: "GET", path: path}).expect(t, http.StatusNotFound, "not_found")
	}
	// Paths that are none ask for no API key: nobody knows what for.
	for _, path := range []string{
		"/nothing", "/payments/", "/payments//", "/Payments", "/payments/pay_1/", "/payments/pay_1/captures",
		"/payments/pay_1/refunds/re_1", "/refunds",
		"/idempotency-keys", "/idempotency-keys/", "/metrics", "/readyz", "/livez", "/operator/dead-letters", "/%00",
		"/..%2f", "/a%zz"[:2],
	} {
		for _, method := range []string{"GET", "POST", "DELETE", "BREW"} {
			w.do(call{method: method, path: path, as: "-"}).expect(t, http.StatusNotFound, "not_found")
		}
	}
	key := freshKey()
	for _, id := range []string{"pay_" + nobody, "re_" + nobody, "x"} {
		w.do(call{method: "POST", path: "/payments/" + id + "/refunds", key: key, body: `{}`}).expect(t,
			http.StatusNotFound, "not_found")
	}
	w.untouched(key)
}

func TestHeadIsGetWithoutTheBody(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.paid()
	for _, path := range []string{"/payments", "/payments/" + id, "/payments/x", "/idempotency-keys/" + freshKey(), "/",
		"/docs", "/openapi.yaml", "/problems", "/nothing"} {
		get, head := w.do(call{method: "GET", path: path}), w.do(call{method: "HEAD", path: path})
		if len(head.body) != 0 || head.status != get.status ||
			head.header.Get("Content-Type") != get.header.Get("Content-Type") ||
			strings.Contains(get.header.Get("Content-Type"), "json") &&
				head.header.Get("Content-Length") != strconv.Itoa(len(get.body)) {
			t.Errorf("%s: GET %d %v, HEAD %d %v with %d bytes", path, get.status, get.header, head.status, head.header,
				len(head.body))
		}
	}
	w.do(call{method: "HEAD", path: "/payments", as: "-"}).expect(t, http.StatusUnauthorized, "")
}

func TestOtherMethodIsRefusedWithThoseAllowed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for path, allowed := range map[string][]string{
		"/payments": {"GET", "HEAD", "POST"}, "/payments/pay_1": {"GET", "HEAD"},
		"/payments/pay_1/refunds":            {"GET", "HEAD", "POST"},
		"/refunds/re_1":                      {"GET", "HEAD"},
		"/idempotency-keys/0123456789abcdef": {"GET", "HEAD"}, "/idempotency-keys/0123456789%2Fabcdef": {"GET", "HEAD"},
		"/": {"GET", "HEAD"}, "/docs": {"GET", "HEAD"}, "/openapi.yaml": {"GET", "HEAD"},
		"/problems/not_found": {"GET", "HEAD"}, "/events": {"GET", "HEAD"}, "/events/feed": {"PUT"},
		"/events/x/redeliver": {"POST"}, "/webhook-endpoints": {"GET", "HEAD", "POST"},
		"/webhook-endpoints/x": {"GET", "HEAD", "DELETE"}, "/webhook-endpoints/x/enable": {"POST"},
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
			if slices.Contains(allowed, method) {
				continue
			}
			r := w.do(call{method: method, path: path, as: "-"})
			if method == "HEAD" {
				r.expect(t, http.StatusMethodNotAllowed, "")
			} else {
				r.expect(t, http.StatusMethodNotAllowed, "method_not_allowed")
			}
			if diff := cmp.Diff(allowed, r.header.Values("Allow")); diff != "" {
				t.Errorf("%s %s: Allow (-want +got):\n%s", method, path, diff)
			}
			if strings.Contains(string(r.body), "BREW") {
				t.Errorf("a made-up method is repeated: %s", r.body)
			}
		}
	}
}

// reasons are the places that a refusal names.
func (r reply) reasons(t testing.TB) []string {
	t.Helper()
	var d struct {
		Errors []struct {
			Pointer           *string
			Parameter, Header string
		}
	}
	if err := json.Unmarshal(r.body, &d, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatalf("%v\n%s", err, r.body)
	}
	var places []string
	for _, e := range d.Errors {
		place := e.Parameter + e.Header
		if e.Pointer != nil {
			place = *e.Pointer
		}
		places = append(places, place)
	}
	slices.Sort(places)
	return places
}

func TestKeyHeaderIsCheckedBeforeAnythingIsReserved(t *testing.T) {
	t.Parallel()
	w := setup(t)
	sized := func(n int) string { return strings.Repeat("keys.", n/5+1)[:n] }
	for name, row := range map[string]struct {
		keys []string
		code string // empty: it is taken
	}{
		"missing": {nil, "idempotency_key_missing"}, "empty": {[]string{""}, "idempotency_key_missing"},
		"15 characters": {[]string{sized(15)}, "idempotency_key_invalid"}, "16 characters": {[]string{sized(16)}, ""},
		"255 characters":      {[]string{sized(255)}, ""},
		"repeated":            {[]string{sized(20), sized(20)}, "idempotency_key_invalid"},
		"card number, quoted": {[]string{`"4111-1111-1111-1111"`}, "idempotency_key_invalid"},
	} {
		c := paymentOf("", "pm_ok")
		c.header = http.Header{"Idempotency-Key": row.keys}
		stranger := c
		stranger.as = "-"
		if r := w.do(stranger); row.code == "" && r.header.Get("Idempotency-Key") != row.keys[0] ||
			row.code != "" && r.header.Get("Idempotency-Key") != "" {
			t.Errorf("%s: without an API key, the key is echoed as %q", name, r.header.Get("Idempotency-Key"))
		}
		r := w.do(c)
		if row.code == "" {
			if r.expect(t, http.StatusCreated, ""); r.header.Get("Idempotency-Key") != row.keys[0] {
				t.Errorf("%s: the key is echoed as %q", name, r.header.Get("Idempotency-Key"))
			}
			continue
		}
		r.expect(t, http.StatusBadRequest, row.code)
		if diff := cmp.Diff([]string{"Idempotency-Key"}, r.reasons(t)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if echo, sent := r.header.Get("Idempotency-Key"), strings.Join(row.keys, ""); echo != "" || len(sent) > 0 &&
			strings.Contains(string(r.body), sent) {
			t.Errorf("%s: a refused key is repeated: %v %s", name, r.header, r.body)
		}
	}
	if n := w.count("SELECT count(*) FROM idempotency_keys"); n != 2 {
		t.Fatalf("%d keys were reserved, want the 2 valid ones", n)
	}
}

func TestInvalidBodyNamesTheMemberAndLeavesTheKeyUnused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	const pan = "4111111111111111"
	for body, want := range map[string][]string{
		`{}`: {"/amountCents", "/currency", "/customerId"}, `{"`: {""},
		`{"customerId":"` + pan + `","amountCents":1,"currency":"USD"}`:                      {"/customerId"},
		`{"customerId":"c","amountCents":1,"currency":"USD","metadata":{"` + pan + `":"a"}}`: {"/metadata"},
		`{"customerId":"c","amountCents":1,"currency":"USD","` + pan + `":"a"}`:              {""},
	} {
		r := w.do(call{method: "POST", path: "/payments", key: key, body: body})
		r.expect(t, http.StatusBadRequest, "invalid_request")
		if diff := cmp.Diff(want, r.reasons(t)); diff != "" {
			t.Errorf("%s: places (-want +got):\n%s", body, diff)
		}
		if strings.Contains(string(r.body), "1111") {
			t.Errorf("a card number is repeated: %s", r.body)
		}
	}
	w.untouched(key)
	w.chargedOnce(key, key, w.pay(key, "pm_ok"))
}

// Each row is wrong in the checks that it names and in all that come after.
func TestChecksRunInTheirOrder(t *testing.T) {
	t.Parallel()
	w := setup(t)
	used := freshKey()
	w.pay(used, "pm_ok").expect(t, http.StatusCreated, "")
	const badBody = `{"amountCents":"x"}`
	for name, row := range map[string]struct {
		call   call
		status int
		code   string
	}{
		"path": {call{method: "POST", path: "/nothing", as: "-", key: "short", body: badBody}, 404,
			"not_found"},
		"method": {call{method: "PUT", path: "/payments", as: "-", key: "short", body: badBody}, 405,
			"method_not_allowed"},
		"authentication": {call{method: "POST", path: "/payments", as: "-", key: "short", body: badBody}, 401,
			"unauthenticated"},
		"authentication (refund)": {call{method: "POST", path: "/payments/x/refunds", as: "nobody", key: "short",
			body: badBody}, 401, "unauthenticated"},
		"scope": {call{method: "POST", path: "/payments", as: readonlyKey, key: "short",
			body: badBody}, 403, "forbidden"},
		"key header": {call{method: "POST", path: "/payments", key: "short", body: badBody,
			header: http.Header{"Content-Type": {"text/plain"}}},
			400, "idempotency_key_invalid"},
		"missing key": {call{method: "POST", path: "/payments", body: long(20000)}, 400,
			"idempotency_key_missing"},
		"key header (refund)": {call{method: "POST", path: "/payments/x/refunds", key: "short", body: badBody}, 400,
			"idempotency_key_invalid"},
		"media type": {call{method: "POST", path: "/payments", key: used, body: long(20000),
			header: http.Header{"Content-Type": {"text/plain"}}},
			415, "unsupported_media_type"},
		"size": {call{method: "POST", path: "/payments", key: used, body: long(20000)}, 413, "body_too_large"},
		"body": {call{method: "POST", path: "/payments", key: used, body: badBody}, 400, "invalid_request"},
		"body (refund)": {call{method: "POST", path: "/payments/x/refunds", key: used, body: badBody}, 400,
			"invalid_request"},
		"fingerprint": {call{method: "POST", path: "/payments", key: used,
			body: strings.Replace(order("pm_ok"), "12000", "1", 1)}, 422,
			"idempotency_key_reused_with_different_payload"},
	} {
		t.Run(name, func(t *testing.T) {
			w.do(row.call).expect(t, row.status, row.code)
		})
	}
	if n := w.pspRequests("acme", used); n != 1 {
		t.Fatalf("PSP asked %d times", n)
	}
}

func TestTenantBeyondItsRateIsToldWhenToComeBack(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const hurriedKey, otherKey = "test-hurried-key", "test-hurried-other-key"
	w.addKey("hurried", hurriedKey, tenants.PaymentsRead, tenants.PaymentsWrite)
	w.addKey("hurried", otherKey, tenants.PaymentsRead)
	w.exec("UPDATE tenants SET requests_per_second = 2, request_burst = 3 WHERE id = 'hurried'")

	key := freshKey()
	c := paymentOf(key, "pm_ok")
	c.as = hurriedKey
	for range 3 {
		w.do(call{method: "GET", path: "/payments", as: hurriedKey}).expect(t, http.StatusOK, "")
	}
	limited := 0
	for _, late := range []call{
		c, {method: "GET", path: "/payments", as: otherKey}, // the tenant's, not the API key's
		{method: "POST", path: "/payments", as: hurriedKey, key: "short", body: "x"}, // before the header is read
	} {
		r := w.do(late)
		if r.status != http.StatusTooManyRequests {
			continue // the machine is so slow that there is a new token
		}
		limited++
		r.expect(t, http.StatusTooManyRequests, "rate_limited")
		if r.header.Get("Retry-After") != "1" || r.member(t, "retryable") != true {
			t.Fatalf("Retry-After %q: %s", r.header.Get("Retry-After"), r.body)
		}
	}
	if limited == 0 {
		t.Fatal("nobody was limited")
	}
	w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "") // another tenant does not notice

	eventually(t, "a new token", func() bool { return w.do(c).status == http.StatusCreated })
	r := w.do(c)
	for r.status == http.StatusTooManyRequests {
		r = w.do(c)
	}
	if r.expect(t, http.StatusCreated, ""); len(w.ledger("hurried", key).Charges) != 1 ||
		w.pspRequests("hurried", key) != 1 {
		t.Fatal("the limited request was charged")
	}
}

func TestEveryAnswerHasARequestIDOfOurs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	seen := map[string]string{}
	for _, c := range []call{
		paymentOf(key, "pm_ok"), paymentOf(key, "pm_ok"), paymentOf(freshKey(), "pm_declined"),
		paymentOf(freshKey(), "pm_500_charged"),
		paymentOf(key, "pm_slow"), paymentOf("", "pm_ok"), {method: "GET", path: "/payments"},
		{method: "GET", path: "/payments", as: "-"},
		{method: "GET", path: "/nothing"}, {method: "DELETE", path: "/payments"}, {method: "GET", path: "/"},
		{method: "HEAD", path: "/docs"},
		{method: "GET", path: "/openapi.yaml"}, {method: "GET", path: "/problems/none"},
		{method: "GET", path: "/idempotency-keys/" + key},
		{method: "POST", path: "/payments", key: key, body: long(20000)},
		{method: "GET", path: "/payments", as: readonlyKey},
	} {
		c.header = http.Header{"X-Request-Id": {"mine"}, "Traceparent": {"mine"}}
		r := w.do(c)
		id := r.header.Get("X-Request-Id")
		if !regexp.MustCompile(`^req_[A-Z2-7]{26}$`).MatchString(id) || len(r.header.Values("X-Request-Id")) != 1 {
			t.Errorf("%s %s: X-Request-Id is %q", c.method, c.path, r.header.Values("X-Request-Id"))
		}
		if seen[id] != "" {
			t.Errorf("%s %s has the id of %s", c.method, c.path, seen[id])
		}
		seen[id] = c.method + " " + c.path
		if r.header.Get("Content-Type") == "application/problem+json" && r.text(t, "declineCode") == "" &&
			!strings.HasSuffix(r.text(t, "instance"), "#"+id) {
			t.Errorf("the problem's instance is %s", r.text(t, "instance"))
		}
		// It is logged after it was answered.
		eventually(t, "the request's line in the log", func() bool { return strings.Contains(w.logs.String(), id) })
	}
}

func TestProblemTypesLeadToTheirPages(t *testing.T) {
	t.Parallel()
	var publicURL string
	w := setup(t, func(o *options) { o.settings = func(c *config.API) { publicURL = c.PublicURL } })
	key := freshKey()
	w.pay(key, "pm_ok")
	for _, c := range []call{
		paymentOf("", "pm_ok"), paymentOf("short", "pm_ok"), paymentOf(key, "pm_slow"),
		paymentOf(freshKey(), "pm_declined"),
		paymentOf(freshKey(), "visa"), {method: "GET", path: "/payments", as: "-"},
		{method: "GET", path: "/payments", as: operatorKey},
		{method: "GET", path: "/nothing"}, {method: "PUT", path: "/payments"},
		{method: "POST", path: "/payments", key: key, body: long(20000)},
	} {
		r := w.do(c)
		path, ours := strings.CutPrefix(r.text(t, "type"), publicURL)
		if !ours || r.header.Get("Content-Type") != "application/problem+json" ||
			r.header.Get("Cache-Control") != "no-store" {
			t.Fatalf("type %s, headers %v", r.text(t, "type"), r.header)
		}
		page := w.do(call{method: "GET", path: path, as: "-"})
		if page.expect(t, http.StatusOK, ""); !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") ||
			!strings.Contains(string(page.body), r.text(t, "code")) {
			t.Fatalf("%s is no page about %s", path, r.text(t, "code"))
		}
	}
}

// listed is a page of GET /payments, or of the refunds of a payment.
type listed struct {
	Data []struct {
		PaymentID, CustomerID, RefundID, Status, CreatedAt string
		AmountCents                                        int
	}
	HasMore    bool
	NextCursor string
}

func (w *world) list(as, query string) listed { return w.listOf(as, "/payments", query) }

func (w *world) listOf(as, path, query string) listed {
	w.t.Helper()
	r := w.do(call{method: "GET", path: path + "?" + query, as: as})
	r.expect(w.t, http.StatusOK, "")
	var l listed
	if err := json.Unmarshal(r.body, &l, json.MatchCaseInsensitiveNames(true)); err != nil {
		w.t.Fatal(err)
	}
	if l.HasMore != (l.NextCursor != "") || strings.Contains(string(r.body), "null") {
		w.t.Fatalf("hasMore and nextCursor disagree, or a member is null: %s", r.body)
	}
	return l
}

// walk lists all pages, with meanwhile between any two of them.
func (w *world) walk(as, query string, meanwhile func()) []string {
	w.t.Helper()
	var ids []string
	for cursor := ""; ; meanwhile() {
		l := w.list(as, query+cursor)
		for _, p := range l.Data {
			ids = append(ids, p.PaymentID)
		}
		if !l.HasMore {
			return ids
		}
		cursor = "&cursor=" + l.NextCursor
	}
}

// seedPayments makes n payments by SQL, every third of another customer, and of each status in turn. It gives their
// ids, newest first.
func (w *world) seedPayments(tenant string, n int) []string {
	w.t.Helper()
	rows, err := w.db.Query(w.t.Context(), `INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency,
			payment_method, status, psp_charge_id, decline_code, reference)
		SELECT ('01000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, $1, 'seeded-' || i, 1, CASE i % 3 WHEN 0 THEN 'cus-3' ELSE 'cus-1' END, 100, 'USD',
			'pm_ok', s, CASE s WHEN 'succeeded' THEN 'ch_' || $1 || i END, CASE s WHEN 'declined' THEN 'no' END,
			CASE WHEN i % 2 = 0 THEN 'order ' || i % 6 END
		FROM generate_series(1, $2) AS i, LATERAL (SELECT (ARRAY['processing', 'succeeded', 'declined', 'failed'])[i % 4 + 1] AS s) AS t
		RETURNING id`, tenant, n)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			w.t.Fatal(err)
		}
		ids = append(ids, id.String())
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	return ids
}

func TestListHasNeitherDuplicatesNorHolesWhilePaymentsArrive(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.seedPayments("acme", 57)
	w.seedOthers()
	all := w.walk(acmeKey, "limit=100", func() { t.Fatal("there is a second page") })
	if len(all) != 57 || !slices.IsSortedFunc(all, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Fatalf("%d payments, or not newest first: %v", len(all), all)
	}
	for _, limit := range []int{1, 2, 10, 19, 20, 56, 57} {
		arrived := 0
		got := w.walk(acmeKey, fmt.Sprintf("limit=%d", limit), func() {
			if arrived++; arrived <= 3 {
				w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "")
			}
		})
		// Those of the rounds before are newer than all, and at the front.
		if diff := cmp.Diff(all, got[len(got)-57:]); diff != "" {
			t.Fatalf("limit %d (-want +got):\n%s", limit, diff)
		}
		if unique := slices.Compact(slices.Sorted(slices.Values(got))); len(unique) != len(got) {
			t.Fatalf("limit %d: %d payments in %d entries", limit, len(unique), len(got))
		}
	}
	if got := w.list(acmeKey, ""); len(got.Data) != 20 || !got.HasMore {
		t.Fatalf("the default page has %d", len(got.Data))
	}
}

// seedOthers gives globex payments between those of acme, and of the same customer.
func (w *world) seedOthers() {
	w.t.Helper()
	w.exec(`INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status, reference)
		SELECT (replace(id::text, '-8000-', '-8001-'))::uuid, 'globex', 'other-' || idempotency_key, 1, customer_id, 100, 'USD', 'pm_ok', 'processing', reference
		FROM payments WHERE tenant_id = 'acme'`)
}

func TestListIsFiltered(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.seedPayments("acme", 48)
	w.seedOthers()
	for query, want := range map[string]int{
		"": 48, "customerId=cus-3": 16, "customerId=cus-1": 32, "customerId=cus-2": 0, "status=processing": 12,
		"status=succeeded": 12, "status=declined": 12,
		"status=failed": 12, "customerId=cus-3&status=failed": 4, "customerId=cus-2&status=failed": 0,
		"reference=order%200": 8, "reference=order%202": 8, "reference=order%201": 0, "reference=order%20": 0,
		"customerId=cus-3&reference=order%200": 8, "customerId=cus-3&reference=order%202": 0,
		"reference=order%200&status=declined": 4,
	} {
		for _, limit := range []string{"limit=1", "limit=4", "limit=5", "limit=100"} {
			if got := w.walk(acmeKey, limit+"&"+query, func() {}); len(got) != want {
				t.Errorf("%s %s gives %d payments, want %d", limit, query, len(got), want)
			}
		}
		for _, p := range w.list(acmeKey, query).Data {
			if strings.Contains(query, "customerId") && !strings.Contains(query, p.CustomerID) ||
				strings.Contains(query, "status") && !strings.Contains(query, p.Status) {
				t.Errorf("%s gives %+v", query, p)
			}
		}
	}
	// A page that is exactly full is the last one.
	if full := w.list(acmeKey, "customerId=cus-3&status=failed&limit=4"); len(full.Data) != 4 || full.HasMore {
		t.Errorf("a full page: %+v", full)
	}
	// A cursor of another tenant's shows nothing of it.
	theirs := w.list(globexKey, "limit=1")
	for _, p := range w.list(acmeKey, "cursor="+theirs.NextCursor).Data {
		w.do(call{method: "GET", path: "/payments/" + p.PaymentID}).expect(t, http.StatusOK, "")
	}
}

// The range includes its beginning and not its end, so two ranges in a row have each payment once. An id may be hours
// away from created_at: another clock has made it.
func TestListIsFilteredByTime(t *testing.T) {
	t.Parallel()
	w := setup(t)
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for hour := range 5 { // 12:00 to 16:00, with ids that are 20 hours early and late by turns
		at := noon.Add(time.Duration(hour) * time.Hour)
		skew := 20 * time.Hour * time.Duration(1-2*(hour%2))
		w.exec(`INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency,
				payment_method, status, created_at)
			SELECT (lpad(to_hex($1::bigint), 12, '0') || '7000800000000000000' || $2::integer)::uuid, tenant,
				'at-' || $2::integer, 1, 'cus-1', 100, 'USD', 'pm_ok', 'processing', $3
			FROM unnest(ARRAY['acme', 'globex']) AS tenant`, at.Add(skew).UnixMilli(), hour, at)
	}
	for query, want := range map[string]int{
		"": 5, "createdAfter=2026-11-20T12:00:00Z": 5, "createdAfter=2026-11-20T12:00:00.000001Z": 4,
		"createdBefore=2026-11-20T16:00:00Z": 4, "createdBefore=2026-11-20T16:00:00.000001Z": 5,
		"createdAfter=2026-11-20T13:00:00Z&createdBefore=2026-11-20T15:00:00Z":           2,
		"createdAfter=2026-11-20T14:00:00%2B01:00&createdBefore=2026-11-20T15:00:00Z":    2,
		"createdAfter=2026-11-20T15:00:00Z&createdBefore=2026-11-20T17:00:00Z":           2,
		"createdBefore=2026-11-20T12:00:00Z":                                             0,
		"createdAfter=2026-11-20T17:00:00Z":                                              0,
		"createdAfter=0000-01-01T00:00:00Z&createdBefore=9999-12-31T23:59:59.999999999Z": 5,
		"createdAfter=2026-11-20T13:00:00Z&status=failed":                                0,
	} {
		for _, limit := range []string{"limit=1", "limit=2", "limit=100"} {
			if got := w.walk(acmeKey, limit+"&"+query, func() {}); len(got) != want {
				t.Errorf("%s %s gives %d payments, want %d", limit, query, len(got), want)
			}
		}
	}
}

// served is the public API behind a server with the limits of the contract, changed by edit.
func (w *world) served(edit func(*http.Server)) (addr string) {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	log := slog.New(slog.NewJSONHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := httpapi.NewServer(w.app.Public, w.own.HTTPIdle, log)
	limited := httpapi.LimitConnections(l, s, httpapi.MaxConnections, log, time.Now)
	edit(s)
	done := make(chan error, 1)
	go func() { done <- s.Serve(limited) }()
	w.t.Cleanup(func() {
		_ = s.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			w.t.Error(err)
		}
	})
	return l.Addr().String()
}

// talk writes raw bytes to the server and reads what comes until the server hangs up.
func talk(t testing.TB, addr, raw string) string {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if netErr := net.Error(nil); errors.As(err, &netErr) && netErr.Timeout() {
		t.Fatal("the server did not hang up")
	}
	return string(answer)
}

func TestHeadersBeyondTheirLimitAreRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	addr := w.served(func(*http.Server) {})
	head := "GET /payments HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + acmeKey + "\r\n"
	if answer := talk(t, addr, head+"X-Big: "+long(15<<10)+"\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
		t.Fatalf("15 KiB: %.100s", answer)
	}
	for _, big := range []string{"X-Big: " + long(32<<10) + "\r\n", strings.Repeat("X-Small: 1\r\n", 4000)} {
		if answer := talk(t, addr, head+big+"\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 431 ") {
			t.Fatalf("beyond: %.100s", answer)
		}
	}
}

// Programs read our answers as JSON, also that to a request which no handler has seen.
func TestWhatTheServerCannotReadIsAnsweredByAProblem(t *testing.T) {
	t.Parallel()
	w := setup(t)
	addr := w.served(func(*http.Server) {})
	const get = "GET /payments HTTP/1.1\r\n"
	for sent, status := range map[string]int{
		"no request\r\n\r\n":              400,
		get + "\r\n":                      400, // no host
		get + "Host: x\r\nBroken\r\n\r\n": 400,
		get + "Host: x\r\nTransfer-Encoding: other\r\n\r\n":    501,
		get + "Host: x\r\nX-Big: " + long(32<<10) + "\r\n\r\n": 431,
		"GET /payments HTTP/9.9\r\nHost: x\r\n\r\n":            505,
	} {
		res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(talk(t, addr, sent))), nil)
		if err != nil {
			t.Fatalf("%.60q: %v", sent, err)
		}
		var told problem.Document
		err = json.UnmarshalRead(res.Body, &told)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != status || told.Status != status || told.Title == "" ||
			told.Code != "unreadable_request" || res.Header.Get("Content-Type") != problem.ContentType {
			t.Errorf("%.60q: %d %s %+v, %v", sent, res.StatusCode, res.Header, told, err)
		}
	}
}

func TestSlowClientIsCutOff(t *testing.T) {
	t.Parallel()
	w := setup(t)
	addr := w.served(func(s *http.Server) { s.ReadHeaderTimeout, s.ReadTimeout = time.Second, 2*time.Second })
	if answer := talk(t, addr, "POST /payments HTTP/1.1\r\nHost: x\r\nX-Never-"); answer != "" &&
		!strings.HasPrefix(answer, "HTTP/1.1 4") {
		t.Fatalf("headers that stop: %s", answer)
	}
	key := freshKey()
	answer := talk(t, addr, "POST /payments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+acmeKey+
		"\r\nIdempotency-Key: "+key+
		"\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"+order("pm_ok"))
	res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil)
	if err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusBadRequest || !strings.Contains(answer, "could not be read to its end") {
		t.Fatalf("a body that stops: %s", answer)
	}
	w.untouched(key)
}

func TestServerHasTheLimitsOfTheContract(t *testing.T) {
	t.Parallel()
	s := httpapi.NewServer(nil, 620*time.Second, slog.New(slog.DiscardHandler))
	if s.ReadHeaderTimeout != 5*time.Second || s.ReadTimeout != 10*time.Second || s.WriteTimeout != 30*time.Second ||
		s.IdleTimeout != 620*time.Second || s.MaxHeaderBytes != 16<<10 || s.ErrorLog == nil {
		t.Fatalf("%+v", s)
	}
}

// operator asks the operator's listener.
func (w *world) operator(path string) reply {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.app.Operator.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	return reply{status: rec.Code, header: rec.Result().Header, body: rec.Body.Bytes()}
}

func TestLivezLooksAtTheProcessOnlyAndReadyzAtTheRest(t *testing.T) {
	t.Parallel()
	w := setup(t)
	away := setup(t, func(o *options) {
		o.database = func(string) string { return "postgres://nobody:canary-password@127.0.0.1:1/none" }
	})
	for _, well := range []*world{w, away} {
		well.operator("/livez").expect(t, http.StatusOK, "")
	}
	r := w.operator("/readyz")
	r.expect(t, http.StatusOK, "")
	if want := `{"ready":true,"checks":{"database":"ok","disk":"ok","schema":"ok","serving":"ok"}}` +
		"\n"; string(r.body) != want {
		t.Fatalf("readyz says %s", r.body)
	}
	r = away.operator("/readyz")
	r.expect(t, http.StatusServiceUnavailable, "")
	if strings.Contains(string(r.body), "canary") || !strings.Contains(string(r.body), `"serving":"ok"`) ||
		strings.Contains(string(r.body), `"database":"ok"`) {
		t.Fatalf("readyz says %s", r.body)
	}

	w.exec("DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)")
	r = w.operator("/readyz")
	r.expect(t, http.StatusServiceUnavailable, "")
	if !strings.Contains(string(r.body), "run api migrate") || !strings.Contains(string(r.body), `"database":"ok"`) {
		t.Fatalf("readyz says %s", r.body)
	}
	w.exec("DROP TABLE goose_db_version")
	r = w.operator("/readyz")
	if r.expect(t, http.StatusServiceUnavailable, ""); !strings.Contains(string(r.body), "run api migrate") {
		t.Fatalf("readyz says %s", r.body)
	}
	if w.operator("/payments").status != http.StatusNotFound {
		t.Fatal("the operator's listener serves the public API")
	}
}

func TestMetricsTellOutcomesAndNobodysBusiness(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := setup(t, func(o *options) {
		o.between = func(psp http.Handler) http.Handler {
			held := gate.wrap(psp)
			var first sync.Once
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				h := psp
				first.Do(func() { h = held })
				h.ServeHTTP(rw, r)
			})
		}
	})
	key := freshKey()
	owner := w.inBackground(paymentOf(key, "pm_ok")) // created
	gate.awaitArrival(t)
	w.do(preferring(paymentOf(key, "pm_ok"), "wait=0")).
		expect(t, http.StatusConflict, "idempotency_key_in_progress")
	if n := w.metric("payonce_psp_requests_in_flight"); n != 1 {
		t.Errorf("%d PSP requests in flight", n)
	}
	gate.open()
	paid := <-owner
	paid.expect(t, http.StatusCreated, "")
	w.pay(key, "pm_ok").expect(t, http.StatusCreated, "")               // replay
	w.pay(key, "pm_slow").expect(t, http.StatusUnprocessableEntity, "") // key_misuse
	w.pay(freshKey(), "pm_declined").expect(t, http.StatusPaymentRequired, "")
	lost := freshKey()
	w.pay(lost, "pm_500_charged").expect(t, http.StatusAccepted, "")
	w.pay(lost, "pm_500_charged").expect(t, http.StatusAccepted, "") // unknown
	w.do(call{method: "GET", path: "/payments/" + paid.text(t, "paymentId")}).expect(t, http.StatusOK, "")
	w.do(call{method: "GET", path: "/idempotency-keys/" + key}).expect(t, http.StatusOK, "")
	w.do(call{method: "GET", path: "/secret/" + key}).expect(t, http.StatusNotFound, "")
	w.do(call{method: "DELETE", path: "/idempotency-keys/" + key}).expect(t, http.StatusMethodNotAllowed, "")
	again := w.failTwiceWithoutPSP() // created, failed_retry

	for name, want := range map[string]int{
		`payonce_idempotency_reserve_total{outcome="created"}`:                                      3 + again,
		`payonce_idempotency_reserve_total{outcome="replay"}`:                                       1,
		`payonce_idempotency_reserve_total{outcome="in_progress"}`:                                  1,
		`payonce_idempotency_reserve_total{outcome="key_misuse"}`:                                   1,
		`payonce_idempotency_reserve_total{outcome="failed_retry"}`:                                 1,
		`payonce_idempotency_reserve_total{outcome="unknown"}`:                                      1,
		`payonce_psp_request_duration_seconds_count{outcome="succeeded"}`:                           1,
		`payonce_psp_request_duration_seconds_count{outcome="declined"}`:                            1,
		`payonce_psp_request_duration_seconds_count{outcome="not_executed"}`:                        2,
		`payonce_http_request_duration_seconds_count{route="/payments/{paymentId}",status="200"}`:   1,
		`payonce_http_request_duration_seconds_count{route="/idempotency-keys/{key}",status="200"}`: 1,
		`payonce_http_request_duration_seconds_count{route="/payments",status="409"}`:               1,
		`payonce_http_request_duration_seconds_count{route="/payments",status="503"}`:               2,
		`payonce_http_request_duration_seconds_count{route="none",status="404"}`:                    1,
		`payonce_db_pool_max_connections`:                                                           16,
		`payonce_psp_requests_in_flight`:                                                            0,
		`payonce_fenced_writes_total`:                                                               0,
		`payonce_commit_ambiguous_total`:                                                            0,
	} {
		if got := w.metric(name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	w.wantNobodysBusiness(key, lost, paid.text(t, "paymentId"))
}

// failTwiceWithoutPSP has a key fail and be tried again while nobody listens. It returns how many keys that took: the
// first may have met a connection that was just being closed.
func (w *world) failTwiceWithoutPSP() (keys int) {
	w.t.Helper()
	w.psp.CloseClientConnections()
	w.psp.Close()
	for {
		keys++
		key := freshKey()
		if r := w.pay(key, "pm_ok"); r.status == http.StatusServiceUnavailable {
			w.pay(key, "pm_ok").expect(w.t, http.StatusServiceUnavailable, "psp_unavailable")
			return keys
		}
	}
}

func (w *world) wantNobodysBusiness(keys ...string) {
	w.t.Helper()
	page := string(w.operator("/metrics").body)
	for _, private := range append(keys, "acme", "globex", "cus-1", "secret", "pay_", acmeKey, pspSecret) {
		if strings.Contains(page, private) {
			w.t.Errorf("/metrics tells %q", private)
		}
	}
	known := []string{"none", "/", "/docs", "/docs/*", "/openapi.yaml", "/problems", "/problems/*", "/payments",
		"/payments/{paymentId}",
		"/payments/{paymentId}/refunds", "/refunds/{refundId}", "/idempotency-keys/{key}",
		"in_progress", "unknown", "completed", "failed_retryable", "expired"} // of keys
	for _, m := range regexp.MustCompile(`(?:route|status)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if _, err := strconv.Atoi(m[1]); err != nil && !slices.Contains(known, m[1]) {
			w.t.Errorf("/metrics has a route or status %q", m[1])
		}
	}
}
