package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/go-json-experiment/json"

	"payonce/internal/tracing"
)

// send takes a place for the account, asks its breaker, and sends one request once. judge reads a complete answer.
func (c *Client) send(ctx context.Context, account, key, path string, body any, judge func(answer) Outcome) Outcome {
	began := c.now()
	ctx, span := tracing.StartClient(ctx, "PSP request")
	defer span.End()
	outcome := c.guarded(ctx, account, key, path, body, judge)
	span.Outcome(outcome.Label())
	c.observe(outcome.Label(), c.now().Sub(began))
	return outcome
}

func (c *Client) guarded(ctx context.Context, account, key, path string, body any, judge func(answer) Outcome) Outcome {
	leave, refusal := c.places.enter(ctx, account, c.limits.Queue)
	if refusal != "" {
		return NotExecuted{Reason: refusal}
	}
	defer leave()
	report, ok := c.breakers.allow(account)
	if !ok {
		return NotExecuted{Reason: "breaker open"}
	}
	outcome, healthy := c.exchange(ctx, account, key, path, body, judge)
	report(healthy)
	return outcome
}

// answer is a complete reply of the PSP.
type answer struct {
	status int
	body   []byte
}

// exchange sends the request and reads the answer. healthy is the result for the breaker.
func (c *Client) exchange(
	ctx context.Context, account, key, path string, body any, judge func(answer) Outcome,
) (o Outcome, healthy bool) {
	ctx, cancel := context.WithTimeout(ctx, c.limits.Total)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	req, err := c.request(ctx, account, key, path, body)
	if err != nil {
		return NotExecuted{Reason: "request could not be built"}, true
	}
	tracing.Inject(ctx, req.Header)
	res, err := c.http.Do(req)
	if err != nil {
		if !connected.Load() {
			return NotExecuted{Reason: "no connection to the PSP"}, false
		}
		return Indeterminate{Reason: lostReason(err)}, false
	}
	defer res.Body.Close()
	tracing.Current(ctx).Status(res.StatusCode)
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return Indeterminate{Reason: lostReason(err)}, false
	case len(raw) > maxAnswer:
		return Indeterminate{Reason: fmt.Sprintf("answer longer than %d bytes", maxAnswer)}, false
	case res.StatusCode >= http.StatusInternalServerError:
		return Indeterminate{Reason: fmt.Sprintf("PSP answered %d", res.StatusCode)}, false
	}
	return judge(answer{status: res.StatusCode, body: raw}), true
}

func (c *Client) request(ctx context.Context, account, key, path string, body any) (*http.Request, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("marshal request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	// If GetBody is set, the transport treats a POST with an Idempotency-Key as replayable. It would send the request
	// again by itself on another connection, and we would not know of that attempt.
	req.GetBody = nil
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.secret)
	req.Header.Set("PSP-Account", account)
	req.Header.Set("Idempotency-Key", key)
	return req, nil
}

// lostReason says why there is no answer, without details of the network.
func lostReason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return "connection lost"
}
