package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
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

// errNotExecuted is proof that nothing was charged.
var errNotExecuted = errors.New("not executed")

// charge asks for the money. Any error but errNotExecuted leaves open whether the money has moved.
func (s psp) charge(ctx context.Context, p payment) (charge, error) {
	pspKey := p.key // the same on every attempt: the PSP knows the key, and answers without charging again
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

// lookup asks for the charge with p's key.
func (s psp) lookup(ctx context.Context, p payment) (c charge, found bool, err error) {
	var page struct{ Data []charge }
	path := "/v1/charges?idempotencyKey=" + url.QueryEscape(p.key)
	status, err := s.call(ctx, http.MethodGet, path, p.tenant, "", nil, &page)
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

// call reads the PSP's answer into result. If no connection could be made, the error is errNotExecuted.
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
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return 0, errors.Join(errNotExecuted, err)
	}
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	return res.StatusCode, json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(result)
}
