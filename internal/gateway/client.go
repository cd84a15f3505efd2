package gateway

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Limits bound what one process uses of the PSP.
type Limits struct {
	Dial  time.Duration // longest time to connect
	Total time.Duration // longest time from sending to the end of the answer
	Queue time.Duration // longest wait for a place for the request
	// InFlight is how many requests may be in flight, with reads. An account may hold half of the free places, and
	// always one.
	InFlight int
	Stall    time.Duration // longest wait for the next bytes of a statement, to which Total does not apply

	BreakerFailures uint32        // so many failures in a row open an account's breaker
	BreakerOpen     time.Duration // how long the breaker stays open before it lets one request pass
}

// DefaultLimits are the values of the settings' defaults.
func DefaultLimits() Limits {
	return Limits{
		Dial: 2 * time.Second, Total: 8 * time.Second, Queue: time.Second, InFlight: 64, Stall: 30 * time.Second,
		BreakerFailures: 20, BreakerOpen: 5 * time.Second,
	}
}

// maxAnswer bounds an answer of the PSP, in bytes.
const maxAnswer = 64 << 10

// Client talks to one PSP. It is safe for concurrent use.
type Client struct {
	base     string
	secret   string
	limits   Limits
	http     *http.Client
	breakers *breakers
	places   *places
	observe  func(outcome string, took time.Duration)
	now      func() time.Time
}

// New returns a client of the PSP at baseURL. observe is called after every request, with its outcome.
func New(baseURL, secret string, l Limits, now func() time.Time, observe func(string, time.Duration)) (*Client, error) {
	u, err := url.Parse(baseURL)
	// The error does not repeat the URL, because it may hold a password.
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("PSP_URL must be http or https, a host and a port, and nothing else")
	}
	if l.InFlight < 1 || l.Total <= 0 || l.Dial <= 0 || l.Queue <= 0 || l.Stall <= 0 ||
		l.BreakerFailures < 1 || l.BreakerOpen <= 0 {
		return nil, errors.New("every PSP limit must be positive")
	}
	return &Client{
		base: u.Scheme + "://" + u.Host, secret: secret, limits: l, http: newHTTP(l),
		breakers: newBreakers(l, now, maxBreakers), places: newPlaces(l.InFlight), observe: observe, now: now,
	}, nil
}

func newHTTP(l Limits) *http.Client {
	return &http.Client{
		Transport: newTransport(l),
		// A redirect would send the charge a second time, to another address.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Ready reports whether a request of the account would be sent now. It would not while the account's breaker is open.
// The caller asks before it reserves anything.
func (c *Client) Ready(account string) bool { return !c.breakers.open(account) }

// InFlight is the number of requests in flight, of all accounts.
func (c *Client) InFlight() int { return c.places.taken() }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }
