package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// post builds a request that moves money.
func (c *Client) post(account, key, path string, body any) wire.Build {
	return func(ctx context.Context) (*http.Request, error) {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("marshal request: %w", err)
		}
		req, err := c.request(ctx, http.MethodPost, account, path, "application/json", bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		return req, nil
	}
}

// get builds a request that has no effect.
func (c *Client) get(account, pathAndQuery, accept string) wire.Build {
	return func(ctx context.Context) (*http.Request, error) {
		return c.request(ctx, http.MethodGet, account, pathAndQuery, accept, http.NoBody)
	}
}

// request has the headers that every request has.
func (c *Client) request(
	ctx context.Context, method, account, path, accept string, body io.Reader,
) (*http.Request, error) {
	// Go cuts off spaces around a header. Then the PSP would be asked about another account, and would find nothing.
	if !gateway.IsID(account) {
		return nil, errors.New("no such account")
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, body)
	if err != nil {
		return nil, errors.New("request could not be built")
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer "+c.secret)
	req.Header.Set("PSP-Account", account)
	return req, nil
}
