// Command memory is a payment server that keeps its keys in the process, behind a mutex. Lesson 15 grades it. Within
// one process it charges once: nothing comes between its look at a key and its reservation. It charges twice as soon as
// there are two processes, or one that starts again.
//
// It speaks as the grader's profile "plain" says. It sends a fresh key to the PSP for each charge, so that nobody but
// its own store can prevent a second charge.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"time"
)

// decision is what a request with a key gets. It is the same in every language, and with every store.
type decision int

const (
	execute    decision = iota // the key is new, and this request alone may charge
	replay                     // the key has an answer
	inProgress                 // another request is charging
	mismatch                   // the key stands for another request
)

// entry is what is known about a key. Without an answer, a request is charging.
type entry struct {
	fingerprint [sha256.Size]byte
	status      int
	answer      []byte
}

type store struct {
	mu   sync.Mutex
	keys map[string]entry
}

// reserve looks at a key, and takes it if it is new. The mutex makes one step of both.
func (s *store) reserve(key string, fingerprint [sha256.Size]byte) (decision, entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, found := s.keys[key]
	switch {
	case !found:
		s.keys[key] = entry{fingerprint: fingerprint}
		return execute, entry{}
	case known.fingerprint != fingerprint:
		return mismatch, entry{}
	case known.answer == nil:
		return inProgress, entry{}
	}
	return replay, known
}

func (s *store) complete(key string, status int, answer []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := s.keys[key]
	done.status, done.answer = status, answer
	s.keys[key] = done
}

type order struct {
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	Token    string `json:"token"`
}

func main() {
	keys := &store{keys: map[string]entry{}}
	http.HandleFunc("POST /charges", keys.serve)
	server := &http.Server{Addr: "127.0.0.1:" + os.Getenv("PORT"), ReadHeaderTimeout: time.Second}
	log.Fatal(server.ListenAndServe())
}

func (s *store) serve(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&o); err != nil {
		http.Error(w, "the body must be an order", http.StatusBadRequest)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	canonical, _ := json.Marshal(o) // numbers and texts cannot fail
	decided, known := s.reserve(key, sha256.Sum256(canonical))
	switch decided {
	case mismatch:
		http.Error(w, "the key stands for another order", http.StatusUnprocessableEntity)
	case inProgress:
		http.Error(w, "the first request is being executed", http.StatusConflict)
	case replay:
		w.WriteHeader(known.status)
		_, _ = w.Write(known.answer)
	case execute:
		// A client that hangs up does not stop its charge.
		status, answer, err := charge(context.WithoutCancel(r.Context()), key, o)
		if err != nil {
			// Nobody knows whether the money has moved, so the key stays taken.
			http.Error(w, "ask again", http.StatusAccepted)
			return
		}
		s.complete(key, status, answer)
		w.WriteHeader(status)
		_, _ = w.Write(answer)
	}
}

// charge asks the PSP. An error says that the outcome is not known.
func charge(ctx context.Context, key string, o order) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	body, _ := json.Marshal(map[string]any{
		"amountCents": o.Amount, "currency": o.Currency, "paymentMethod": o.Token, "reference": key,
	})
	url := os.Getenv("PSP_URL") + "/v1/charges"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.GetBody = nil // otherwise Go sends the request again by itself when a connection breaks
	req.Header.Set("Authorization", "Bearer "+os.Getenv("PSP_SECRET"))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("PSP-Account", "acme")
	req.Header.Set("Idempotency-Key", rand.Text())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err == nil && res.StatusCode != http.StatusCreated && res.StatusCode != http.StatusPaymentRequired {
		err = io.ErrUnexpectedEOF
	}
	return res.StatusCode, answer, err
}
