package mockpsp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// receiver is whom the webhooks are sent to.
type receiver struct {
	t       *testing.T
	server  *httptest.Server
	arrived chan arrival

	mu     sync.Mutex
	answer func(arrival) int // 0 answers nothing
}

type arrival struct {
	at     time.Time
	header http.Header
	body   string
	gone   <-chan struct{} // closed when the sender has gone
}

func receive204(arrival) int { return http.StatusNoContent }

func newReceiver(t *testing.T, answer func(arrival) int) *receiver {
	t.Helper()
	r := &receiver{t: t, arrived: make(chan arrival, 1000), answer: answer}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	came := arrival{time.Now(), request.Header, string(body), request.Context().Done()}
	r.arrived <- came
	r.mu.Lock()
	answer := r.answer
	r.mu.Unlock()
	status := answer(came)
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Location", r.server.URL+"/elsewhere")
	w.WriteHeader(status)
}

func (r *receiver) answers(answer func(arrival) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) next() arrival {
	r.t.Helper()
	return receive(r.t, r.arrived)
}

func (a arrival) id() string { return a.header.Get("Webhook-Id") }

type event struct {
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"`
	Data      entry  `json:"data"`
}

func (a arrival) event(t *testing.T) event {
	t.Helper()
	var e event
	if err := json.Unmarshal([]byte(a.body), &e, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("webhook %s: %v", a.body, err)
	}
	return e
}

// verify asks the Standard Webhooks' own library.
func (a arrival) verify(t *testing.T) error {
	t.Helper()
	oracle, err := standardwebhooks.NewWebhook(DemoWebhookSecret)
	if err != nil {
		t.Fatal(err)
	}
	return oracle.Verify([]byte(a.body), a.header)
}

// toldTo sends webhooks to the receiver: at once, with two retries that are not late either.
func toldTo(r *receiver, further ...func(*Config)) func(*Config) {
	return func(c *Config) {
		c.WebhookURL = r.server.URL + "/webhooks"
		c.HangLimit = time.Millisecond
		c.WebhookDelay = 0
		c.WebhookSchedule = []time.Duration{time.Millisecond, time.Millisecond}
		for _, change := range further {
			change(c)
		}
	}
}

func (p *running) webhooks() webhooksView {
	p.t.Helper()
	return fetch[webhooksView](p, "/_webhooks")
}

// awaitWebhooks waits for the counts.
func (p *running) awaitWebhooks(pending, delivered, givenUp, dropped int) webhooksView {
	p.t.Helper()
	var view webhooksView
	defer func() {
		if p.t.Failed() {
			p.t.Logf("webhooks: %+v", view)
		}
	}()
	await(p.t, "the webhooks are resolved", func() bool {
		view = p.webhooks()
		return view.Pending == pending && view.Delivered == delivered && view.GivenUp == givenUp &&
			view.Dropped == dropped
	})
	return view
}
