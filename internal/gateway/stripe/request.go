package stripe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

const (
	intentsPath      = "/v1/payment_intents"
	chargesPath      = "/v1/charges"
	refundsPath      = "/v1/refunds"
	disputesPath     = "/v1/disputes"
	transactionsPath = "/v1/balance_transactions"
)

// The marks in the metadata of each object that we make. The origin is that of the product and, behind it, the id of
// the installation: an account may have several (ADR 0055).
const (
	originMark    = "origin"
	productOrigin = "payonce:"
	referenceMark = "reference"
	keyMark       = "idempotency_key"
	reasonMark    = "reason"
)

// origin is the mark of what this installation makes. While it is not known, nothing is made, and nothing is judged:
// what is ours would be foreign.
func (c *Client) origin() (string, error) {
	if id := c.installation(); id != "" {
		return productOrigin + id, nil
	}
	return "", errors.New("the id of this installation is not known yet")
}

// marks adds the marks of a movement to the parameters of its object.
func marks(form url.Values, reference, key string) {
	form.Set("metadata["+referenceMark+"]", reference)
	form.Set("metadata["+keyMark+"]", key)
}

// postOurs builds a request that makes an object, and marks it as ours.
func (c *Client) postOurs(account, path, key string, form url.Values) wire.Build {
	return func(ctx context.Context) (*http.Request, error) {
		origin, err := c.origin()
		if err != nil {
			return nil, err
		}
		form.Set("metadata["+originMark+"]", origin)
		return c.post(account, path, key, form)(ctx)
	}
}

// The steps of an operation. Each step has its own key at Stripe.
const (
	createStep  = "create"
	confirmStep = "confirm"
	refundStep  = "refund"
)

// stepKey is the key of a step of one attempt. The attempt is in the key because the intent of an earlier attempt was
// cancelled or never confirmed: this attempt needs another intent.
func stepKey(key, step string, attempt int32) string {
	return suffixed(key, fmt.Sprintf(".%s.%d", step, attempt))
}

func suffixed(key, suffix string) string { return gateway.FitKey(key, longestKey-len(suffix)) + suffix }

// intentPath is the path of one intent, or of an action on it.
func intentPath(id string, action ...string) string {
	return strings.Join(append([]string{intentsPath, url.PathEscape(id)}, action...), "/")
}

// post builds a request with an effect. A key of "" sends no Idempotency-Key.
func (c *Client) post(account, path, key string, form url.Values) wire.Build {
	return func(ctx context.Context) (*http.Request, error) {
		req, err := c.request(ctx, http.MethodPost, account, path, strings.NewReader(form.Encode()))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		return req, nil
	}
}

// get builds a request that has no effect.
func (c *Client) get(account, pathAndQuery string) wire.Build {
	return func(ctx context.Context) (*http.Request, error) {
		return c.request(ctx, http.MethodGet, account, pathAndQuery, http.NoBody)
	}
}

func (c *Client) request(ctx context.Context, method, account, path string, body io.Reader) (*http.Request, error) {
	// Go cuts off spaces around a header. Then Stripe would be asked about another account.
	if !gateway.IsID(account) {
		return nil, errors.New("no such account")
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, body)
	if err != nil {
		return nil, errors.New("request could not be built")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.secret)
	req.Header.Set("Stripe-Version", apiVersion)
	if account != DefaultAccount {
		req.Header.Set("Stripe-Account", account)
	}
	return req, nil
}
