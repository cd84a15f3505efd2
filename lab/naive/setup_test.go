package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"payonce/demo/mockpsp"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	pgtest.Main(m)
}

const (
	patience = time.Minute
	aKey     = "order-42-attempt-1"
	aBody    = `{"customerId":"cus-1","amountCents":12000,"currency":"KRW","metadata":{"order":"42"}}`
)

func paying(method string) string {
	return strings.Replace(aBody, `"currency"`, `"paymentMethod":"`+method+`","currency"`, 1)
}

// world is the program as main would run it, on a real PostgreSQL, with the real mock PSP.
type world struct {
	t           *testing.T
	environment map[string]string
	base        string // of the public API
	operator    string
	psp         *heldPSP
	ended       func() // Ctrl-C, once
}

// setup runs the program in this process. Edits change its environment.
func setup(t *testing.T, edits ...func(map[string]string)) *world {
	t.Helper()
	w := prepare(t, edits...)
	w.run()
	w.psp.open(t, w.base+"/webhooks/psp")
	return w
}

// prepare makes everything but the program.
func prepare(t *testing.T, edits ...func(map[string]string)) *world {
	t.Helper()
	psp := newHeldPSP(t)
	w := &world{t: t, psp: psp, environment: map[string]string{
		"DATABASE_URL": pgtest.NewURL(t), "HTTP_ADDR": "127.0.0.1:0", "OPERATOR_ADDR": "127.0.0.1:0",
		"PSP_URL": psp.server.URL, "PSP_SECRET": mockpsp.DefaultConfig().Secret, "PSP_TIMEOUT": patience.String(),
		"API_KEYS": "demo-acme-key=acme,demo-globex-key=globex",
	}}
	for _, edit := range edits {
		edit(w.environment)
	}
	return w
}

func (w *world) run() {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	out, in := io.Pipe()
	var logged bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, nil, func(name string) string { return w.environment[name] }, in, &logged)
		in.CloseWithError(err)
		ended <- err
	}()
	w.listen(out)
	w.ended = sync.OnceFunc(func() {
		stop()
		if err := receive(w.t, "the end of the program", ended); err != nil {
			w.t.Errorf("stop: %v", err)
		}
		if strings.Contains(logged.String(), "cus-1") || strings.Contains(logged.String(), aKey) {
			w.t.Errorf("the log holds what a client has sent:\n%s", &logged)
		}
	})
	w.t.Cleanup(w.ended)
}

// listen reads where the program listens.
func (w *world) listen(stdout io.Reader) {
	w.t.Helper()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		w.t.Fatalf("start: %v", err)
	}
	public, operator, _ := strings.Cut(strings.TrimSpace(line), ", operator side on ")
	w.base, w.operator = strings.TrimPrefix(public, "listening on "), operator
}

// answered is how a request ended.
type answered struct {
	status int
	header http.Header
	body   string
	err    error
}

func (a answered) want(t *testing.T, status int) answered {
	t.Helper()
	if a.err != nil || a.status != status {
		t.Fatalf("answered %d %s (error %v), want %d", a.status, a.body, a.err, status)
	}
	return a
}

func (w *world) post(key, body string) answered { return w.postIn(w.t.Context(), key, body) }

func (w *world) postIn(ctx context.Context, key, body string) answered {
	return send(ctx, http.MethodPost, w.base+"/payments", body, map[string]string{
		"Authorization": "Bearer demo-acme-key", "Content-Type": "application/json", "Idempotency-Key": key,
	})
}

func (w *world) get(path string) answered {
	return send(w.t.Context(), http.MethodGet, w.base+path, "",
		map[string]string{"Authorization": "Bearer demo-acme-key"})
}

// postInBackground is for requests that are held, cancelled or cut off.
func (w *world) postInBackground(ctx context.Context) <-chan answered {
	done := make(chan answered, 1)
	go func() { done <- w.postIn(ctx, aKey, aBody) }()
	return done
}

func send(ctx context.Context, method, url, body string, header map[string]string) answered {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answered{err: err}
	}
	req.GetBody = nil // a transport that sends again by itself would spoil the count
	for name, value := range header {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answered{err: err}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answered{res.StatusCode, res.Header, string(text), err}
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var value T
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("read %s: %v", text, err)
	}
	return value
}

func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// heldPSP is the mock PSP behind a door that can be held shut between the charge and its answer.
type heldPSP struct {
	t       *testing.T
	server  *httptest.Server
	mock    atomic.Pointer[mockpsp.Server]
	holding atomic.Bool
	charged chan struct{} // each charge that is held
	gone    chan struct{} // each of them whose caller has hung up
	release chan struct{}
}

func newHeldPSP(t *testing.T) *heldPSP {
	p := &heldPSP{t: t, charged: make(chan struct{}, 9), gone: make(chan struct{}, 9), release: make(chan struct{})}
	p.server = httptest.NewServer(p)
	t.Cleanup(func() {
		if mock := p.mock.Load(); mock != nil {
			if err := mock.Close(); err != nil {
				t.Error(err)
			}
		}
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// open starts the mock, which tells webhookURL of its charges.
func (p *heldPSP) open(t *testing.T, webhookURL string) {
	t.Helper()
	config := mockpsp.DefaultConfig()
	config.WebhookURL, config.WebhookDelay = webhookURL, 0
	mock, err := mockpsp.New(config)
	if err != nil {
		t.Fatal(err)
	}
	p.mock.Store(mock)
}

func (p *heldPSP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !p.holding.Load() {
		p.mock.Load().ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	p.mock.Load().ServeHTTP(answer, r)
	p.charged <- struct{}{}
	select {
	case <-r.Context().Done():
		p.gone <- struct{}{}
		return
	case <-p.release:
	case <-p.t.Context().Done():
	}
	w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// movement is a charge as the PSP's ledger has it.
type movement struct {
	ID             string
	IdempotencyKey string
	Reference      string
	AmountCents    int64
	Status         string
}

// charges are the successful ones under a key of a client, which the program sends as the reference.
func (p *heldPSP) charges(key string) []movement {
	p.t.Helper()
	res := send(p.t.Context(), http.MethodGet, p.server.URL+"/_ledger", "", nil).want(p.t, http.StatusOK)
	var found []movement
	for _, m := range decode[struct{ Charges []movement }](p.t, res.body).Charges {
		if m.Reference == key && m.Status == "succeeded" {
			found = append(found, m)
		}
	}
	return found
}

func (p *heldPSP) wantCharges(key string, want int) []movement {
	p.t.Helper()
	found := p.charges(key)
	if len(found) != want {
		p.t.Fatalf("%d charges of %s in the PSP's ledger, want %d: %+v", len(found), key, want, found)
	}
	return found
}
