package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/demo/mockpsp"
	"payonce/internal/app"
	"payonce/internal/config"
	"payonce/internal/httpapi"
	"payonce/internal/postgres"
	"payonce/internal/tenants"
	"payonce/test/contract"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

func TestMain(m *testing.M) {
	if os.Getenv(asAPI) != "" {
		serveAsAPI()
	}
	pgtest.Main(m)
}

const (
	acmeKey      = "test-acme-key"
	readonlyKey  = "test-acme-readonly-key"
	globexKey    = "test-globex-key"
	operatorKey  = "test-operator-key"
	resolvingKey = "test-resolving-key" // may resolve dead letters, too
	pspSecret    = "test-psp-secret"

	// patience bounds every wait for an event. It is generous: reaching it is a failure, not a measurement.
	patience = time.Minute
)

// world is everything that one test needs, and nothing that another one has.
// maxConnections are more than any test opens.
const maxConnections = 10_000

type world struct {
	t    testing.TB
	api  *httptest.Server
	own  config.API // the API's settings
	app  *app.API
	psp  *httptest.Server
	mock *mockpsp.Server
	// stripe is the mock PSP in Stripe's dialect, or nil.
	stripe http.Handler
	db     *pgxpool.Pool // straight to the database, whatever the API goes through, and as superuser
	logs   *lockedBuffer
	http   *http.Client
}

type options struct {
	settings func(*config.API)
	// between is what stands between the API and the PSP, if anything.
	between func(psp http.Handler) http.Handler
	// database is the connection string that the API gets for the real one.
	database func(url string) string
	psp      func(*mockpsp.Config)
	webhooks bool   // whether the PSP tells the API what it has done
	stripe   bool   // whether the tenants are at Stripe: at the mock PSP, in Stripe's dialect
	url      string // a database that exists, instead of a fresh one
}

func setup(t testing.TB, with ...func(*options)) *world {
	t.Helper()
	o := options{
		settings: func(*config.API) {}, between: func(h http.Handler) http.Handler { return h },
		database: func(url string) string { return url }, psp: func(*mockpsp.Config) {},
	}
	for _, set := range with {
		set(&o)
	}
	w := &world{t: t, logs: &lockedBuffer{}}
	if o.url == "" {
		o.url = pgtest.Seeded(t, fmt.Sprint("tenants, at Stripe: ", o.stripe), func(url string) {
			seedTenants(t, url, o.stripe)
		})
	} else {
		seedTenants(t, o.url, o.stripe)
	}
	var err error
	if w.db, err = pgxpool.New(context.Background(), o.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.db.Close)

	mock := mockpsp.DefaultConfig()
	mock.Secret, mock.SlowDelay, mock.HangLimit, mock.LateDelay = pspSecret, 300*time.Millisecond, patience,
		200*time.Millisecond
	w.api = httptest.NewUnstartedServer(nil) // its address is known to the PSP before there is an API
	if o.webhooks {
		mock.WebhookURL, mock.WebhookDelay = "http://"+w.api.Listener.Addr().String()+"/webhooks/psp", webhookDelay()
	}
	o.psp(&mock)
	if w.mock, err = mockpsp.New(mock); err != nil {
		t.Fatal(err)
	}
	w.psp = httptest.NewServer(o.between(w.mock))
	t.Cleanup(func() {
		if err := w.mock.Close(); err != nil {
			t.Errorf("close mock PSP: %v", err)
		}
		w.psp.CloseClientConnections()
		w.psp.Close()
	})

	w.own = testSettings(t, o.database(pgtest.As(t, o.url, postgres.API)), w.psp.URL)
	if o.stripe {
		w.speakStripe(o)
	}
	if o.webhooks {
		w.own.WebhookSecrets = []string{mock.WebhookSecret}
	}
	o.settings(&w.own)
	if w.app, err = app.NewAPI(t.Context(), w.own,
		slog.New(slog.NewJSONHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))); err != nil {
		t.Fatal(err)
	}
	w.api.Config.Handler = w.app.Public
	w.api.Listener = httpapi.LimitConnections(w.api.Listener, w.api.Config, maxConnections,
		slog.New(slog.DiscardHandler), time.Now)
	w.api.Start()
	t.Cleanup(func() {
		w.api.CloseClientConnections()
		w.api.Close()
		w.app.Close()
	})
	w.http = &http.Client{Transport: checked(t, &http.Transport{MaxIdleConnsPerHost: 256}), Timeout: patience}
	return w
}

// webhookDelay is how long an owner has to write down that its outcome is lost, before it hears of it.
func webhookDelay() time.Duration { return pgtest.ByServers(20*time.Millisecond, 500*time.Millisecond) }

// testSettings are the defaults, with times short enough for tests and limits that no test meets by accident.
func testSettings(t testing.TB, databaseURL, pspURL string) config.API {
	t.Helper()
	env := map[string]string{
		"DATABASE_URL": databaseURL, "PSP_URL": pspURL, "PSP_SECRET": pspSecret,
		"PUBLIC_URL": "http://payonce.test", "DB_ACQUIRE_TIMEOUT": "30s",
		"DB_STATEMENT_TIMEOUT": "30s",
	}
	settings, err := config.Load(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

func seedTenants(t testing.TB, url string, atStripe bool) {
	t.Helper()
	ctx := t.Context()
	db, err := postgres.Open(ctx, url, pgtest.Limits())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r := tenants.NewRegistry(db, app.NewID)
	for _, k := range []struct {
		tenant, secret string
		may            []tenants.Permission
	}{
		{"acme", acmeKey, []tenants.Permission{tenants.PaymentsRead, tenants.PaymentsWrite}},
		{"acme", readonlyKey, []tenants.Permission{tenants.PaymentsRead}},
		{"globex", globexKey, []tenants.Permission{tenants.PaymentsRead, tenants.PaymentsWrite}},
		{"", operatorKey, []tenants.Permission{tenants.OpsRead}},
		{"", resolvingKey, []tenants.Permission{tenants.OpsRead, tenants.OpsResolve}},
	} {
		if k.tenant != "" {
			n := tenants.Tenant{ID: k.tenant, PSP: tenants.Native, PSPAccount: k.tenant,
				RequestsPerSecond: tenants.DefaultRate, Burst: tenants.DefaultBurst}
			if atStripe {
				n.PSP, n.PSPAccount = tenants.Stripe, "acct_"+k.tenant
			}
			if err := r.Create(ctx, n); err != nil && !errors.Is(err, tenants.ErrTenantExists) {
				t.Fatal(err)
			}
		}
		if _, err := r.AddKey(ctx, k.tenant, k.secret, "", k.may); err != nil &&
			!errors.Is(err, tenants.ErrSecretInUse) {
			t.Fatal(err)
		}
	}
	// Rate limits have a test of their own.
	pgtest.Exec(t, db.Pool(), "UPDATE tenants SET requests_per_second = 100000, request_burst = 100000")
}

// call is one request. Zero members mean the ordinary: acme's key, JSON.
type call struct {
	method, path string
	as           string // API key; "-" for none
	key          string // Idempotency-Key; empty for none
	body         string
	header       http.Header
	ctx          context.Context
}

// reply is a response, read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (w *world) do(c call) reply {
	w.t.Helper()
	r, err := w.try(c)
	if err != nil {
		w.t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	return r
}

func (w *world) try(c call) (reply, error) {
	if c.ctx == nil {
		c.ctx = context.Background()
	}
	if c.as == "" {
		c.as = acmeKey
	}
	var body io.Reader
	if c.body != "" {
		body = strings.NewReader(c.body)
	}
	req, err := http.NewRequestWithContext(c.ctx, c.method, w.api.URL+c.path, body)
	if err != nil {
		return reply{}, err
	}
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.as != "-" {
		req.Header.Set("Authorization", "Bearer "+c.as)
	}
	if c.key != "" {
		req.Header.Set("Idempotency-Key", c.key)
	}
	for name, values := range c.header {
		req.Header[name] = values
	}
	res, err := w.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if res.Close { // The client of net/http takes the header away.
		res.Header.Set("Connection", "close")
	}
	return reply{status: res.StatusCode, header: res.Header, body: raw}, err
}

// pay posts a payment of 120 dollars.
func (w *world) pay(key, paymentMethod string) reply {
	w.t.Helper()
	return w.do(call{method: "POST", path: "/payments", key: key, body: order(paymentMethod)})
}

func order(paymentMethod string) string {
	return fmt.Sprintf(`{"customerId":"cus-1","amountCents":12000,"currency":"USD","paymentMethod":%q}`, paymentMethod)
}

func freshKey() string { return uuid.Must(uuid.NewV7()).String() }

// member reads one member of a JSON object.
func (r reply) member(t testing.TB, name string) any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(r.body, &object); err != nil {
		t.Fatalf("body is no object: %v\n%s", err, r.body)
	}
	return object[name]
}

// undated is the body of a resource without the time of its last change: an answer that is stored does not have it.
func (r reply) undated() []byte {
	return regexp.MustCompile(`,"updatedAt":"[^"]*"`).ReplaceAll(r.body, nil)
}

func (r reply) text(t testing.TB, name string) string {
	t.Helper()
	s, _ := r.member(t, name).(string)
	return s
}

// expect checks the status and, where it is given, the code of the problem.
func (r reply) expect(t testing.TB, status int, code string) {
	t.Helper()
	if r.status != status {
		t.Fatalf("status %d, want %d\n%s", r.status, status, r.body)
	}
	if code != "" && r.text(t, "code") != code {
		t.Fatalf("code %q, want %q\n%s", r.text(t, "code"), code, r.body)
	}
}

// same checks that a response is another one again, to the byte.
func (r reply) same(t testing.TB, first reply) {
	t.Helper()
	if r.status != first.status || !bytes.Equal(r.body, first.body) {
		t.Fatalf("replay differs:\n%d %s\n%d %s", first.status, first.body, r.status, r.body)
	}
	for _, name := range []string{"Content-Type", "Location", "Idempotency-Key", "Idempotency-Key-Expires"} {
		if r.header.Get(name) != first.header.Get(name) {
			t.Fatalf("replay differs in %s: %q, then %q", name, first.header.Get(name), r.header.Get(name))
		}
	}
}

// ledger is what the PSP has really done.
type ledger struct {
	Charges []struct {
		ID, Account, IdempotencyKey, Reference, Currency, Status string
		AmountCents                                              int64
	} `json:"charges"`
	Refunds []struct {
		ID, Account, IdempotencyKey, Reference, Currency, Status string
		AmountCents                                              int64
	} `json:"refunds"`
}

func (w *world) ledger(account, key string) ledger {
	w.t.Helper()
	var l ledger
	w.askPSP(fmt.Sprintf("/_ledger?account=%s&idempotencyKey=%s", account, key), &l)
	return l
}

// pspRequests counts what the PSP has been asked under a key.
func (w *world) pspRequests(account, key string) int {
	w.t.Helper()
	var seen struct {
		Count int `json:"count"`
	}
	w.askPSP(fmt.Sprintf("/_requests?account=%s&idempotencyKey=%s", account, key), &seen)
	return seen.Count
}

func (w *world) askPSP(path string, into any) {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.mock.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	if err := json.Unmarshal(rec.Body.Bytes(), into, json.MatchCaseInsensitiveNames(true)); err != nil ||
		rec.Code != http.StatusOK {
		w.t.Fatalf("ask the PSP %s: %d %v\n%s", path, rec.Code, err, rec.Body)
	}
}

// keyRow is a key as the database has it.
type keyRow struct {
	Status     string
	Attempt    int
	Generation int
}

func (w *world) keyRow(key string) keyRow {
	w.t.Helper()
	var k keyRow
	err := w.db.QueryRow(w.t.Context(), "SELECT status, attempt, generation FROM idempotency_keys WHERE key = $1", key).
		Scan(&k.Status, &k.Attempt, &k.Generation)
	if err != nil {
		w.t.Fatalf("read key: %v", err)
	}
	return k
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	pgtest.Exec(w.t, w.db, sql, args...)
}

func (w *world) count(sql string, args ...any) int {
	w.t.Helper()
	return pgtest.Value[int](w.t, w.db, sql, args...)
}

// eventually asks until the answer is yes.
var eventually = wait.Until

// checked holds every exchange against openapi.yaml.
func checked(t testing.TB, base http.RoundTripper) http.RoundTripper {
	return contract.Transport(t, base)
}

// lockedBuffer collects what several goroutines log.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
