package payments

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
	"payonce/test/wait"
)

// actor is a PSP that says what a test has it say, true or not. Until it is told, it breaks.
type actor struct {
	mu      sync.Mutex
	posts   int
	lookups int
	post    func(w http.ResponseWriter, asked gateway.Record)
	list    http.HandlerFunc
}

// onPost sets what happens to charges and refunds. asked is the record of what is asked for, still without an id or a
// status.
func (a *actor) onPost(post func(w http.ResponseWriter, asked gateway.Record)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.post = post
}

func (a *actor) onLookup(list http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = list
}

// seen counts what has been asked so far.
func (a *actor) seen() (posts, lookups int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.posts, a.lookups
}

func (a *actor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	post, list := a.post, a.list
	if r.Method == http.MethodPost {
		a.posts++
	} else {
		a.lookups++
	}
	a.mu.Unlock()
	switch {
	case r.Method == http.MethodPost && post != nil:
		post(w, askedOf(r))
	case r.Method == http.MethodGet && list != nil:
		list(w, r)
	default:
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func askedOf(r *http.Request) gateway.Record {
	var body struct {
		AmountCents int64  `json:"amountCents"`
		Currency    string `json:"currency"`
		Reference   string `json:"reference"`
	}
	_ = json.UnmarshalRead(r.Body, &body)
	asked := gateway.Record{
		Object: gateway.ChargeObject, Account: r.Header.Get("PSP-Account"), Key: r.Header.Get("Idempotency-Key"),
		Reference: body.Reference, AmountMinor: body.AmountCents, Currency: body.Currency,
		Created: time.Date(2026, 11, 20, 9, 5, 0, 0, time.UTC),
	}
	if path, ok := strings.CutSuffix(r.URL.Path, "/refunds"); ok {
		asked.Object, asked.ChargeID = gateway.RefundObject, path[strings.LastIndex(path, "/")+1:]
	}
	return asked
}

// executes answers that the money has moved.
func executes(id string) func(http.ResponseWriter, gateway.Record) {
	return func(w http.ResponseWriter, asked gateway.Record) {
		asked.ID, asked.Status = id, "succeeded"
		w.WriteHeader(http.StatusCreated)
		w.Write(asked.Evidence())
	}
}

// refuses answers that the PSP has declined.
func refuses(id, code string) func(http.ResponseWriter, gateway.Record) {
	return func(w http.ResponseWriter, asked gateway.Record) {
		asked.ID, asked.Status, asked.DeclineCode = id, "declined", code
		w.WriteHeader(http.StatusPaymentRequired)
		w.Write(asked.Evidence())
	}
}

// breaks answers nothing that says what happened.
func breaks(w http.ResponseWriter, _ gateway.Record) { w.WriteHeader(http.StatusInternalServerError) }

// finds lists these records, whatever is looked up.
func finds(records ...gateway.Record) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		list := struct {
			Data    []jsontext.Value `json:"data"`
			HasMore bool             `json:"hasMore"`
		}{Data: []jsontext.Value{}}
		for _, r := range records {
			list.Data = append(list.Data, r.Evidence())
		}
		_ = json.MarshalWrite(w, &list)
	}
}

// held is an answer that the PSP keeps back until it is let go.
type held struct {
	t     *testing.T
	asked chan struct{} // receives when the question has come
	let   chan struct{} // closed to have it answered
}

func newHeld(t *testing.T) *held {
	return &held{t: t, asked: make(chan struct{}, 8), let: make(chan struct{})}
}

// wait is what the PSP does between question and answer.
func (h *held) wait() {
	h.asked <- struct{}{}
	select {
	case <-h.let:
	case <-h.t.Context().Done():
	}
}

// before keeps an answer back.
func (h *held) before(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h.wait()
		answer(w, r)
	}
}

// whileAsked runs ask, does something while the PSP has the question, and returns what ask came to.
func whileAsked[T any](h *held, ask func() T, meanwhile func()) T {
	h.t.Helper()
	done := make(chan T, 1)
	go func() { done <- ask() }()
	wait.For(h.t, "the question", h.asked)
	meanwhile()
	close(h.let)
	return wait.For(h.t, "the answer", done)
}
