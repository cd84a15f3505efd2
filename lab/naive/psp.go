package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
)

const (
	maxPSPAnswer = 64 << 10
	// idleConnections is well above what the pool of the database lets be charged at once.
	idleConnections = 64
)

// provider is the PSP's API.
type provider struct {
	url    string
	secret string
	http   *http.Client
}

func newProvider(set settings) *provider {
	return &provider{url: set.pspURL, secret: set.pspSecret, http: &http.Client{
		Timeout:   set.pspTimeout,
		Transport: &http.Transport{MaxIdleConnsPerHost: idleConnections, IdleConnTimeout: 20 * time.Second},
	}}
}

func (p *provider) close() { p.http.CloseIdleConnections() }

// charged is what the PSP has decided: succeeded or declined.
type charged struct {
	ID          string `json:"id"`
	Status      string `json:"status"`
	DeclineCode string `json:"declineCode"`
}

// pspError is every other end of a charge.
type pspError struct{ reason string }

func (e *pspError) Error() string { return e.reason }

// charge takes the money. The client's key goes along as the reference, so that support can find the charge at the PSP.
func (p *provider) charge(ctx context.Context, account, reference string, o order) (charged, error) {
	body, err := json.Marshal(map[string]any{
		"amountCents": o.AmountCents, "currency": o.Currency, "paymentMethod": o.PaymentMethod, "reference": reference,
	})
	if err != nil {
		return charged{}, fmt.Errorf("marshal charge: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/charges", bytes.NewReader(body))
	if err != nil {
		return charged{}, fmt.Errorf("build charge: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+p.secret)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("PSP-Account", account)
	// Fault 4: a fresh key for each call, as most SDKs of providers send when they are given none. The PSP takes a
	// repeated attempt for another charge. This is what turns the other faults into money.
	req.Header.Set("Idempotency-Key", uuid.NewString())
	return p.send(req)
}

func (p *provider) send(req *http.Request) (charged, error) {
	res, err := p.http.Do(req)
	if err != nil {
		return charged{}, &pspError{withoutURL(err)}
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated && res.StatusCode != http.StatusPaymentRequired {
		return charged{}, &pspError{fmt.Sprintf("PSP answered %d", res.StatusCode)}
	}
	var result charged
	if err := json.NewDecoder(io.LimitReader(res.Body, maxPSPAnswer)).Decode(&result); err != nil {
		return charged{}, &pspError{"read answer of the PSP: " + err.Error()}
	}
	return result, nil
}

// withoutURL keeps addresses out of the log.
func withoutURL(err error) string {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return "no answer of the PSP: " + err.Error()
}
