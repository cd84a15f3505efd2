package psp

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"payonce/demo/mockpsp"
	"payonce/internal/gateway"
	"payonce/test/wait"
)

// Every client and server of these tests ends with its test.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is a limit that no test reaches.
const patience = time.Minute

// clock is the time of both sides. It stands still until a test moves it.
type clock struct{ nanos atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.nanos.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

// today is when a story begins.
func today() time.Time { return time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC) }

// due is how long what happens later takes.
const due = time.Hour

// world is a mock PSP with its ledger, and a client of one dialect.
type world struct {
	t       *testing.T
	dialect *Dialect
	clock   *clock
	wire    *wire
	inbox   *inbox
	client  gateway.PSP
	path    string // of the ledger's file
	seed    uint64 // of chance

	mock *mock
}

// mock is a provider that runs.
type mock struct {
	shared  *mockpsp.Server // has the ledger and the back doors
	handler http.Handler    // speaks the provider's wire format
	due     func() int      // how much is still to happen by itself
	close   func() error
}

// setup starts a mock and a client. Nothing is late, slow or due until the clock moves.
func setup(t *testing.T, d *Dialect) *world {
	t.Helper()
	return setupSeeded(t, d, 1)
}

// setupSeeded has chance pick the faults that the seed leads to.
func setupSeeded(t *testing.T, d *Dialect, seed uint64) *world {
	t.Helper()
	w := &world{t: t, dialect: d, clock: &clock{}, path: filepath.Join(t.TempDir(), "ledger.jsonl"), seed: seed}
	w.clock.nanos.Store(today().UnixNano())
	w.wire = openWire(t, d.StepOf)
	w.inbox = openInbox(t, w)
	w.start()
	t.Cleanup(w.stop)
	w.client = w.newClient(patience)
	return w
}

// newClient makes a client that waits this long for an answer. It has no connection yet.
func (w *world) newClient(total time.Duration) gateway.PSP {
	w.t.Helper()
	return w.clientAt(w.wire.url(), w.dialect.Secrets[:1], total)
}

func (w *world) clientAt(url string, secrets []string, total time.Duration) gateway.PSP {
	w.t.Helper()
	l := gateway.DefaultLimits()
	l.Dial, l.Total, l.Stall, l.BreakerFailures = patience, total, total, 1000
	client, err := w.dialect.Client(url, secrets, l, w.clock.now)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	return client
}

// start starts the mock over the ledger's file. What is due by now happens at once.
func (w *world) start() {
	w.t.Helper()
	psp := mockpsp.DefaultConfig()
	psp.LedgerPath, psp.Secret, psp.Now = w.path, apiSecret, w.clock.now
	psp.SlowDelay, psp.HangLimit, psp.LateDelay = time.Millisecond, time.Millisecond, due
	psp.WebhookDelay, psp.WebhookExtraDelay, psp.WebhookSchedule = 0, time.Millisecond, nil
	psp.WebhookTimeout, psp.Rand = patience, rand.New(rand.NewPCG(w.seed, 2))
	started, err := w.dialect.Start(psp, w.inbox.server.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mock = started
	w.wire.connect(started.handler)
}

func (w *world) stop() {
	w.t.Helper()
	if err := w.mock.close(); err != nil {
		w.t.Error(err)
	}
}

// admin calls a back door of the mock. They are the same for both dialects, like the ledger.
func (w *world) admin(method, path, body string) string {
	w.t.Helper()
	answered := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(w.t.Context(), method, path, strings.NewReader(body))
	w.mock.shared.ServeHTTP(answered, req)
	if answered.Code != http.StatusOK {
		w.t.Fatalf("%s %s: %d %s", method, path, answered.Code, answered.Body)
	}
	return answered.Body.String()
}

func read[T any](t *testing.T, text string) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// rates sets the faults that chance picks, or with "" none.
func (w *world) rates(body string) {
	w.t.Helper()
	if body == "" {
		none, err := json.Marshal(map[string]struct{}{"rates": {}, "webhooks": {}, w.dialect.Rates: {}})
		if err != nil {
			w.t.Fatal(err)
		}
		body = string(none)
	}
	w.admin(http.MethodPut, "/_faults", body)
}

// entry is a movement in the PSP's ledger.
type entry struct {
	gateway.Record
	fault string
}

// moved is also true of a refund that has come back.
func (e entry) moved() bool { return e.Executed() || e.Status == "failed" }

// ledger is what has really happened, oldest first, in all accounts.
func (w *world) ledger() (entries []entry) {
	w.t.Helper()
	said := read[map[string][]map[string]any](w.t, w.admin(http.MethodGet, "/_ledger", ""))
	text := func(e map[string]any, name string) string {
		s, _ := e[name].(string)
		return s
	}
	for _, object := range []string{"charges", "refunds"} {
		for _, e := range said[object] {
			minor, _ := e["amountCents"].(float64)
			created, err := gateway.ParseTime(text(e, "createdAt"))
			if err != nil {
				w.t.Fatal(err)
			}
			entries = append(entries, entry{gateway.Record{
				Object: gateway.Object(text(e, "object")), ID: text(e, "id"), Account: text(e, "account"),
				Key: text(e, "idempotencyKey"), Reference: text(e, "reference"), ChargeID: text(e, "chargeId"),
				AmountMinor: int64(minor), Currency: text(e, "currency"), Status: text(e, "status"),
				DeclineCode: text(e, "declineCode"), Created: created,
			}, text(e, "fault")})
		}
	}
	return entries
}

// awaitWebhooks waits until every webhook has ended.
func (w *world) awaitWebhooks() {
	w.t.Helper()
	type counts struct {
		Pending int     `json:"pending"`
		Dialect *counts `json:"dialect"`
	}
	wait.Until(w.t, "the webhooks are sent", func() bool {
		c := read[counts](w.t, w.admin(http.MethodGet, "/_webhooks", ""))
		return c.Pending == 0 && (c.Dialect == nil || c.Dialect.Pending == 0)
	})
}

// later moves the clock past everything that is due, and waits until nothing is due any more. The mock starts again
// over its file, because its timers do not know the clock.
func (w *world) later() {
	w.t.Helper()
	w.awaitWebhooks() // a webhook that is signed before the clock moves would be stale
	w.stop()
	w.clock.advance(2 * due)
	w.start()
	wait.Until(w.t, "everything that was due has happened", func() bool { return w.mock.due() == 0 })
	w.awaitWebhooks()
}

// inbox receives webhooks, and gives them to the client at once.
type inbox struct {
	server *httptest.Server

	mu   sync.Mutex
	mail []mail
}

// mail is a webhook that has arrived, and what the client says of it.
type mail struct {
	header   http.Header
	body     []byte
	delivery gateway.Delivery
	refused  error // by VerifyEvent
	event    gateway.Event
	err      error // of ParseEvent
}

func openInbox(t *testing.T, w *world) *inbox {
	t.Helper()
	in := &inbox{}
	client := w.newClient(patience) // of its own, because a row may change the world's
	in.server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		m := w.open(client, r.Header.Clone(), body)
		in.mu.Lock()
		in.mail = append(in.mail, m)
		in.mu.Unlock()
		if m.refused != nil {
			out.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(in.server.Close)
	return in
}

// open has a client verify and read a webhook.
func (w *world) open(client gateway.PSP, header http.Header, body []byte) mail {
	m := mail{header: header, body: body}
	if m.delivery, m.refused = client.VerifyEvent(header, body); m.refused == nil {
		m.event, m.err = client.ParseEvent(body)
	}
	return m
}

// received are all webhooks so far, once all have been sent.
func (w *world) received() []mail {
	w.t.Helper()
	w.awaitWebhooks()
	w.inbox.mu.Lock()
	defer w.inbox.mu.Unlock()
	return slices.Clone(w.inbox.mail)
}
