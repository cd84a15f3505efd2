package wire

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"payonce/internal/gateway"
)

// MaxAnswer bounds the answer to a request that moves money, in bytes.
const MaxAnswer = 64 << 10

// Client sends requests to one PSP. It is safe for concurrent use.
type Client struct {
	// Base is the scheme and the host of the PSP.
	Base string

	limits gateway.Limits
	// A http.Client would follow a redirect, and send the charge a second time, to another address.
	transport http.RoundTripper
	breakers  *breakers
	places    *places
}

// New returns a client of the PSP at baseURL. setting is the name of the setting that has the URL, for the error.
func New(setting, baseURL string, l gateway.Limits, now func() time.Time) (*Client, error) {
	u, err := url.Parse(baseURL)
	// The error does not repeat the URL, because it may hold a password.
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New(setting + " must be http or https, a host and a port, and nothing else")
	}
	if l.InFlight < 1 || l.Total <= 0 || l.Dial <= 0 || l.Queue <= 0 || l.Stall <= 0 ||
		l.BreakerFailures < 1 || l.BreakerOpen <= 0 {
		return nil, errors.New("every PSP limit must be positive")
	}
	return &Client{
		Base: u.Scheme + "://" + u.Host, limits: l, transport: newTransport(l),
		breakers: newBreakers(l, now, maxBreakers), places: newPlaces(l.InFlight),
	}, nil
}

// Ready reports whether a request of the account would be sent now. It would not while the account's breaker is open.
func (c *Client) Ready(account string) bool { return !c.breakers.open(account) }

// InFlight is the number of requests in flight, of all accounts.
func (c *Client) InFlight() int { return c.places.taken() }

// Total is the longest time of one request.
func (c *Client) Total() time.Duration { return c.limits.Total }

// Close drops idle connections.
func (c *Client) Close() { (&http.Client{Transport: c.transport}).CloseIdleConnections() }
