package wire

import (
	"context"
	"errors"
	"io"
	"time"
)

// errStalled is the error if no byte of a stream arrives in time.
var errStalled = errors.New("no byte in time")

// Stream sends one request that has no effect, and calls read with the body of an answer with the status 200. It may
// take as long as ctx allows while bytes arrive.
func (c *Client) Stream(ctx context.Context, account string, build Build, read func(body io.Reader) error) error {
	leave, refusal := c.places.enter(ctx, account, c.limits.Queue)
	if refusal != "" {
		return NoPlaceError(refusal)
	}
	defer leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(c.limits.Stall, func() { cancel(errStalled) })
	defer stall.Stop()
	body, err := c.get(ctx, build)
	if err != nil {
		return stalledOr(ctx, err)
	}
	defer body.Close()
	return stalledOr(ctx, read(&steady{body: body, timer: stall, limit: c.limits.Stall}))
}

// stalledOr is errStalled if we have ended the request because no byte arrived in time, whatever the reader says of it.
// Otherwise it is err.
func stalledOr(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errStalled) {
		return errStalled
	}
	return err
}

// steady is a body that fails if the next byte does not arrive in time. The time between two reads does not count.
type steady struct {
	body  io.Reader
	timer *time.Timer
	limit time.Duration
}

func (s *steady) Read(p []byte) (int, error) {
	s.timer.Reset(s.limit)
	defer s.timer.Stop()
	n, err := s.body.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, errors.New(readReason(err))
}
