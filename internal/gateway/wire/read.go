package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"payonce/internal/gateway"
	"payonce/internal/tracing"
)

// Read sends one request that has no effect, and calls read with at most most bytes of an answer with the status 200. A
// read takes a place among the requests in flight and has the same time limits. But it does not use the breaker: failed
// charges must not stop reconciliation, and a broken list must not stop charges.
//
// The errors have no details of the network, because a URL holds a key.
func (c *Client) Read(
	ctx context.Context, account string, build Build, most int64, read func(body io.Reader) error,
) error {
	leave, refusal := c.places.enter(ctx, account, c.limits.Queue)
	if refusal != "" {
		return NoPlaceError(refusal)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, c.limits.Total)
	defer cancel()
	answer, err := c.get(ctx, build)
	if err != nil {
		return err
	}
	defer answer.Close()
	body := &answerBody{LimitedReader: io.LimitedReader{R: answer, N: most + 1}}
	err = read(body)
	switch {
	case body.lost != nil:
		return errors.New(readReason(body.lost))
	case body.N == 0: // The answer is too long, so the result of read does not count.
		return TooLongError(most)
	}
	return err
}

// answerBody keeps the error that ended the body early, if there was one.
type answerBody struct {
	io.LimitedReader

	lost error
}

// Read reads up to the limit.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.LimitedReader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && b.lost == nil {
		b.lost = err
	}
	return n, err
}

// StatusError says that the PSP answered a read with another status than 200.
type StatusError int

// Error returns the reason.
func (e StatusError) Error() string { return fmt.Sprintf("PSP answered %d", int(e)) }

// TooLongError says that an answer is longer than this many bytes.
type TooLongError int64

// Error returns the reason.
func (e TooLongError) Error() string { return fmt.Sprintf("answer longer than %d bytes", int64(e)) }

// NoPlaceError says why a read was not sent: there was no place for it.
type NoPlaceError string

// Error returns the reason.
func (e NoPlaceError) Error() string { return string(e) }

// LookupFailed is the result of a lookup whose read has failed.
func LookupFailed(err error) gateway.LookupFailed {
	_, notAsked := errors.AsType[NoPlaceError](err)
	return gateway.LookupFailed{Reason: err.Error(), NotAsked: notAsked}
}

// get returns the body of an answer with the status 200. The caller closes it.
func (c *Client) get(ctx context.Context, build Build) (io.ReadCloser, error) {
	req, err := build(ctx)
	if err != nil {
		return nil, err
	}
	// An old copy of an empty list, from the cache of a proxy, would prove that nothing was charged.
	req.Header.Set("Cache-Control", "no-cache")
	tracing.Inject(ctx, req.Header)
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, errors.New(readReason(err))
	}
	if res.StatusCode != http.StatusOK {
		return nil, errors.Join(StatusError(res.StatusCode), res.Body.Close())
	}
	return res.Body, nil
}

// readReason says why a read failed, without details of the network.
func readReason(err error) string {
	if errors.Is(err, context.Canceled) {
		return "ended by the caller"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return "no connection to the PSP"
	}
	return lostReason(err)
}
