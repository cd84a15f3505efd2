package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/httpapi"
	"payonce/internal/problem"
	"payonce/internal/telemetry"
	"payonce/internal/webhooks"
	"payonce/test/contract"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	webhookSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	otherSecret   = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="
	eventBody     = `{"type":"charge.succeeded", "data":{"id":"ch_canary"}}` + "\n"
	tolerance     = 5 * time.Minute
)

// counter is where webhooks come in, on a database of the test's own, at a time that stands still.
type counter struct {
	t       *testing.T
	api     *httpapi.API
	server  *httptest.Server
	http    *http.Client
	pool    *pgxpool.Pool // straight to the tables
	proxy   *pgproxy.Proxy
	now     time.Time
	logs    *safeBuffer
	metrics *prometheus.Registry
	inbox   *webhooks.Inbox
}

func setup(t *testing.T) *counter {
	t.Helper()
	pool := pgtest.New(t)
	c := &counter{
		t: t, pool: pool, proxy: pgproxy.Start(t, pool.Config().ConnString()),
		now: time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC), logs: &safeBuffer{},
	}
	db := pgtest.Open(t, c.proxy.URL(), pgtest.Limits())
	c.inbox = webhooks.New(db, webhooks.Job{Kind: "webhook", Queue: "webhook", MaxAttempts: 20})
	psp, err := native.New("http://psp.test", "secret", gateway.DefaultLimits(), []string{webhookSecret},
		func() time.Time { return c.now })
	if err != nil {
		t.Fatal(err)
	}
	c.serve(webhooks.NewReceiver(psp, c.inbox), nil)
	return c
}

// serve takes the webhooks of two PSPs, and counts them from zero.
func (c *counter) serve(psp, stripe *webhooks.Receiver) {
	c.metrics = prometheus.NewRegistry()
	c.api = httpapi.New(httpapi.Config{
		Webhooks:  map[string]*webhooks.Receiver{"psp": psp, "stripe": stripe},
		Metrics:   telemetry.NewMetrics(c.metrics),
		Log:       slog.New(slog.NewJSONHandler(c.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		PublicURL: "http://payonce.test", RequestID: func() string { return "req_1" }, Now: time.Now,
	})
	c.server = httptest.NewUnstartedServer(nil)
	c.server.Config = httpapi.NewServer(c.api, time.Minute, slog.New(slog.DiscardHandler))
	c.server.Start()
	c.t.Cleanup(c.server.Close)
	c.http = &http.Client{Transport: contract.Transport(c.t, &http.Transport{}), Timeout: 20 * time.Second}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// signed is a webhook as the PSP sends it, at the counter's time.
func (c *counter) signed(id, body string) *http.Request {
	return c.signedBy(webhookSecret, id, body, c.now)
}

func (c *counter) signedBy(secret, id, body string, at time.Time) *http.Request {
	c.t.Helper()
	w, err := reference.NewWebhook(secret)
	if err != nil {
		c.t.Fatal(err)
	}
	signature, err := w.Sign(id, at, []byte(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.server.URL+"/webhooks/psp",
		strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Webhook-Id", id)
	r.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Header.Set("Webhook-Signature", signature)
	return r
}

type answer struct {
	status     int
	header     http.Header
	body       string
	code       problem.Code
	retryAfter string
}

func (c *counter) send(r *http.Request) answer {
	c.t.Helper()
	res, err := c.http.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answerOf(c.t, res.StatusCode, res.Header, raw)
}

func answerOf(t *testing.T, status int, header http.Header, raw []byte) answer {
	t.Helper()
	a := answer{status: status, header: header, body: string(raw), retryAfter: header.Get("Retry-After")}
	if status >= http.StatusBadRequest {
		var d problem.Document
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatalf("%d: %v\n%s", status, err, raw)
		}
		a.code = d.Code
	}
	return a
}

// expect sends a webhook, and checks the answer and what the metrics call it.
func (c *counter) expect(r *http.Request, status int, code problem.Code, result string) answer {
	c.t.Helper()
	before := c.counted(result)
	a := c.send(r)
	if a.status != status || a.code != code {
		c.t.Fatalf("answered %d %s, want %d %s\n%s", a.status, a.code, status, code, a.body)
	}
	if n := c.counted(result) - before; result != "" && n != 1 {
		c.t.Errorf("counted as %s %v times", result, n)
	}
	return a
}

// counted is how many webhooks had the result, by the metrics.
func (c *counter) counted(result string) float64 {
	c.t.Helper()
	families, err := c.metrics.Gather()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "payonce_webhooks_total" && m.GetLabel()[0].GetValue() == result {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// failJobs has the database fail to write a job.
func (c *counter) failJobs() {
	c.t.Helper()
	pgtest.Exec(c.t, c.pool, `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql
		AS $$ BEGIN PERFORM 'inside'::int; END $$`)
	pgtest.Exec(c.t, c.pool, "CREATE TRIGGER fail BEFORE INSERT ON river_job EXECUTE FUNCTION fail()")
}

// want checks how many events and jobs there are.
func (c *counter) want(events, jobs int) {
	c.t.Helper()
	var e, j int
	err := c.pool.QueryRow(c.t.Context(),
		"SELECT (SELECT count(*) FROM webhook_events), (SELECT count(*) FROM river_job)").Scan(&e, &j)
	if err != nil {
		c.t.Fatal(err)
	}
	if e != events || j != jobs {
		c.t.Fatalf("%d events and %d jobs, want %d and %d", e, j, events, jobs)
	}
}

func TestGenuineWebhookIsStoredAsItCame(t *testing.T) {
	t.Parallel()
	c := setup(t)
	a := c.expect(c.signed("evt_1", eventBody), http.StatusNoContent, "", "stored")
	if a.body != "" || a.header.Get("Content-Type") != "" {
		t.Errorf("a 204 with %q, %v", a.body, a.header)
	}
	var body []byte
	var sent time.Time
	if err := c.pool.QueryRow(t.Context(), "SELECT body, sent_at FROM webhook_events WHERE id = 'evt_1'").Scan(&body,
		&sent); err != nil {
		t.Fatal(err)
	}
	if string(body) != eventBody || !sent.Equal(c.now) {
		t.Errorf("stored is %q, sent at %s", body, sent)
	}
	c.want(1, 1)
}

func TestRepeatedWebhookIsAcknowledgedAndHasNoSecondJob(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.expect(c.signed("evt_1", eventBody), http.StatusNoContent, "", "stored")
	later := c.signedBy(webhookSecret, "evt_1", eventBody, c.now.Add(time.Minute)) // the next attempt
	c.expect(later, http.StatusNoContent, "", "duplicate")
	c.want(1, 1)
}

// What a genuine webhook says is for later: what it is about may be news to us, and it must not be lost.
func TestGenuineWebhookAboutAnythingIsStored(t *testing.T) {
	t.Parallel()
	c := setup(t)
	for id, body := range map[string]string{"evt_1": "{}", "evt_2": `{"type":"payout.paid"}`,
		"evt_3": `{"type":"charge.succeeded","data":{}}`} {
		c.expect(c.signed(id, body), http.StatusNoContent, "", "stored")
	}
	c.http.Transport = &http.Transport{} // the document knows only JSON, which not everything that is signed has to be
	t.Cleanup(c.http.CloseIdleConnections)
	c.expect(c.signed("evt_4", "no JSON at all"), http.StatusNoContent, "", "stored")
	c.expect(c.signed("evt_5", ""), http.StatusNoContent, "", "stored")
	c.want(5, 5)
}

func TestWebhookThatIsNotGenuineIsNotStored(t *testing.T) {
	t.Parallel()
	c := setup(t)
	change := func(r *http.Request, name, value string) *http.Request {
		r.Header[http.CanonicalHeaderKey(name)] = []string{value}
		return r
	}
	without := func(name string) *http.Request {
		r := c.signed("evt_1", eventBody)
		r.Header.Del(name)
		return r
	}
	twice := func(name string) *http.Request {
		r := c.signed("evt_1", eventBody)
		r.Header.Add(name, r.Header.Get(name))
		return r
	}
	altered := c.signed("evt_1", eventBody)
	altered.Body, altered.GetBody = io.NopCloser(strings.NewReader(strings.Replace(eventBody, "charge", "refund", 1))),
		nil
	rightSignature := strings.TrimPrefix(c.signed("evt_1", eventBody).Header.Get("Webhook-Signature"), "v1,")
	details := map[string]string{}
	for name, row := range map[string]struct {
		request *http.Request
		result  string
	}{
		"altered":          {altered, "bad_signature"},
		"another secret":   {c.signedBy(otherSecret, "evt_1", eventBody, c.now), "bad_signature"},
		"another id":       {change(c.signed("evt_1", eventBody), "webhook-id", "evt_2"), "bad_signature"},
		"too old":          {c.signedBy(webhookSecret, "evt_1", eventBody, c.now.Add(-tolerance-time.Second)), "stale"},
		"too new":          {c.signedBy(webhookSecret, "evt_1", eventBody, c.now.Add(tolerance+time.Second)), "stale"},
		"no id":            {without("webhook-id"), "malformed"},
		"no timestamp":     {without("webhook-timestamp"), "malformed"},
		"no signature":     {without("webhook-signature"), "malformed"},
		"two ids":          {twice("webhook-id"), "malformed"},
		"two timestamps":   {twice("webhook-timestamp"), "malformed"},
		"a strange id":     {change(c.signed("evt_1", eventBody), "webhook-id", "evt 1"), "malformed"},
		"a strange moment": {change(c.signed("evt_1", eventBody), "webhook-timestamp", "now"), "malformed"},
	} {
		a := c.expect(row.request, http.StatusUnauthorized, problem.WebhookSignatureInvalid, row.result)
		for _, secret := range []string{"canary", webhookSecret[6:], rightSignature} {
			if strings.Contains(a.body, secret) {
				t.Errorf("%s: the answer says too much: %s", name, a.body)
			}
		}
		details[row.result] = a.body
	}
	if details["stale"] == details["bad_signature"] {
		t.Error("a sender whose clock is wrong is not told so")
	}
	c.want(0, 0)
}

func TestSignaturesMayComeInTwoHeaders(t *testing.T) {
	t.Parallel()
	c := setup(t)
	r := c.signedBy(otherSecret, "evt_1", eventBody, c.now)
	r.Header.Add("Webhook-Signature", c.signed("evt_1", eventBody).Header.Get("Webhook-Signature"))
	c.http.Transport = &http.Transport{} // the document knows one
	t.Cleanup(c.http.CloseIdleConnections)
	c.expect(r, http.StatusNoContent, "", "stored")
}

func TestWebhookMayHave1MiB(t *testing.T) {
	t.Parallel()
	c := setup(t)
	body := func(size int) string { return eventBody + strings.Repeat(" ", size-len(eventBody)) }
	c.expect(c.signed("evt_1", body(1<<20)), http.StatusNoContent, "", "stored")
	c.expect(c.signed("evt_2", body(1<<20+1)), http.StatusRequestEntityTooLarge, problem.BodyTooLarge, "too_large")
	c.want(1, 1)
}

func TestWebhookIsPlainJSON(t *testing.T) {
	t.Parallel()
	c := setup(t)
	as := func(contentType, encoding string) *http.Request {
		r := c.signed("evt_1", eventBody)
		r.Header["Content-Type"] = []string{contentType}
		if encoding != "" {
			r.Header.Set("Content-Encoding", encoding)
		}
		return r
	}
	for _, contentType := range []string{"", "text/plain", "application/jsonp", "application/x-www-form-urlencoded",
		"json"} {
		c.expect(as(contentType, ""), http.StatusUnsupportedMediaType, problem.UnsupportedMediaType, "malformed")
	}
	c.expect(as("application/json", "gzip"), http.StatusUnsupportedMediaType, problem.UnsupportedMediaType, "malformed")
	c.want(0, 0)
	c.expect(as("Application/JSON; charset=utf-8", ""), http.StatusNoContent, "", "stored")
}

func TestWebhookThatIsCutOffIsNotStored(t *testing.T) {
	t.Parallel()
	c := setup(t)
	r := c.signed("evt_1", eventBody)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /webhooks/psp HTTP/1.1\r\nHost: payonce.test\r\nContent-Length: %d\r\n", len(eventBody)+1)
	if err := r.Header.Write(conn); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "\r\n%s", eventBody)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	read, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(read), "HTTP/1.1 400 ") ||
		!strings.Contains(string(read), string(problem.InvalidRequest)) {
		t.Fatalf("%v\n%s", err, read)
	}
	if c.counted("malformed") != 1 {
		t.Error("not counted")
	}
	c.want(0, 0)
}

// Each of thousands of connections may send a large body, and nobody has verified it while it is being read.
// Strangers who never end a body of unknown length keep nobody out whose webhook is of the usual size.
func TestSlowStrangersKeepNoWebhookOut(t *testing.T) {
	t.Parallel()
	c := setup(t)
	for range 40 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		fmt.Fprint(conn, "POST /webhooks/psp HTTP/1.1\r\nHost: payonce.test\r\nContent-Type: application/json\r\n"+
			"Transfer-Encoding: chunked\r\n\r\n11170\r\n"+strings.Repeat(" ", 1<<16+2))
	}
	r := c.signed("evt_1", eventBody)
	r.ContentLength, r.Body = -1, io.NopCloser(strings.NewReader(eventBody)) // in chunks
	c.expect(r, http.StatusNoContent, "", "stored")
}

func TestWebhookComesAgainWhenTheStoreIsAway(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.proxy.Down()
	a := c.expect(c.signed("evt_1", eventBody), http.StatusServiceUnavailable, problem.IdempotencyStoreUnavailable,
		"store_error")
	if a.retryAfter != "2" {
		t.Errorf("Retry-After is %q", a.retryAfter)
	}
	c.expect(c.signedBy(otherSecret, "evt_1", eventBody, c.now), http.StatusUnauthorized,
		problem.WebhookSignatureInvalid, "bad_signature")
	c.proxy.Up(t)
	c.expect(c.signed("evt_1", eventBody), http.StatusNoContent, "", "stored")
	c.want(1, 1)
}

func TestFailureThatNobodyForesawIsToldWithoutItsCause(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.failJobs()
	a := c.expect(c.signed("evt_1", eventBody), http.StatusInternalServerError, problem.InternalError, "store_error")
	if strings.Contains(a.body, "inside") || !strings.Contains(c.logs.String(), "inside") || a.retryAfter == "" {
		t.Errorf("answered %s %s, logged %s", a.body, a.retryAfter, c.logs)
	}
	c.want(0, 0)
}

func TestSenderThatHangsUpBreaksNothingOff(t *testing.T) {
	t.Parallel()
	c := setup(t)
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	rec := httptest.NewRecorder()
	c.api.ServeHTTP(rec, c.signed("evt_1", eventBody).WithContext(gone))
	if rec.Code != http.StatusNoContent {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	c.want(1, 1)
}

func TestDrainingServerTakesNoWebhook(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.api.Drain()
	if a := c.expect(c.signed("evt_1", eventBody), http.StatusServiceUnavailable, problem.ShuttingDown,
		""); a.retryAfter == "" {
		t.Error("does not say when to come back")
	}
	c.want(0, 0)
}

func TestServerWithoutASecretTakesNoWebhook(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.serve(nil, nil)
	for _, r := range []*http.Request{c.signed("evt_1", eventBody), c.toStripe("t=1,v1=0", eventBody)} {
		a := c.expect(r, http.StatusServiceUnavailable, problem.WebhooksNotConfigured, "")
		if a.retryAfter != "60" {
			t.Errorf("Retry-After is %q", a.retryAfter)
		}
	}
	c.want(0, 0)
}

func TestWebhookLeavesNoSecretInTheLogs(t *testing.T) {
	t.Parallel()
	c := setup(t)
	genuine := c.signed("evt_logged", eventBody)
	forged := c.signedBy(otherSecret, "evt_logged", eventBody, c.now)
	c.expect(forged, http.StatusUnauthorized, problem.WebhookSignatureInvalid, "bad_signature")
	c.failJobs()
	c.expect(c.signed("evt_logged", eventBody), http.StatusInternalServerError, problem.InternalError, "store_error")
	c.proxy.Down()
	c.expect(c.signed("evt_logged", eventBody), http.StatusServiceUnavailable, problem.IdempotencyStoreUnavailable,
		"store_error")
	logs := c.logs.String()
	for _, secret := range []string{
		"canary", "evt_logged", webhookSecret, genuine.Header.Get("Webhook-Signature"),
		forged.Header.Get("Webhook-Signature"),
	} {
		if strings.Contains(logs, strings.TrimPrefix(secret, "v1,")) {
			t.Errorf("%q is in the logs:\n%s", secret, logs)
		}
	}
	if !strings.Contains(logs, `"route":"/webhooks/psp"`) {
		t.Errorf("the request is not in the logs:\n%s", logs)
	}
}

func TestWebhooksAreOnlyPosted(t *testing.T) {
	t.Parallel()
	c := setup(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.server.URL+"/webhooks/psp", nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := c.expect(r, http.StatusMethodNotAllowed, problem.MethodNotAllowed, ""); a.header.Get("Allow") != "POST" {
		t.Errorf("Allow is %q", a.header.Get("Allow"))
	}
}
