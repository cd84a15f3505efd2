package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
)

// The client of the PSP, the payment service provider.

const (
	succeeded = "succeeded"
	declined  = "declined"
)

type psp struct{ url, secret string }

// charge is a line of the PSP's ledger.
type charge struct {
	ID             string `json:"id"`
	Account        string `json:"account"`
	IdempotencyKey string `json:"idempotencyKey"`
	Reference      string `json:"reference"`
	AmountCents    int64  `json:"amountCents"`
	Currency       string `json:"currency"`
	Status         string `json:"status"`
	DeclineCode    string `json:"declineCode"`
}

// errNotSent proves that nothing was charged: the PSP was never connected.
var errNotSent = errors.New("the PSP cannot be reached")

// charge asks for the money. Any error but errNotSent leaves open whether the money has moved.
func (s psp) charge(ctx context.Context, p payment) (charge, error) {
	pspKey := p.key // the same on every attempt: the PSP knows the key, and answers without charging again
	body, _ := json.Marshal(map[string]any{
		"amountCents": p.AmountCents, "currency": p.Currency, "paymentMethod": p.PaymentMethod, "reference": p.key,
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/charges", bytes.NewReader(body))
	if err != nil {
		return charge{}, err
	}
	req.GetBody = nil // otherwise Go sends the request again by itself when a connection breaks
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", pspKey)
	var c charge
	status, err := s.send(req, p.tenant, &c)
	if err == nil && (!c.answers(p, pspKey) || status != map[string]int{succeeded: 201, declined: 402}[c.Status]) {
		err = fmt.Errorf("the PSP has answered %d, and not about what was asked", status)
	}
	return c, err
}

// answers tells whether c is about the charge that was asked for.
func (c charge) answers(p payment, pspKey string) bool {
	return c == charge{c.ID, p.tenant, pspKey, p.key, p.AmountCents, p.Currency, c.Status, c.DeclineCode} &&
		c.ID != "" && (c.Status == succeeded || c.Status == declined)
}

// lookup asks for the charge with p's key.
func (s psp) lookup(ctx context.Context, p payment) (c charge, found bool, err error) {
	query := s.url + "/v1/charges?idempotencyKey=" + url.QueryEscape(p.key)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, query, http.NoBody)
	if err != nil {
		return c, false, err
	}
	var page struct{ Data []charge }
	status, err := s.send(req, p.tenant, &page)
	switch {
	case err != nil:
		return c, false, err
	case status == http.StatusOK && page.Data != nil && len(page.Data) == 0:
		return c, false, nil
	case status == http.StatusOK && len(page.Data) == 1 && page.Data[0].answers(p, p.key):
		return page.Data[0], true, nil
	}
	return c, false, fmt.Errorf("the PSP has answered a lookup with %d and %d charges", status, len(page.Data))
}

// send reads the answer into result.
func (s psp) send(req *http.Request, tenant string, result any) (status int, err error) {
	req.Header.Set("Authorization", "Bearer "+s.secret)
	req.Header.Set("PSP-Account", tenant)
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	res, err := http.DefaultClient.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err != nil && !connected.Load() {
		return 0, fmt.Errorf("%w: %w", errNotSent, err)
	}
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	return res.StatusCode, json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(result)
}
