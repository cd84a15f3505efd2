package stripe

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"payonce/demo/mockpsp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bundle is what a test runs against. Its delays are out of the way: nothing slow, late or due, until a test says so.
type bundle struct {
	psp    mockpsp.Config
	stripe Config
}

// running is a PSP with both dialects behind real listeners.
type running struct {
	t       *testing.T
	made    bundle
	psp     *mockpsp.Server
	dialect *Server
	native  *httptest.Server
	server  *httptest.Server
	client  *http.Client
}

func setup(t *testing.T, change func(*bundle)) *running {
	t.Helper()
	b := bundle{mockpsp.DefaultConfig(), DefaultConfig()}
	b.psp.SlowDelay, b.psp.HangLimit, b.psp.LateDelay = time.Millisecond, time.Millisecond, time.Hour
	b.stripe.ActionDelay, b.stripe.SearchLag = time.Hour, 0
	if change != nil {
		change(&b)
	}
	return start(t, b)
}

// withFile keeps the ledger in a file, so that [running.restart] finds it.
func withFile(t *testing.T) func(*bundle) {
	return func(b *bundle) { b.psp.LedgerPath = filepath.Join(t.TempDir(), "ledger.jsonl") }
}

func start(t *testing.T, b bundle) *running {
	t.Helper()
	psp, err := mockpsp.New(b.psp)
	if err != nil {
		t.Fatal(err)
	}
	dialect, err := New(psp, b.stripe)
	if err != nil {
		t.Fatal(err)
	}
	p := &running{
		t: t, made: b, psp: psp, dialect: dialect, native: httptest.NewServer(psp), server: httptest.NewServer(dialect),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	t.Cleanup(p.stop)
	return p
}

func (p *running) stop() {
	p.t.Helper()
	if err := p.dialect.Close(); err != nil {
		p.t.Errorf("close dialect: %v", err)
	}
	if err := p.psp.Close(); err != nil {
		p.t.Errorf("close PSP: %v", err)
	}
	p.server.Close()
	p.native.Close()
}

// restart ends the PSP and starts another one over the same file. Nothing is written at the end, so the file is as a
// kill would leave it.
func (p *running) restart(changes ...func(*bundle)) *running {
	p.t.Helper()
	p.stop()
	for _, change := range changes {
		change(&p.made)
	}
	return start(p.t, p.made)
}

// result is how a request ended: with an answer, or with err.
type result struct {
	t      *testing.T
	status int
	header http.Header
	body   string
	err    error
}

func (r result) object() object {
	r.t.Helper()
	var o object
	if err := json.Unmarshal([]byte(r.body), &o); err != nil {
		r.t.Fatalf("answer %d %q (error %v): %v", r.status, r.body, r.err, err)
	}
	return o
}

// at returns a member by its path, such as error.code.
func (r result) at(path string) any {
	r.t.Helper()
	return at(r.object(), path)
}

func at(o object, path string) any {
	var value any = o
	for name := range strings.SplitSeq(path, ".") {
		inner, _ := value.(object)
		value = inner[name]
	}
	return value
}

// text is a member that is a text, or nothing.
func (r result) text(path string) string {
	r.t.Helper()
	text, _ := r.at(path).(string)
	return text
}

func (r result) want(status int, further ...string) result {
	r.t.Helper()
	if r.err != nil || r.status != status {
		r.t.Fatalf("got %d %s (error %v), want %d", r.status, r.body, r.err, status)
	}
	for i := 0; i < len(further); i += 2 {
		if got := r.text(further[i]); got != further[i+1] {
			r.t.Fatalf("%s is %q, want %q: %s", further[i], got, further[i+1], r.body)
		}
	}
	return r
}

func (r result) wantLost() {
	r.t.Helper()
	if r.err == nil {
		r.t.Fatalf("got %d %s, want no answer", r.status, r.body)
	}
}

type header map[string]string

// send makes one request for acct_1 unless the headers say otherwise. An empty header is not sent.
func (p *running) send(method, path, form string, headers header) result {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.server.URL+path, strings.NewReader(form))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+DemoSecret)
	request.Header.Set("Stripe-Account", "acct_1")
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, value := range headers {
		request.Header.Set(name, value)
		if value == "" {
			request.Header.Del(name)
		}
	}
	request.GetBody = nil
	response, err := p.client.Do(request)
	if err != nil {
		return result{t: p.t, err: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return result{p.t, response.StatusCode, response.Header, string(body), err}
}

func (p *running) get(path string) result {
	p.t.Helper()
	return p.send(http.MethodGet, path, "", nil)
}

func (p *running) post(path, key, form string) result {
	p.t.Helper()
	return p.send(http.MethodPost, path, form, header{"Idempotency-Key": key})
}

// intentForm asks for 1000 KRW, for the payment reference.
func intentForm(method, reference string) string {
	return url.Values{"amount": {"1000"}, "currency": {"krw"}, "payment_method": {method},
		"metadata[reference]": {reference}, "metadata[idempotency_key]": {"key-of-" + reference}}.Encode()
}

// intent makes an intent for pay_1 and returns its id.
func (p *running) intent(method string) string {
	p.t.Helper()
	return p.post("/v1/payment_intents", "", intentForm(method, "pay_1")).want(http.StatusOK).text("id")
}

func (p *running) confirm(id, key string) result {
	p.t.Helper()
	return p.post("/v1/payment_intents/"+id+"/confirm", key, "")
}

func (p *running) cancel(id, key string) result {
	p.t.Helper()
	return p.post("/v1/payment_intents/"+id+"/cancel", key, "cancellation_reason=abandoned")
}

// status is that of an intent now.
func (p *running) status(id string) string {
	p.t.Helper()
	return p.get("/v1/payment_intents/" + id).want(http.StatusOK).text("status")
}

// charged makes an intent and executes it.
func (p *running) charged() string {
	p.t.Helper()
	id := p.intent("pm_ok")
	p.confirm(id, "").want(http.StatusOK, "status", "succeeded")
	return id
}

// data returns the objects of a list.
func (p *running) data(path string) []object {
	p.t.Helper()
	answered := p.get(path).want(http.StatusOK).object()
	var all []object
	list, _ := answered["data"].([]any)
	for _, one := range list {
		o, _ := one.(object)
		all = append(all, o)
	}
	return all
}

// one returns an object out of a list, by its id.
func (p *running) one(path, id string) result {
	p.t.Helper()
	for _, o := range p.data(path + "?limit=100") {
		if o["id"] == id {
			return result{t: p.t, status: http.StatusOK, body: string(mockpsp.Render(o))}
		}
	}
	p.t.Fatalf("%s has no %s", path, id)
	panic("unreachable")
}

// events are those of acct_1, oldest first.
func (p *running) events() (all []object) {
	p.t.Helper()
	p.dialect.store.read("acct_1", func(b *book) {
		for _, kept := range b.events.all {
			all = append(all, result{t: p.t, body: string(mockpsp.Render(kept.newest.shown()))}.object())
		}
	})
	return all
}

// types are the types of all events, oldest first.
func (p *running) types() []string {
	p.t.Helper()
	var types []string
	for _, e := range p.events() {
		kind, _ := e["type"].(string)
		types = append(types, kind)
	}
	return types
}
