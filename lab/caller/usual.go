package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
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
