package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// The client of the PSP, the payment service provider.

const (
	succeeded = "succeeded"
	declined  = "declined"
)

type psp struct{ url, secret string }

// charge is a line of the PSP's ledger.
type charge struct {
	ID, Account, IdempotencyKey, Reference string
	AmountCents                            int64
	Currency, Status, DeclineCode          string
}

// charge asks for the money. An error does not say whether the money has moved.
func (s psp) charge(ctx context.Context, p payment) (charge, error) {
	pspKey := rand.Text() // a fresh one for each call
	body := encode(0, map[string]any{
		"amountCents": p.AmountCents, "currency": p.Currency, "paymentMethod": p.PaymentMethod, "reference": p.key,
	}).body
	var c charge
	status, err := s.call(ctx, http.MethodPost, "/v1/charges", p.tenant, pspKey, body, &c)
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

// call reads the PSP's answer into result.
func (s psp) call(ctx context.Context, method, path, tenant, pspKey string, body []byte, result any) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.GetBody = nil // otherwise Go sends the request again by itself when a connection breaks
	req.Header.Set("Authorization", "Bearer "+s.secret)
	req.Header.Set("PSP-Account", tenant)
	req.Header.Set("Idempotency-Key", pspKey)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	return res.StatusCode, json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(result)
}
