package mockpsp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"payonce/test/wait"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a mock PSP behind a real listener, with a client that follows nothing and retries nothing.
type running struct {
	t      *testing.T
	psp    *Server
	server *httptest.Server
	client *http.Client
}

// setup starts a PSP whose delays are out of the way: nothing slow, nothing late, until a test says so.
func setup(t *testing.T, change func(*Config)) *running {
	t.Helper()
	config := DefaultConfig()
	config.SlowDelay, config.HangLimit, config.LateDelay = time.Millisecond, time.Hour, time.Hour
	if change != nil {
		change(&config)
	}
	psp, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &running{t: t, psp: psp, server: httptest.NewServer(psp)}
	// A transport of its own without keep-alives: net/http re-sends a POST with an Idempotency-Key over a connection
	// that breaks on re-use, and these tests count sends.
	p.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	t.Cleanup(p.stop)
	return p
}

func (p *running) stop() {
	p.t.Helper()
	if err := p.psp.Close(); err != nil {
		p.t.Errorf("close: %v", err)
	}
	p.server.Close()
}

// result is how a send ended: with an answer, or with err.
type result struct {
	status int
	header http.Header
	body   string
	err    error
}

func (r result) code() string {
	var problem struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal([]byte(r.body), &problem)
	return problem.Error.Code
}

func (r result) entry(t *testing.T) entry {
	t.Helper()
	var e entry
	if err := json.Unmarshal([]byte(r.body), &e, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("answer %d %q is no entry: %v", r.status, r.body, err)
	}
	return e
}

func (r result) want(t *testing.T, status int, code string) {
	t.Helper()
	if r.err != nil || r.status != status || r.code() != code {
		t.Fatalf("got %d %q (error %v), want %d with code %q", r.status, r.body, r.err, status, code)
	}
}

type header map[string]string

// send makes one call for acme unless the headers say otherwise. An empty header is not sent.
func (p *running) send(ctx context.Context, method, path, body string, headers header) result {
	request, err := http.NewRequestWithContext(ctx, method, p.server.URL+path, strings.NewReader(body))
	if err != nil {
		return result{err: err}
	}
	request.Header.Set("Authorization", "Bearer demo-psp-secret")
	request.Header.Set("PSP-Account", "acme")
	request.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		request.Header.Set(name, value)
		if value == "" {
			request.Header.Del(name)
		}
	}
	request.GetBody = nil
	response, err := p.client.Do(request)
	if err != nil {
		return result{err: err}
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return result{response.StatusCode, response.Header, string(answer), err}
}

func (p *running) get(path string) result {
	return p.send(p.t.Context(), http.MethodGet, path, "", nil)
}

// chargeBody asks for 1000 KRW.
func chargeBody(method string) string {
	return fmt.Sprintf(`{"amountCents":1000,"currency":"KRW","paymentMethod":%q,"reference":"pay_1"}`, method)
}

func (p *running) charge(key, method string) result {
	return p.send(p.t.Context(), http.MethodPost, "/v1/charges", chargeBody(method), header{"Idempotency-Key": key})
}

func (p *running) refund(chargeID, key, reason string, amount int) result {
	body := fmt.Sprintf(`{"amountCents":%d,"currency":"KRW","reference":"re_1","reason":%q}`, amount, reason)
	return p.send(p.t.Context(), http.MethodPost, "/v1/charges/"+chargeID+"/refunds", body,
		header{"Idempotency-Key": key})
}

// chargeInBackground sends key-1 until it ends or cancel is called.
func (p *running) chargeInBackground(method string) (ended <-chan result, cancel context.CancelFunc) {
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan result, 1)
	go func() {
		done <- p.send(ctx, http.MethodPost, "/v1/charges", chargeBody(method), header{"Idempotency-Key": "key-1"})
	}()
	return done, cancel
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	return wait.For(t, "a result", from)
}

// await polls until the claim holds.
var await = wait.Until

// awaitFault waits until a call with this key has reached its fault.
func (p *running) awaitFault(key string, f fault) {
	p.t.Helper()
	await(p.t, string(f)+" acts on "+key, func() bool {
		for _, note := range p.calls(key).Requests {
			if note.Fault == f && note.Outcome == outcomePending {
				return true
			}
		}
		return false
	})
}

func (p *running) calls(key string) callView {
	p.t.Helper()
	return fetch[callView](p, "/_requests?idempotencyKey="+key)
}

type truth struct {
	Charges  []ledgerView `json:"charges"`
	Refunds  []ledgerView `json:"refunds"`
	Disputes []ledgerView `json:"disputes"`
}

// ledger asks what was really charged under a key, under all keys if it is empty.
func (p *running) ledger(key string) truth {
	p.t.Helper()
	return fetch[truth](p, "/_ledger?idempotencyKey="+key)
}

type page struct {
	Data       []entry `json:"data"`
	HasMore    bool    `json:"hasMore"`
	NextCursor string  `json:"nextCursor"`
}

func (p *running) list(pathAndQuery string) page {
	p.t.Helper()
	return fetch[page](p, pathAndQuery)
}

func fetch[T any](p *running, path string) T {
	p.t.Helper()
	answer := p.get(path)
	var value T
	if err := json.Unmarshal([]byte(answer.body), &value, json.RejectUnknownMembers(true)); err != nil ||
		answer.status != 200 {
		p.t.Fatalf("GET %s: %d %q: %v", path, answer.status, answer.body, err)
	}
	return value
}
