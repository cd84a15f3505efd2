package load_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"payonce/lab/bench/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// patience bounds every wait for an event, in seconds. Reaching it is a failure, not a measurement.
	patience = 20
	secret   = "whsec_ZGVtby13ZWJob29rLXNlY3JldC1mb3ItcGF5b25jZSEh"
)

// seen is what a server was sent.
type seen struct {
	method, path, body string
	header             http.Header
}

// server writes down what it is sent.
type server struct {
	address string
	mu      sync.Mutex
	all     []seen
}

// serve answers 201, or what handle does.
func serve(t *testing.T, handle http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.all = append(s.all, seen{r.Method, r.URL.String(), string(body), r.Header})
		s.mu.Unlock()
		if handle == nil {
			w.WriteHeader(http.StatusCreated)
			return
		}
		handle(w, r)
	}))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	s.address = strings.TrimPrefix(h.URL, "http://")
	return s
}

func (s *server) seen() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.all...)
}

func (s *server) keys() []string {
	var keys []string
	for _, r := range s.seen() {
		keys = append(keys, r.header.Get("Idempotency-Key"))
	}
	return keys
}

// run carries out the plan against the server.
func run(t *testing.T, s *server, p load.Plan) load.Result {
	t.Helper()
	p.Address = s.address
	if p.Seconds == 0 {
		p.Seconds = patience
	}
	if p.Clients == 0 {
		p.Clients = 3
	}
	r, err := load.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// clean fails on a run in which anything was not as it should be.
func clean(t *testing.T, r load.Result) {
	t.Helper()
	if r.Unexpected != 0 || r.Lost != 0 || r.Unsent != 0 || r.FirstUnexpected != "" {
		t.Fatalf("%d unexpected, %d lost, %d unsent: %s", r.Unexpected, r.Lost, r.Unsent, r.FirstUnexpected)
	}
}

// after is a time that a stage takes; nothing is judged by it but what it has really taken.
func after(d time.Duration) <-chan time.Time { return time.After(d) }
