package e2e

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/demo/mockpsp"
	"payonce/internal/config"
	"payonce/internal/httpapi"
)

// The console, as a browser without script sees it, and the streams that a browser with script reads.

// browser is somebody with the console open.
type browser struct {
	t    testing.TB
	base string
	http *http.Client // keeps cookies, and follows no redirect
}

// browse opens the console on the operator's listener of the API.
func (w *world) browse(edit ...func(*http.Server)) *browser {
	w.t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config = httpapi.NewServer(w.app.Operator, w.own.HTTPIdle, slog.New(slog.DiscardHandler))
	for _, e := range edit {
		e(server.Config)
	}
	server.Start()
	w.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return newBrowser(w.t, server.URL)
}

func newBrowser(t testing.TB, base string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, base, &http.Client{Jar: jar, Transport: &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// send sends a request as a browser does that shows a page of this server.
func (b *browser) send(method, path string, form url.Values, header ...string) reply {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, raw}
}

func (b *browser) get(path string) reply { return b.send(http.MethodGet, path, nil) }

func (b *browser) signIn(key string) reply {
	return b.send(http.MethodPost, "/console/sign-in", url.Values{"key": {key}, "next": {"/console/"}})
}

// stream reads the live parts of a page.
type stream struct {
	t     testing.TB
	parts chan string // the HTML of each message; closed at the end
	// charged says that a part has shown a charge. Then no later part may deny it, whether the PSP answers or not.
	charged bool
}

func (b *browser) watch(path string) *stream {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := b.http.Do(req) //nolint:bodyclose // closed at the end of the stream
	if err != nil {
		b.t.Fatal(err)
	}
	if kind := res.Header.Get("Content-Type"); kind != "text/event-stream" {
		b.t.Fatalf("%s is %d, %s", path, res.StatusCode, kind)
	}
	s := &stream{t: b.t, parts: make(chan string, 100)}
	go func() {
		defer close(s.parts)
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			var m struct{ HTML, Trouble string }
			if ok && json.Unmarshal([]byte(data), &m, json.MatchCaseInsensitiveNames(true)) == nil {
				s.parts <- m.HTML + m.Trouble
			}
		}
	}()
	return s
}

// until reads parts until one has all of the texts.
func (s *stream) until(texts ...string) string {
	s.t.Helper()
	last := ""
	for {
		select {
		case part, ok := <-s.parts:
			if !ok {
				s.t.Fatalf("the stream has ended before %q; its last part is\n%s", texts, last)
			}
			last = part
			s.charged = s.charged || strings.Contains(part, `data-field="executed">1<`)
			if s.charged && strings.Contains(part, `data-field="executed">0<`) {
				s.t.Error("the page has shown a charge, and shows none any more")
			}
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(part, text) }) {
				return part
			}
		case <-time.After(patience):
			s.t.Fatalf("no part has %q; the last one is\n%s", texts, last)
		}
	}
}

// Somebody looks at a key while it is used: the page goes through all its states without being loaded again. The stream
// outlives the limits of the server for ordinary answers.
func TestPageOfAKeyGrowsWhileOneLooks(t *testing.T) {
	t.Parallel()
	w := setupOpen(t)
	w.reconcile()
	b := w.browse()
	b.signIn(operatorKey).expect(t, http.StatusSeeOther, "")
	key := freshKey()
	page := "/console/keys/acme/payments/" + key
	b.get(page).expect(t, http.StatusNotFound, "")
	brief := w.browse(func(s *http.Server) { s.ReadTimeout, s.WriteTimeout = time.Second, time.Second })
	brief.http.Jar = b.http.Jar // A cookie is for all ports of a host.
	live := brief.watch(page + "/live")
	live.until("Nobody has used this key yet")

	answered := make(chan reply, 1)
	go func() { answered <- w.pay(key, "pm_silent_charged") }()
	live.until(`<span class="status in_progress"`, "reserved, attempt 1", "succeeded: 120.00 USD")
	(<-answered).expect(t, http.StatusAccepted, "")
	live.until(`<span class="status unknown"`, "202")
	live.until(`<span class="status completed"`, "look up the key", "stored response")

	w.pay(key, "pm_silent_charged").expect(t, http.StatusCreated, "")
	w.pay(key, "pm_silent_charged").expect(t, http.StatusCreated, "")
	live.until("201, replayed ×2", `Z">0.000 s</data>`)
	w.pay(key, "pm_ok").expect(t, http.StatusUnprocessableEntity, "")
	shown := live.until("422, idempotency_key_reused_with_different_payload")
	// Without script, the page shows the same.
	if page := b.get(page); !strings.Contains(string(page.body), strings.TrimSpace(picture.FindString(shown))) {
		t.Errorf("the page does not show\n%s\nbut\n%s", shown, page.body)
	}
	for format, times := range map[string]string{"/picture.svg": ">0.000 s<", "/picture.txt": "0.000 s  |",
		"/picture.txt?clock": "times in UTC"} {
		r := b.get(page + format)
		if text := string(r.body); r.status != http.StatusOK || !strings.Contains(text, "replayed ×2") ||
			!strings.Contains(text, times) {
			t.Errorf("%s is %d\n%s", format, r.status, r.body)
		}
	}
}

var (
	picture = regexp.MustCompile(`(?s)<svg.*?</svg>`)
	keyLink = regexp.MustCompile(`class="key"><a href="([^"]*)"`)
)

// Money has moved under a key that has no row, as after a restore. The page must not say that the key is free.
func TestPageOfAHeldKeyWithoutARowNamesTheDeadLetter(t *testing.T) {
	t.Parallel()
	w := setupOpen(t)
	w.reconcile()
	key := freshKey()
	w.chargeByHand("acme", key, "lost")
	w.awaitDeadLetter("unknown_movement", key)
	b := w.browse()
	b.signIn(operatorKey).expect(t, http.StatusSeeOther, "")
	for _, used := range []bool{false, true} {
		if used {
			w.pay(key, "pm_ok").expect(t, http.StatusConflict, "idempotency_key_held")
		}
		shown := string(b.get("/console/keys/acme/payments/" + key).body)
		if !strings.Contains(shown, "holds this key") ||
			strings.Contains(shown, "If it is used now") ||
			!strings.Contains(shown, "/console/dead-letters/"+w.openOps().find("unknown_movement", key).ID) {
			t.Errorf("used: %t, and the page shows\n%s", used, shown)
		}
	}
}

// There is one console. The reconciler's listener leads a browser there if it was told where that is, and says it in
// words otherwise.
func TestReconcilersListenerLeadsToTheConsole(t *testing.T) {
	t.Parallel()
	r := setupOpen(t).reconcile(func(c *config.Reconciler) { c.ConsoleURL = "http://localhost:18081" })
	b := newBrowser(t, r.base)
	for from, to := range map[string]string{
		"/": "", "/console": "", "/console/": "", "/console/keys?status=unknown": "keys?status=unknown",
		"/operator/summary": "", "/operator/dead-letters": "dead-letters",
	} {
		led := b.send(http.MethodGet, from, nil, "Accept", "text/html")
		if to := "http://localhost:18081/console/" + to; led.status != http.StatusSeeOther ||
			led.header.Get("Location") != to {
			t.Errorf("%s leads to %d %s, want %s", from, led.status, led.header.Get("Location"), to)
		}
		if b.get(from).status/100 == 3 {
			t.Errorf("%s leads a program elsewhere", from)
		}
	}
	untold := newBrowser(t, setupOpen(t).reconcile(func(*config.Reconciler) {}).base)
	said := untold.send(http.MethodGet, "/console/", nil, "Accept", "text/html")
	if said.status != http.StatusNotFound || !strings.Contains(string(said.body), "OPERATOR_ADDR") {
		t.Errorf("without the address it answers %d %s", said.status, said.body)
	}
}

// A dead letter is decided about on its page: what would be refused is said before, what is refused changes nothing,
// and the decision is audited under the operator's API key.
func TestDeadLetterIsDecidedInTheConsole(t *testing.T) {
	t.Parallel()
	w := setupOpen(t, shared(soon))
	w.reconcile()
	d := w.openOps()
	key, l := w.stuck(d)
	b := w.browse()
	b.signIn(operatorKey).expect(t, http.StatusSeeOther, "")
	if overview := string(b.get("/console/").body); !strings.Contains(overview, ">open dead letter<") {
		t.Errorf("of one dead letter the overview says\n%s", overview)
	}
	b.signIn(resolvingKey).expect(t, http.StatusSeeOther, "")
	if list := b.get("/console/dead-letters"); !strings.Contains(string(list.body), l.ID) {
		t.Fatalf("the list is\n%s", list.body)
	}
	page := "/console/dead-letters/" + l.ID
	shown := string(b.get(page).body)
	keyID := regexp.MustCompile(`name="keyId" value="([^"]*)"`).FindStringSubmatch(shown)
	if keyID == nil {
		t.Fatalf("the page has no form:\n%s", shown)
	}
	for _, part := range []string{"lookups_exhausted", key, "Refused now: ", `value="executed"`} {
		if !strings.Contains(shown, part) {
			t.Errorf("the page lacks %q:\n%s", part, shown)
		}
	}
	if audit := d.show(l.ID).Audit; len(audit) != 0 {
		t.Errorf("looking is audited: %+v", audit)
	}
	for about, parts := range map[string][]string{
		"/console/payments/" + w.payment(key): {"<li>waits for an operator, for ", "lookups_exhausted</a>, open", page},
		"/console/keys/acme/payments/" + key:  {"lookups_exhausted</a>, open for ", page},
	} {
		for _, part := range parts {
			if shown := string(b.get(about).body); !strings.Contains(shown, part) {
				t.Errorf("%s lacks %q:\n%s", about, part, shown)
			}
		}
	}
	decide := func(action, reason, version string) reply {
		return b.send(http.MethodPost, page+"/resolve",
			url.Values{"action": {action}, "reason": {reason}, "version": {version}, "keyId": {keyID[1]}})
	}
	for _, wrong := range []reply{decide("executed", "", "1"), decide("burn", "a reason", "1"),
		decide("executed", "a reason", "x")} {
		wrong.expect(t, http.StatusBadRequest, "")
		if !strings.Contains(string(wrong.body), "Nothing was changed.") {
			t.Errorf("the page does not say what is wrong:\n%s", wrong.body)
		}
	}
	decide("dismiss", "seen", "1").expect(t, http.StatusConflict, "")
	decide("executed", "the PSP has said so\r\non the phone", "1").expect(t, http.StatusSeeOther, "")
	w.becomes(key, "completed")
	after := d.show(l.ID)
	if n := len(after.Audit); n != 2 || after.Audit[1].Outcome != "done" ||
		!strings.Contains(after.Audit[1].Actor, "api key ") ||
		after.Audit[1].Reason != "the PSP has said so\non the phone" {
		t.Errorf("audited is %+v", after.Audit)
	}
	if resolved := string(b.get(page).body); strings.Contains(resolved, "<textarea") {
		t.Errorf("a resolved dead letter can be decided about:\n%s", resolved)
	}
	if list := b.get("/console/dead-letters?status=resolved"); !strings.Contains(string(list.body), l.ID) {
		t.Errorf("the list of the resolved is\n%s", list.body)
	}
}

// The plan of the console changes nothing. It is carried out for the operator who has seen it, and once.
func TestSeveralDeadLettersAreDecidedInTheConsole(t *testing.T) {
	t.Parallel()
	w := setupOpen(t)
	d := w.openOps()
	var ids []string
	for range 3 {
		key := freshKey()
		w.pay(key, "pm_wrong_amount").expect(t, http.StatusAccepted, "")
		ids = append(ids, d.find("psp_contradicts_request", key).ID)
	}
	b := w.browse()
	b.signIn(resolvingKey).expect(t, http.StatusSeeOther, "")
	plan := func(form url.Values) reply { return b.send(http.MethodPost, "/console/dead-letters/plan", form) }
	for _, wrong := range []url.Values{{"action": {"not_executed"}}, {}, {"action": {"retry"}, "kind": {"x"}}} {
		plan(wrong).expect(t, http.StatusBadRequest, "")
	}
	p := plan(url.Values{"action": {"retry"}, "status": {"open"}, "kind": {"psp_contradicts_request"}, "age": {""}})
	p.expect(t, http.StatusOK, "")
	shown := string(p.body)
	token := regexp.MustCompile(`name="plan" value="([^"]*)"`).FindStringSubmatch(shown)
	keyID := regexp.MustCompile(`name="keyId" value="([^"]*)"`).FindStringSubmatch(shown)
	if token == nil || keyID == nil || strings.Count(shown, "Ask the PSP about the key again") != len(ids) {
		t.Fatalf("the plan is\n%s", shown)
	}
	run := func(by, reason string) reply {
		return b.send(http.MethodPost, "/console/dead-letters/run",
			url.Values{"plan": {token[1]}, "keyId": {by}, "reason": {reason}})
	}
	run("somebody else", "a reason").expect(t, http.StatusConflict, "")
	run(keyID[1], " ").expect(t, http.StatusBadRequest, "")
	for _, id := range ids {
		if l := d.show(id); l.Status != "open" || len(l.Audit) != 0 {
			t.Fatalf("what was refused has left a trace: %+v", l)
		}
	}
	ran := run(keyID[1], "the PSP is back")
	ran.expect(t, http.StatusOK, "")
	if !strings.Contains(string(ran.body), "3 done, 0 refused") {
		t.Errorf("the page is\n%s", ran.body)
	}
	for _, id := range ids {
		if l := d.show(id); l.Status != "resolved" || len(l.Audit) != 1 ||
			!strings.Contains(l.Audit[0].Actor, keyID[1]) || l.Audit[0].Reason != "the PSP is back" {
			t.Errorf("audited is %+v", l)
		}
	}
	run(keyID[1], "once more").expect(t, http.StatusConflict, "")
}

// What is not known is not drawn: a client that has hung up has not read its answer, and a PSP that was not read may
// have charged.
func TestPageOfAKeyInventsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it looks at a page for as long as a payment is under way")
	}
	t.Parallel()
	var way way
	gone := make(chan struct{})
	w := setupOpen(t, shared(noLookups), func(o *options) {
		o.between = func(psp http.Handler) http.Handler {
			psp = way.wrap(psp)
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost { // not before the client has hung up
					select {
					case <-gone:
					case <-r.Context().Done():
					}
				}
				psp.ServeHTTP(rw, r)
			})
		}
		// Long enough for the API to notice that the client has gone. If the owner gives up before, the webhook comes.
		o.psp = func(c *mockpsp.Config) { c.SlowDelay = 800 * time.Millisecond }
	})
	w.reconcile()
	b := w.browse()
	b.signIn(operatorKey).expect(t, http.StatusSeeOther, "")
	key := freshKey()
	ctx, hangUp := context.WithCancel(t.Context())
	go func() {
		_, _ = w.try(call{method: "POST", path: "/payments", key: key, body: order("pm_slow"), ctx: ctx})
	}()
	page := "/console/keys/acme/payments/" + key
	live := b.watch(page + "/live")
	live.until(`<span class="status in_progress"`)
	hangUp()
	close(gone)
	shown := live.until(`<span class="status completed"`, "the connection is closed")
	// It is drawn when it happened: the payment went on after that.
	at, later := strings.Index(shown, "the client hangs up"), strings.Index(shown, "→ database</b> <bdi>completed")
	if at < 0 || at > later {
		t.Errorf("the client has hung up before the payment was completed, and the page is\n%s", shown)
	}

	way.deaf.Store(true)
	shown = string(b.get(page).body)
	if !strings.Contains(shown, "was not read just now") || !strings.Contains(shown, `data-field="executed">?<`) ||
		strings.Contains(shown, "The PSP has nothing") {
		t.Errorf("the PSP does not answer, and the page is\n%s", shown)
	}
}

// The database refuses a text with a zero byte, and one that is not UTF-8. No key has such a name. It must not be asked
// about in the one query for the pages of all keys: that query would fail for all of them.
func TestKeyThatTheDatabaseCannotNameIsNoKey(t *testing.T) {
	t.Parallel()
	b := setup(t).browse()
	b.http.Timeout = patience // a stream has no end
	b.signIn(operatorKey).expect(t, http.StatusSeeOther, "")
	for _, page := range []string{"/console/keys/acme/payments/%00", "/console/keys/acme/payments/%ff",
		"/console/keys/%00/payments/key", "/console/keys/%c3%28/refunds/key"} {
		for _, part := range []string{"", "/live", "/picture.svg", "/picture.txt"} {
			if r := b.get(page + part); r.status != http.StatusNotFound {
				t.Errorf("%s is %d", page+part, r.status)
			}
		}
	}
}

// A session that somebody has copied, from a shared browser or a log of a proxy, is worth nothing after its owner has
// signed out. It is the same session in every text that base64 reads as the same bytes.
// A proxy that rewrites Host makes the form look like one of another site. The page must say what to set.
func TestSignInBehindAProxyThatRewritesHostIsExplained(t *testing.T) {
	t.Parallel()
	b := setup(t).browse()
	form := url.Values{"key": {"any"}, "next": {"/console/"}}
	r := b.send(http.MethodPost, "/console/sign-in", form, "Sec-Fetch-Site", "", "Origin", "http://console.example")
	if r.status != http.StatusForbidden || !strings.Contains(string(r.body), "must pass the header Host on") ||
		!strings.Contains(string(r.body), "</html>") {
		t.Fatalf("answered %d %s", r.status, r.body)
	}
}

func TestSignedOutSessionIsOver(t *testing.T) {
	t.Parallel()
	b := setup(t).browse()
	r := b.signIn(operatorKey)
	r.expect(t, http.StatusSeeOther, "")
	copied := r.header.Get("Set-Cookie")
	name, value, _ := strings.Cut(strings.Split(copied, ";")[0], "=")
	other := b.signIn(operatorKey)
	other.expect(t, http.StatusSeeOther, "")
	kept := strings.Split(other.header.Get("Set-Cookie"), ";")[0]
	b.http.Jar = nil
	reads := func(cookie string) int { return b.send(http.MethodGet, "/console/", nil, "Cookie", cookie).status }
	if got := reads(name + "=" + value); got != http.StatusOK {
		t.Fatalf("the session reads %d", got)
	}
	b.send(http.MethodPost, "/console/sign-out", url.Values{}, "Cookie", name+"="+value).
		expect(t, http.StatusSeeOther, "")
	for _, last := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
		if got := reads(name + "=" + value[:len(value)-1] + string(last)); got != http.StatusSeeOther {
			t.Fatalf("the session that is over, with %c at its end, reads %d", last, got)
		}
	}
	if got := reads(kept); got != http.StatusOK {
		t.Errorf("another session of the same operator reads %d", got)
	}
}

// An address of the operator's API that is opened in a browser leads to the same page of the console. A program gets
// the API's answer.
func TestBrowserIsLedFromTheOperatorsAPIToTheConsole(t *testing.T) {
	t.Parallel()
	b := setupOpen(t).browse()
	html := []string{"Accept", "text/html,application/xhtml+xml,*/*;q=0.8"}
	for from, to := range map[string]string{
		"/operator/summary":                      "/console/",
		"/operator/dead-letters?status=resolved": "/console/dead-letters?status=resolved",
		"/operator/payments":                     "/console/payments",
	} {
		r := b.send(http.MethodGet, from, nil, html...)
		if r.status != http.StatusSeeOther || r.header.Get("Location") != to {
			t.Errorf("%s leads to %d %s, want %s", from, r.status, r.header.Get("Location"), to)
		}
		b.get(from).expect(t, http.StatusUnauthorized, "unauthenticated")
		sent := append(slices.Clone(html), "Authorization", "Bearer "+operatorKey)
		b.send(http.MethodGet, from, nil, sent...).expect(t, http.StatusOK, "")
	}
	// The API has no such page, but the console has.
	r := b.send(http.MethodGet, "/operator/payments/pay_1", nil, html...)
	if r.header.Get("Location") != "/console/payments/pay_1" {
		t.Errorf("the payment leads to %d %s", r.status, r.header.Get("Location"))
	}
	b.get("/operator/payments/pay_1").expect(t, http.StatusNotFound, "not_found")
}

// The account and the day are in the address, so a day without lines can be asked for. The word of the PSP for a line
// is shown as a text.
func TestConsoleShowsBothBooksOfADay(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`INSERT INTO statement_sums (account, day, currency, object, type, others, lines, theirs_minor, ours_minor,
		ours, fee_minor, net_minor) VALUES
		('acme', '2026-11-20', 'USD', 'charge', '', false, 2, 24000, 12000, 1, 756, 23244),
		('acme', '2026-11-20', 'KWD', '', '<b>fee</b>', false, 1, 0, 0, 0, 0, -99999999999999999999)`)
	w.exec(`INSERT INTO booked_lines (account, day, line, line_id, type, object, psp_id, fee_minor, net_minor,
		balance_currency, booked_at) VALUES
		('acme', '2026-11-20', 1, 'l1', 'payout', 'payout', 'po_1', 0, -5000, 'USD', now())`)
	paid := w.pay(freshKey(), "pm_ok").text(t, "paymentId")
	w.exec(`INSERT INTO booked_lines (account, day, line, line_id, type, object, psp_id, payment, fee_minor, net_minor,
		balance_currency, booked_at) SELECT 'acme', '2026-11-20', 2, 'l2', 'charge', 'charge', 'ch_1', id, 378, 11622,
		'USD', now() FROM payments`)
	w.exec(`INSERT INTO paid_lines VALUES ('acme', 'po_2', 'l2')`)
	b := w.browse()
	b.signIn(operatorKey)
	page := string(b.get("/console/payments/" + paid).body)
	if !strings.Contains(page, ">3.78 USD<") || !strings.Contains(page, "po_2") ||
		strings.Contains(page, "oldest lines") {
		t.Errorf("the payment has no line, or not all of them\n%s", page)
	}
	w.exec(`INSERT INTO booked_lines (account, day, line, line_id, type, object, psp_id, payment, fee_minor, net_minor,
		balance_currency, booked_at) SELECT 'acme', '2026-11-20', 2 + n, 'l' || n, 'hold', '', '', id, 0, 1, 'USD', now()
		FROM payments, generate_series(1, 100) AS n`)
	page = string(b.get("/console/payments/" + paid).body)
	if strings.Count(page, ">hold<") != 99 || !strings.Contains(page, "These are the oldest lines") {
		t.Errorf("the page does not say that there are more lines\n%s", page)
	}
	body := string(b.get("/console/books?account=acme&day=2026-11-20").body)
	for _, want := range []string{">240.00<", ">120.00<", ">7.56<", ">232.44<", "&lt;b&gt;fee&lt;/b&gt; (unknown type)",
		">-99999999999999999999<", ">net<", "po_1</bdi> of 50.00 USD: the PSP has not told which lines it has paid"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s\n%s", want, body)
		}
	}
	for path, want := range map[string]string{"": "Account at the PSP",
		"?account=acme&day=2026-11-21":   "No line of this day",
		"?account=nobody&day=2026-11-20": "No line of this day", "?account=acme&day=x": "day must be a day such as"} {
		if body := string(b.get("/console/books" + path).body); !strings.Contains(body, want) {
			t.Errorf("%s lacks %s\n%s", path, want, body)
		}
	}
}
