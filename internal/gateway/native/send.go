package native

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// send sends one request once. judge reads a complete answer below 500.
func (c *Client) send(
	ctx context.Context, account, key, path string, body any, judge func(wire.Reply) gateway.Outcome,
) gateway.Outcome {
	r := c.Send(ctx, account, c.request(account, key, path, body))
	// Without an answer, only a request that was not sent was certainly not executed.
	switch {
	case r.NotSent != "":
		return gateway.NotExecuted{Reason: r.NotSent}
	case r.Lost != "":
		return gateway.Indeterminate{Reason: r.Lost}
	case r.Status >= http.StatusInternalServerError:
		return gateway.Indeterminate{Reason: fmt.Sprintf("PSP answered %d", r.Status)}
	}
	return judge(r)
}

func (c *Client) request(account, key, path string, body any) wire.Build {
	return func(ctx context.Context) (*http.Request, error) {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("marshal request: %w", err)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+path, bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("build request: %w", err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		c.authorize(req, account, "application/json")
		return req, nil
	}
}
