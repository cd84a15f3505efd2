package psp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
)

// A recording is a folder of testdata/recordings: what a provider has answered, to be played in place of its mock.
// about.json says how it was made, and each other file has one row: the requests of the client, in their order, with
// their answers. So a recording of a sandbox holds the dialect to what the provider really says. It never has our
// secrets.
type recording struct {
	dialect *Dialect
	folder  string
	about   about
}

// about is what the rows need to send the same requests again.
type about struct {
	Dialect string    `json:"dialect"`
	From    string    `json:"from"` // which provider has answered
	At      time.Time `json:"at"`   // the time on the client's side
	// Stamp is in all keys: a sandbox remembers those of the recording before.
	Stamp   string `json:"stamp"`
	Account string `json:"account"`
	// The payment methods that are charged and declined.
	OK       string `json:"ok"`
	Declined string `json:"declined"`
}

// pair is a request and its answer. Lost says that the client has not got the answer.
type pair struct {
	Request asked    `json:"request"`
	Answer  answered `json:"answer"`
	Lost    bool     `json:"lost,omitempty"`
}

type asked struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"` // with the query
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
}

type answered struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
}

const recordings = "testdata/recordings"

func (r recording) file(row string) string {
	return filepath.Join(r.folder, strings.ReplaceAll(row, " ", "_")+".json")
}

func readJSON[T any](name string) (value T, err error) {
	raw, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(raw, &value)
	}
	return value, err
}

// writeJSON refuses a text that has a secret.
func writeJSON(name string, value any, secrets ...string) error {
	text, err := json.Marshal(value, jsontext.WithIndent("  "), json.Deterministic(true))
	if err != nil {
		return err
	}
	for _, secret := range secrets {
		if secret != "" && bytes.Contains(text, []byte(secret)) {
			return fmt.Errorf("%s would have a secret", name)
		}
	}
	return os.WriteFile(name, append(text, '\n'), 0o600)
}

// secretMember is a member of an answer that nobody else should have, such as Stripe's client_secret.
var secretMember = regexp.MustCompile(`("[A-Za-z_]*(?i:secret)"\s*:\s*)"[^"]*"`)

// kept are the headers that say something of the provider, and nothing of us.
func kept(h http.Header, names ...string) map[string]string {
	found := map[string]string{}
	for _, name := range names {
		if value := h.Get(name); value != "" {
			found[name] = value
		}
	}
	return found
}

func withoutSecrets(body string) string { return secretMember.ReplaceAllString(body, `$1"removed"`) }

func askedBy(r *http.Request) (asked, error) {
	body, err := io.ReadAll(r.Body)
	return asked{r.Method, r.URL.RequestURI(), kept(r.Header, "Content-Type", "Idempotency-Key", "Psp-Account",
		"Stripe-Account", "Stripe-Version"), string(body)}, err
}

func (a answered) send(out http.ResponseWriter) {
	for name, value := range a.Headers {
		out.Header().Set(name, value)
	}
	out.WriteHeader(a.Status)
	_, _ = io.WriteString(out, a.Body)
}

// player answers what is recorded, and nothing else.
type player struct {
	wrong func(format string, args ...any)

	mu    sync.Mutex
	pairs []pair
}

func (p *player) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	got, err := askedBy(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || len(p.pairs) == 0 {
		p.wrong("the client asks what is not recorded: %+v, %v", got, err)
		panic(http.ErrAbortHandler)
	}
	next := p.pairs[0]
	p.pairs = p.pairs[1:]
	if fmt.Sprint(got) != fmt.Sprint(next.Request) {
		p.wrong("the client asks\n%+v\nrecorded is the answer to\n%+v", got, next.Request)
	}
	if next.Lost {
		panic(http.ErrAbortHandler)
	}
	next.Answer.send(out)
}

func (p *player) ended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pairs) > 0 {
		p.wrong("the client has not asked: %+v", p.pairs)
	}
}

// recorder stands between the client and a provider, and keeps what passes. It sends the secret of the sandbox in
// place of the client's.
type recorder struct {
	target, secret string
	stepOf         func(*http.Request) string

	mu    sync.Mutex
	pairs []pair
	loses string // the answer to the next request of this step is lost
}

func (k *recorder) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	p, err := k.pass(r)
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadGateway)
		return
	}
	k.mu.Lock()
	if step := k.stepOf(r); step == k.loses {
		p.Lost, k.loses = true, ""
	}
	stored := p
	stored.Answer.Body = withoutSecrets(p.Answer.Body)
	k.pairs = append(k.pairs, stored)
	k.mu.Unlock()
	if p.Lost {
		panic(http.ErrAbortHandler)
	}
	p.Answer.send(out)
}

func (k *recorder) pass(r *http.Request) (pair, error) {
	request, err := askedBy(r)
	if err != nil {
		return pair{}, err
	}
	passed, err := http.NewRequestWithContext(r.Context(), r.Method, k.target+request.Path,
		strings.NewReader(request.Body))
	if err != nil {
		return pair{}, err
	}
	passed.Header = r.Header.Clone()
	passed.Header.Set("Authorization", "Bearer "+k.secret)
	passed.Header.Del("Accept-Encoding") // what is kept must be readable
	passed.GetBody = nil                 // so that nothing is sent twice
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}}
	answer, err := client.Do(passed)
	if err != nil {
		return pair{}, err
	}
	body, err := io.ReadAll(answer.Body)
	return pair{Request: request, Answer: answered{answer.StatusCode, kept(answer.Header, "Content-Type",
			"Idempotent-Replayed", "Retry-After", "Stripe-Should-Retry"), string(body)}},
		errors.Join(err, answer.Body.Close())
}

func (k *recorder) lose(step string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loses = step
}

// begin forgets the pairs of the row before.
func (k *recorder) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pairs = nil
}

// client makes one that speaks to a recorder or to a player. Only its time is that of the recording.
func (r recording) client(t *testing.T, url string) gateway.PSP {
	t.Helper()
	l := gateway.DefaultLimits()
	l.Dial, l.Total, l.Stall, l.BreakerFailures = patience, patience, patience, 1000
	client, err := r.dialect.Client(url, r.dialect.Secrets[:1], l, func() time.Time { return r.about.At })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}
