package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
)

// maxAnswer bounds an answer, in bytes. The server's answers are below 20 KiB.
const maxAnswer = 64 << 10

// answer is what one attempt has brought.
type answer struct {
	row        Row
	retryAfter time.Duration // 0 for none
	body       []byte
	err        error // why the answer counts as none; nil otherwise
}

// why says why the attempt has decided nothing.
func (a answer) why() error {
	if a.err != nil {
		return a.err
	}
	return fmt.Errorf("the last answer was %d %s", a.row.Status, a.row.Code)
}

// send makes one attempt.
func (c *Client) send(ctx context.Context, record Record) answer {
	ctx, cancel := context.WithTimeout(ctx, c.config.AttemptTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(record.Body))
	if err != nil {
		return noAnswer(err)
	}
	// net/http sends a request with an Idempotency-Key again by itself when a connection breaks, if it can get the body
	// again. Each attempt should be one that this package counts and waits before.
	request.GetBody = nil
	request.Header.Set("Authorization", "Bearer "+c.config.APIKey)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", record.Key)
	response, err := c.http.Do(request)
	if err != nil {
		return noAnswer(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return noAnswer(fmt.Errorf("read the answer: %w", err))
	}
	heard := understand(record, response.StatusCode, response.Header, body)
	heard.retryAfter = retryAfter(response.Header.Get("Retry-After"), c.config.Now())
	return heard
}

func noAnswer(err error) answer { return answer{row: decide(0, ""), err: err} }

// understand looks a whole answer up in the table. An answer that claims an end counts only if it is about this very
// request: a cache or a gateway in between may give the answer of another one.
func understand(record Record, status int, header http.Header, body []byte) answer {
	if len(body) > maxAnswer {
		return noAnswer(fmt.Errorf("the answer has more than %d bytes", maxAnswer))
	}
	code := ""
	if kind, _, _ := mime.ParseMediaType(header.Get("Content-Type")); kind == "application/problem+json" {
		code = codeIn(body)
	}
	row := decide(status, code)
	ends := row.Meaning == Paid || row.Meaning == Declined
	if ends && header.Get("Idempotency-Key") != record.Key {
		return noAnswer(errors.New("the answer does not repeat the key"))
	}
	if row.Meaning == Paid {
		if err := fits(record.Body, body); err != nil {
			return noAnswer(err)
		}
	}
	return answer{row: row, body: body}
}

// wait lets time pass before the next attempt. It fails at once if the deadline comes first: a request that cannot be
// sent is not worth waiting for.
func (c *Client) wait(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && deadline.Sub(c.config.Now()) <= d {
		return context.DeadlineExceeded
	}
	return sleep(ctx, d)
}
