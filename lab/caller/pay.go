package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"payonce/client"
)

// The usual retry loop: some attempts, some backoff, and a timeout for each attempt.
const (
	usualAttempts = 6
	usualTimeout  = 3 * time.Second
	usualPause    = 100 * time.Millisecond
)

// retryAll is a caller without package client. It remembers nothing that a crash would leave.
func retryAll(ctx context.Context, d description, jobs []job, v *voice) {
	c := &http.Client{Timeout: usualTimeout}
	each(jobs, func(j job) { v.say("told %d %s", j.index, retry(ctx, c, d, j, v)) })
}

// retry pays for one intent. It has the boundaries of package client where it has such steps at all.
func retry(ctx context.Context, c *http.Client, d description, j job, v *voice) string {
	key := uuid.NewString()
	v.at(made, j.index)
	for attempt := range usualAttempts {
		if d.Kind == perAttempt {
			key = uuid.NewString()
		}
		told := try(ctx, c, d, j, v, key)
		if told != "" {
			v.at(answered, j.index)
			v.at(recorded, j.index)
			return told
		}
		select {
		case <-ctx.Done():
			return "failed"
		case <-time.After(usualPause << attempt):
		}
	}
	return "failed"
}

// try sends one request. It returns nothing if the request is worth repeating.
func try(ctx context.Context, c *http.Client, d description, j job, v *voice, key string) string {
	body := fmt.Sprintf(`{"customerId":%q,"amountCents":%d,"currency":"USD","paymentMethod":%q}`, d.Customer,
		amount(j.index), j.token)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.BaseURL+"/payments", strings.NewReader(body))
	if err != nil {
		return "failed"
	}
	req.Header.Set("Authorization", "Bearer "+d.APIKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	res, err := (&http.Client{Timeout: c.Timeout, Transport: hooked{v, j.index}}).Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return ""
	}
	switch {
	case res.StatusCode < http.StatusMultipleChoices:
		return "paid"
	case res.StatusCode == http.StatusPaymentRequired:
		return "declined"
	case res.StatusCode >= http.StatusInternalServerError || res.StatusCode == http.StatusTooManyRequests ||
		res.StatusCode == http.StatusConflict:
		return ""
	}
	return "failed"
}

type hooked struct {
	voice *voice
	index int
}

// RoundTrip has the hooks of an attempt.
func (h hooked) RoundTrip(r *http.Request) (*http.Response, error) {
	return roundTrip(http.DefaultTransport, h.voice, h.index, r)
}

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
