package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"

	"payonce/client"
)

// payAll is a caller with package client: what a crash has left open goes on, and everything else is paid.
func payAll(ctx context.Context, d description, jobs []job, v *voice) error {
	journal, err := client.OpenJournal(d.Journal)
	if err != nil {
		return err
	}
	open, err := journal.Unfinished(ctx)
	if err != nil {
		return err
	}
	h := &hooks{Store: journal, voice: v, base: http.DefaultTransport, keys: map[string]int{}}
	going := map[string]bool{}
	for _, record := range open {
		going[record.Intent] = true
		h.keys[record.Key] = indexOf(record.Intent)
	}
	payer, err := client.New(client.Config{BaseURL: d.BaseURL, APIKey: d.APIKey, Store: h, Patience: patience,
		HTTPClient: &http.Client{Transport: h}})
	if err != nil {
		return err
	}
	var resuming sync.WaitGroup
	var failed error
	resuming.Go(func() {
		failed = payer.Resume(ctx, func(r client.Result, err error) { v.tell(r, err) })
	})
	each(jobs, func(j job) {
		if going[j.name()] {
			return
		}
		v.tell(payer.Pay(ctx, client.Intent{ID: j.name(), CustomerID: d.Customer, AmountCents: amount(j.index),
			Currency: "USD", PaymentMethod: j.token}))
	})
	resuming.Wait()
	return errors.Join(failed, journal.Close())
}

// tell says how an intent has ended, or that it is open. A crash just before it is the last boundary.
func (v *voice) tell(r client.Result, err error) {
	var unknown *client.UnknownError
	switch index := indexOf(r.Intent); {
	case errors.As(err, &unknown):
		v.say("open %d", index)
	case err != nil:
		v.say("broken %d %s", index, strings.ReplaceAll(err.Error(), "\n", " "))
	case r.Paid:
		v.say("told %d paid", index)
	default:
		v.say("told %d declined", index)
	}
}

func indexOf(intent string) int {
	index, err := strconv.Atoi(strings.TrimPrefix(intent, "order-"))
	if err != nil {
		return -1
	}
	return index
}

// hooks stand around the journal and the transport. The client itself has none.
type hooks struct {
	client.Store
	voice *voice
	base  http.RoundTripper

	mu   sync.Mutex
	keys map[string]int // index by key
}

// Create is between the making of a key and its storing. Resume calls it with a key that is stored, to read the record.
func (h *hooks) Create(ctx context.Context, fresh client.Record) (client.Record, error) {
	index := indexOf(fresh.Intent)
	h.mu.Lock()
	_, known := h.keys[fresh.Key]
	h.mu.Unlock()
	if !known {
		h.voice.at(made, index)
	}
	record, err := h.Store.Create(ctx, fresh)
	h.mu.Lock()
	h.keys[record.Key] = index
	h.mu.Unlock()
	return record, err
}

// Update is between an answer and its record, and after the record.
func (h *hooks) Update(ctx context.Context, changed client.Record) error {
	index := indexOf(changed.Intent)
	h.voice.at(answered, index)
	err := h.Store.Update(ctx, changed)
	if err == nil {
		h.voice.at(recorded, index)
	}
	return err
}

// RoundTrip is between a stored key and its sending, and after the whole request was written.
func (h *hooks) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	index := h.keys[r.Header.Get("Idempotency-Key")]
	h.mu.Unlock()
	return roundTrip(h.base, h.voice, index, r)
}

func roundTrip(base http.RoundTripper, v *voice, index int, r *http.Request) (*http.Response, error) {
	v.at(stored, index)
	trace := &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			v.at(sent, index)
		}
	}}
	return base.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}
