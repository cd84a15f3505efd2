package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// sent is one attempt as the server saw it.
type sent struct {
	key, body string
	at        time.Time
	store     Record // what the Store had of the intent at that moment
}

// reply is what the server does to one attempt. The zero status is a connection that breaks.
type reply struct {
	status int
	code   string // of a problem
	header map[string]string
	body   string // instead of the usual one
}

// bundle is a client before a server that plays a script. Its last reply is given again and again.
type bundle struct {
	client  *Client
	journal *Journal
	path    string

	mu     sync.Mutex
	script []reply
	seen   []sent
	onSend func()
}

var order = Intent{ID: "order-1", CustomerID: "cus-1", AmountCents: 12000, Currency: "USD", PaymentMethod: "pm_ok"}

const orderBody = `{"customerId":"cus-1","amountCents":12000,"currency":"USD","paymentMethod":"pm_ok"}`

func setup(t *testing.T, script ...reply) *bundle {
	t.Helper()
	b := &bundle{script: script, path: filepath.Join(t.TempDir(), "journal")}
	b.open(t)
	return b
}

// open starts the client on what the file has, as a new process does.
func (b *bundle) open(t *testing.T) {
	t.Helper()
	journal, err := OpenJournal(b.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = journal.Close() })
	b.journal = journal
	b.client, err = New(Config{
		BaseURL: "https://pay.test/", APIKey: "secret", Store: journal, HTTPClient: &http.Client{Transport: b},
		Jitter: func(limit time.Duration) time.Duration { return limit / 2 },
	})
	if err != nil {
		t.Fatal(err)
	}
}

// restart is a crash and a new process.
func (b *bundle) restart(t *testing.T) {
	t.Helper()
	_ = b.journal.Close()
	b.open(t)
}

// RoundTrip is the server.
func (b *bundle) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.Method != http.MethodPost || r.URL.String() != "https://pay.test/payments" || r.GetBody != nil ||
		r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get("Content-Type") != "application/json" {
		return nil, fmt.Errorf("unexpected request: %s %s %v, GetBody %v", r.Method, r.URL, r.Header, r.GetBody != nil)
	}
	b.mu.Lock()
	next := b.script[min(len(b.seen), len(b.script)-1)]
	s := sent{key: r.Header.Get("Idempotency-Key"), body: string(body), at: time.Now()}
	b.journal.mu.Lock()
	s.store = b.journal.records[order.ID]
	b.journal.mu.Unlock()
	b.seen = append(b.seen, s)
	b.mu.Unlock()
	if b.onSend != nil {
		b.onSend()
	}
	if next.status == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return next.response(s), nil
}

func (r reply) response(s sent) *http.Response {
	kind, body := "application/json", r.body
	switch {
	case r.code != "":
		kind = "application/problem+json"
		body = fmt.Sprintf(`{"status":%d,"code":%q,"paymentId":"pay_1","declineCode":"lost_card"}`, r.status, r.code)
	case body == "":
		body = strings.Replace(s.body, "{", `{"paymentId":"pay_1","status":"succeeded",`, 1)
	}
	header := http.Header{"Content-Type": {kind}, "Idempotency-Key": {s.key}}
	for name, value := range r.header {
		header.Set(name, value)
	}
	return &http.Response{StatusCode: r.status, Header: header, Body: io.NopCloser(strings.NewReader(body))}
}

// attempts checks that all attempts were one key and one body, and returns how many there were.
func (b *bundle) attempts(t *testing.T) int {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, s := range b.seen {
		if s.key != b.seen[0].key || s.body != b.seen[0].body || len(s.key) != 36 {
			t.Errorf("attempt %d sent %q %s, the first one %q %s", i+1, s.key, s.body, b.seen[0].key, b.seen[0].body)
		}
	}
	return len(b.seen)
}

// pauses are the times between the attempts.
func (b *bundle) pauses() []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []time.Duration
	for i := 1; i < len(b.seen); i++ {
		all = append(all, b.seen[i].at.Sub(b.seen[i-1].at))
	}
	return all
}

func (b *bundle) stored(t *testing.T) Record {
	t.Helper()
	b.journal.mu.Lock()
	defer b.journal.mu.Unlock()
	return b.journal.records[order.ID]
}

// patiently is a context with room for many attempts.
func patiently(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// resumed collects what Resume tells.
func (b *bundle) resumed(ctx context.Context, t *testing.T) (results []Result, errs []error) {
	t.Helper()
	err := b.client.Resume(ctx, func(r Result, err error) {
		results, errs = append(results, r), append(errs, err)
	})
	if err != nil {
		t.Fatal(err)
	}
	return results, errs
}

func sameBytes(t *testing.T, want, got []byte) {
	t.Helper()
	if !bytes.Equal(want, got) {
		t.Errorf("got %s, want %s", got, want)
	}
}
