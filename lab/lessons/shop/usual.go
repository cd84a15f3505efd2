package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"payonce/client"
)

// The usual retry loop.
const (
	attempts   = 3
	firstPause = 100 * time.Millisecond
)

// retry pays with a loop as in many programs. It leaves nothing behind that the next process could go on with.
func (s shop) retry(ctx context.Context, order client.Intent) error {
	key := uuid.NewString()
	for attempt := range attempts {
		if s.keys == "attempt" {
			key = uuid.NewString()
		}
		told, err := s.try(ctx, order, key)
		if told != "" {
			s.at(answered)
			fmt.Fprintln(s.out, told)
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(firstPause << attempt):
		}
	}
	fmt.Fprintf(s.out, "failed: no answer in %d attempts\n", attempts)
	return nil
}

// try sends the order once. It returns nothing if another attempt is worth it.
func (s shop) try(ctx context.Context, order client.Intent, key string) (told string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	body := fmt.Sprintf(`{"customerId":%q,"amountCents":%d,"currency":%q,"paymentMethod":%q}`, order.CustomerID,
		order.AmountCents, order.Currency, order.PaymentMethod)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.api+"/payments", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+s.apiKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	res, err := (&http.Client{Transport: loud{s}}).Do(req)
	if err != nil {
		fmt.Fprintln(s.out, "no answer")
		return "", nil
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 64<<10)) //nolint:mnd // more than any answer has
	if err != nil {
		fmt.Fprintln(s.out, "no answer")
		return "", nil
	}
	var answer struct {
		PaymentID string `json:"paymentId"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return "", err
	}
	switch {
	case res.StatusCode == http.StatusCreated:
		return "paid: " + answer.PaymentID, nil
	case res.StatusCode >= http.StatusInternalServerError || res.StatusCode == http.StatusConflict:
		return "", nil
	}
	return fmt.Sprintf("failed: %d", res.StatusCode), nil
}
