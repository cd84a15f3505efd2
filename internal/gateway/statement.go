package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// ErrNoStatement says that the PSP has no statement for that day.
var ErrNoStatement = errors.New("the PSP has no statement for that day")

// errStalled is the error if no byte of a statement arrives in time.
var errStalled = errors.New("no byte in time")

// Statement calls each with every record of the PSP's settlement CSV of one day (UTC), oldest first. It keeps one line
// in memory, and may take as long as ctx allows while bytes arrive. If the file is damaged, of another day, or
// incomplete, Statement returns an error, but each has got the lines before that. So the caller must not conclude that
// a record is missing before Statement has returned nil. An error of each ends the reading, and is part of the error
// that is returned.
func (c *Client) Statement(ctx context.Context, account string, day time.Time, each func(Record) error) error {
	began := c.now()
	err := c.readStatement(ctx, account, day.UTC().Format(time.DateOnly), each)
	label := "statement_ok"
	if err != nil {
		label, err = "statement_failed", fmt.Errorf("read statement: %w", err)
	}
	if errors.Is(err, ErrNoStatement) {
		label = "statement_none"
	}
	c.observe(label, c.now().Sub(began))
	return err
}

func (c *Client) readStatement(ctx context.Context, account, day string, each func(Record) error) error {
	leave, refusal := c.places.enter(ctx, account, c.limits.Queue)
	if refusal != "" {
		return errors.New(refusal)
	}
	defer leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(c.limits.Stall, func() { cancel(errStalled) })
	defer stall.Stop()
	res, err := c.get(ctx, account, "/v1/settlements/"+day+".csv", "text/csv")
	if err != nil {
		return stalledOr(ctx, err)
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return ErrNoStatement
	default:
		return fmt.Errorf("PSP answered %d", res.StatusCode)
	}
	body := &steady{body: res.Body, timer: stall, limit: c.limits.Stall}
	return stalledOr(ctx, newSettlement(body, account, day).read(each))
}

// stalledOr is errStalled if we have ended the request because no byte arrived in time, and otherwise err.
func stalledOr(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
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
