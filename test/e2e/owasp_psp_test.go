package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"payonce/internal/config"
)

// Item 10: what others' APIs answer is not to be trusted either. The PSP is one.

// mark is in whatever the hostile PSP says, and must turn up nowhere but as an operator's evidence.
const mark = "h0stile"

// hostility is an answer of the PSP to a charge that it may have made. honest is what it should have said.
type hostility struct {
	name       string
	answer     func(rw http.ResponseWriter, r *http.Request, honest *httptest.ResponseRecorder)
	deadLetter bool // whether an operator must look
}

func hostilities() []hostility {
	says := func(status int, contentType, body string) func(http.ResponseWriter, *http.Request,
		*httptest.ResponseRecorder) {
		return func(rw http.ResponseWriter, _ *http.Request, _ *httptest.ResponseRecorder) {
			rw.Header().Set("Content-Type", contentType)
			rw.Header().Set("Set-Cookie", mark)
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, body)
		}
	}
	edits := func(edit ...string) func(http.ResponseWriter, *http.Request, *httptest.ResponseRecorder) {
		return func(rw http.ResponseWriter, _ *http.Request, honest *httptest.ResponseRecorder) {
			rw.WriteHeader(honest.Code)
			_, _ = strings.NewReplacer(edit...).WriteString(rw, honest.Body.String())
		}
	}
	return []hostility{
		{"HTML", says(201, "text/html", "<h1>"+mark+"</h1>"), false},
		{"another type", says(201, "application/json", `["`+mark+`"]`), false},
		{"a number", says(201, "application/json", `12000`), false},
		{"nothing", says(201, "application/json", ``), false},
		{"deep", says(201, "application/json", strings.Repeat("[", 30_000)+mark), false},
		{"giant", says(201, "application/json", `{"id":"`+strings.Repeat(mark, 100_000)+`"}`), false},
		{"a login page", says(200, "text/html", mark), false},
		{"gone", says(410, "application/json", `{"error":"`+mark+`"}`), false},
		{"teapot", says(418, "text/plain", mark), false},
		{"broken", says(500, "text/plain", mark), false},
		{"twice a member", edits(`"status":"succeeded"`, `"status":"succeeded","status":"`+mark+`"`), false},
		{"another status", edits(`"status":"succeeded"`, `"status":"`+mark+`"`), false},
		{"a status in another case", edits(`"status":"succeeded"`, `"status":"SUCCEEDED","x":"`+mark+`"`), false},
		{"members in another case", edits(`"status"`, `"Status"`, `"id"`, `"ID"`), false},
		{"an id with spaces", edits(`"id":"`, `"id":"`+mark+` `), false},
		{"an id with a control character", edits(`"id":"`, `"id":"`+mark+`\u0007`), false},
		{"an id with U+0000", edits(`"id":"`, `"id":"`+mark+`\u0000`), false},
		{"an endless id", edits(`"id":"`, `"id":"`+strings.Repeat(mark, 40)), false},
		{"an amount with a fraction", edits(`12000`, `12000.0`), false},
		{"an amount beyond 64 bits", edits(`12000`, `36893488147419115232`), false},
		{"an amount as text", edits(`12000`, `"12000"`), false},
		{"another amount", edits(`12000`, `1`), true},
		{"another currency", edits(`USD`, mark), true},
		{"another account", edits(`"acme"`, `"`+mark+`"`), true},
		{"slow", func(rw http.ResponseWriter, r *http.Request, honest *httptest.ResponseRecorder) {
			trickle(rw, r, honest.Body.Bytes())
		}, false},
	}
}

// trickle sends an answer byte by byte until nobody reads any more.
func trickle(rw http.ResponseWriter, r *http.Request, body []byte) {
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	rw.WriteHeader(http.StatusCreated)
	for i := 0; ; i++ {
		select {
		case <-every.C:
			if _, err := rw.Write(body[i%len(body) : i%len(body)+1]); err != nil {
				return
			}
			_ = http.NewResponseController(rw).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// Beside it: TestWhatThePSPSaysStaysOutOfLogsAndRefusals, and package gateway, where each rule has its test.
func TestOWASPAPI10UnsafeConsumptionOfAPIs(t *testing.T) {
	t.Parallel()
	var next atomic.Pointer[hostility]
	w := setup(t, func(o *options) {
		o.settings = func(c *config.API) { c.PSPTotal = time.Second; c.PSPBreakerFailures = 1000 }
		o.between = func(psp http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				honest := httptest.NewRecorder()
				psp.ServeHTTP(honest, r)
				next.Load().answer(rw, r, honest)
			})
		}
	})
	for _, h := range hostilities() {
		next.Store(&h)
		key := freshKey()
		r := w.pay(key, "pm_ok")
		if r.status != http.StatusAccepted || r.text(t, "status") != "processing" || r.text(t, "pspChargeId") != "" {
			t.Errorf("%s: believed: %d %s", h.name, r.status, r.body)
		}
		if n := w.pspRequests("acme", key); n != 1 {
			t.Errorf("%s: the PSP was asked %d times", h.name, n)
		}
		shown := w.inspect(key, "")
		if all := fmt.Sprint(r.header, string(r.body), shown.header, string(shown.body)); strings.Contains(all, mark) {
			t.Errorf("%s: repeated to the client: %s", h.name, all)
		}
		if n := w.count("SELECT count(*) FROM dead_letters WHERE key = $1", key); (n == 1) != h.deadLetter {
			t.Errorf("%s: %d dead letters", h.name, n)
		}
		w.nowhereStored(h.name)
	}
	w.believesWhatFits(&next)
}

// nowhereStored looks for the mark in everything that we keep, but for the evidence of dead letters.
func (w *world) nowhereStored(what string) {
	w.t.Helper()
	for _, table := range []string{"payments", "refunds", "idempotency_keys", "idempotency_key_events", "river_job",
		"webhook_events", "operator_actions"} {
		if n := w.count("SELECT count(*) FROM " + table + " AS kept WHERE kept::text LIKE '%" + mark + "%'"); n != 0 {
			w.t.Errorf("%s: %s keeps what the PSP said", what, table)
		}
	}
	if n := w.count("SELECT count(*) FROM dead_letters AS kept WHERE (to_jsonb(kept) - 'evidence')::text LIKE '%" +
		mark + "%'"); n != 0 {
		w.t.Errorf("%s: a dead letter keeps what the PSP said elsewhere than in its evidence", what)
	}
	if strings.Contains(w.logs.String(), mark) {
		w.t.Errorf("%s: the log repeats the PSP", what)
	}
}

// believesWhatFits checks that the hostile PSP is the reason: what it adds to a good answer is left out, and a
// decline's code has a form.
func (w *world) believesWhatFits(next *atomic.Pointer[hostility]) {
	w.t.Helper()
	says := func(edit ...string) {
		next.Store(&hostility{answer: func(rw http.ResponseWriter, _ *http.Request, honest *httptest.ResponseRecorder) {
			rw.WriteHeader(honest.Code)
			_, _ = strings.NewReplacer(edit...).WriteString(rw, honest.Body.String())
		}})
	}
	says(`"status":"succeeded"`, `"status":"succeeded","`+mark+`":{"`+mark+`":1},"paymentId":"`+mark+`"`)
	r := w.pay(freshKey(), "pm_ok")
	if r.expect(w.t, http.StatusCreated, ""); strings.Contains(string(r.body), mark) {
		w.t.Errorf("a member that nobody asked for is handed on: %s", r.body)
	}
	w.nowhereStored("a member too many")
	says()
	w.pay(freshKey(), "pm_declined").expect(w.t, http.StatusPaymentRequired, "payment_declined")
	for _, code := range []string{`\u001b[31m` + mark, `<script>` + mark, mark + `\r\nSet-Cookie: a=b`,
		strings.Repeat(mark, 10), strings.ToUpper(mark), ``} {
		says(`insufficient_funds`, code)
		key := freshKey()
		r := w.pay(key, "pm_declined")
		if shown := w.inspect(key, ""); r.status != http.StatusAccepted ||
			strings.Contains(string(r.body)+string(shown.body), mark) {
			w.t.Errorf("decline code %q: %d %s", code, r.status, r.body)
		}
		w.nowhereStored(code)
	}
}
