package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// ask sends one GET and reads its whole answer. Reads take a place among those in flight, and heed the same time limits, but
// pass by the breaker: what charges have done to it must not stop reconciliation, nor a broken list stop charges.
//
// The errors are reasons, without the details of the network: a URL holds a key.
func (c *Client) ask(ctx context.Context, account, pathAndQuery string) (answer, error) {
	leave, refusal := c.places.enter(ctx, account, c.limits.Queue)
	if refusal != "" {
		return answer{}, noPlaceError(refusal)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, c.limits.Total)
	defer cancel()
	res, err := c.get(ctx, account, pathAndQuery, "application/json")
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxPageBytes+1))
	if err != nil {
		return answer{}, errors.New(readReason(err))
	}
	if len(raw) > maxPageBytes {
		return answer{}, fmt.Errorf("answer longer than %d bytes", maxPageBytes)
	}
	return answer{status: res.StatusCode, body: raw}, nil
}

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
