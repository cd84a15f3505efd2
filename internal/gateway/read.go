package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// ask sends one GET and has read take its answer, of which it gives no more than most bytes. Reads take a place among those in flight, and
// heed the same time limits, but pass by the breaker: what charges have done to it must not stop reconciliation, nor a broken list stop
// charges.
//
// The errors are reasons, without the details of the network: a URL holds a key.
func (c *Client) ask(ctx context.Context, account, pathAndQuery string, most int64, read func(body io.Reader) error) error {
	leave, refusal := c.places.enter(ctx, account, c.limits.Queue)
	if refusal != "" {
		return noPlaceError(refusal)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, c.limits.Total)
	defer cancel()
	res, err := c.get(ctx, account, pathAndQuery, "application/json")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("PSP answered %d", res.StatusCode)
	}
	body := &answerBody{LimitedReader: io.LimitedReader{R: res.Body, N: most + 1}}
	err = read(body)
	switch {
	case body.lost != nil:
		return errors.New(readReason(body.lost))
	case body.N == 0: // whatever read has made of it
		return tooLongError(most)
	}
	return err
}

// answerBody remembers how it was lost, if it was.
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

// tooLongError says how many bytes an answer may have.
type tooLongError int64

// Error is the reason.
func (e tooLongError) Error() string { return fmt.Sprintf("answer longer than %d bytes", int64(e)) }

// noPlaceError says why a read was not even sent: there was no place for it among those in flight.
type noPlaceError string

// Error is the reason.
func (e noPlaceError) Error() string { return string(e) }

// get returns an answer whose body the caller reads and closes.
func (c *Client) get(ctx context.Context, account, pathAndQuery, accept string) (*http.Response, error) {
	// Go trims what surrounds a header: the PSP would be asked about another account, and truly have nothing.
	if !isID(account) {
		return nil, errors.New("no such account")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+pathAndQuery, http.NoBody)
	if err != nil {
		return nil, errors.New("request could not be built")
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer "+c.secret)
	req.Header.Set("PSP-Account", account)
	// A proxy's copy of an empty list would prove what is no longer true.
	req.Header.Set("Cache-Control", "no-cache")
	res, err := c.http.Do(req)
	if err != nil {
		return nil, errors.New(readReason(err))
	}
	return res, nil
}

// readReason names how a read was lost, without the details of the network.
func readReason(err error) string {
	if errors.Is(err, context.Canceled) {
		return "ended by the caller"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && !op.Timeout() {
		return "no connection to the PSP"
	}
	return lostReason(err)
}
