package native

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
	"payonce/internal/tracing"
)

// answer is a complete reply of the PSP.
type answer struct {
	status int
	body   []byte
}

// send sends one request once. judge reads a complete answer below 500.
func (c *Client) send(
	ctx context.Context, account, key, path string, body any, judge func(answer) gateway.Outcome,
) gateway.Outcome {
	began := c.now()
	ctx, span := tracing.StartClient(ctx, "PSP request")
	defer span.End()
	outcome := outcomeOf(c.Send(ctx, account, c.request(account, key, path, body)), judge)
	span.Outcome(outcome.Label())
	c.observe(outcome.Label(), c.now().Sub(began))
	return outcome
}

// outcomeOf is what a reply means. Without an answer, only a request that was not sent was certainly not executed.
func outcomeOf(r wire.Reply, judge func(answer) gateway.Outcome) gateway.Outcome {
	switch {
	case r.NotSent != "":
		return gateway.NotExecuted{Reason: r.NotSent}
	case r.Lost != "":
		return gateway.Indeterminate{Reason: r.Lost}
	case r.Status >= http.StatusInternalServerError:
		return gateway.Indeterminate{Reason: fmt.Sprintf("PSP answered %d", r.Status)}
	}
	return judge(answer{status: r.Status, body: r.Body})
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
