package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// ErrNoStatement: the PSP has none for that day.
var ErrNoStatement = errors.New("the PSP has no statement for that day")

// errStalled is the cause by which a statement without a next byte ends.
var errStalled = errors.New("no byte in time")

// Statement streams the PSP's settlement CSV of one day (UTC) to each, oldest first. It holds one line at a time, and may
// take as long as ctx lets it, as long as bytes come. A file that turns out to be damaged, of another day or not whole is an
// error after its lines so far were delivered: whoever concludes that something is missing waits for nil. An error of each
// ends the reading, and is in the error returned.
func (c *Client) Statement(ctx context.Context, account string, day time.Time, each func(Record) error) error {
	began := c.now()
	err := c.statement(ctx, account, day.UTC().Format(time.DateOnly), each)
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

func (c *Client) statement(ctx context.Context, account, day string, each func(Record) error) error {
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

// stalledOr is err, or why the request was ended by us.
func stalledOr(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
		return errStalled
	}
	return err
}

// steady is a body whose next byte must come in time. What the reader does between two reads does not count.
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
