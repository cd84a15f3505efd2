package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/tracing"
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

// Build makes a request.
type Build func(ctx context.Context) (*http.Request, error)

// Reply is what is known after a request: NotSent, or Lost, or an answer.
type Reply struct {
	NotSent string // why the PSP has certainly not seen the request; or ""
	ByUs    bool   // we did not send it ourselves: too many requests were in flight, or the breaker was open
	Lost    string // why there is no answer to a request that the PSP may have seen; or ""
	Status  int
	Header  http.Header
	Body    []byte // at most MaxAnswer bytes
}

// NoAnswer says why there is no answer. It is "" if there is one.
func (r Reply) NoAnswer() string { return cmp.Or(r.NotSent, r.Lost) }

// Replayed reports whether the answer is that of an earlier request under the same key. The PSP has kept it.
func (r Reply) Replayed() bool { return r.Header.Get("Idempotent-Replayed") == "true" }

// Send takes a place for the account, asks its breaker, and sends one request once.
func (c *Client) Send(ctx context.Context, account string, build Build) Reply {
	leave, refusal := c.places.enter(ctx, account, c.limits.Queue)
	if refusal != "" {
		return Reply{NotSent: refusal, ByUs: true}
	}
	defer leave()
	report, ok := c.breakers.allow(account)
	if !ok {
		return Reply{NotSent: "breaker open", ByUs: true}
	}
	reply, healthy := c.exchange(ctx, build)
	report(healthy)
	return reply
}

// exchange sends the request and reads the answer. healthy is the result for the breaker.
func (c *Client) exchange(ctx context.Context, build Build) (r Reply, healthy bool) {
	ctx, cancel := context.WithTimeout(ctx, c.limits.Total)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	req, err := build(ctx)
	if err != nil || !sentOnce(req) {
		return Reply{NotSent: "request could not be built"}, true
	}
	tracing.Inject(ctx, req.Header)
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		if !connected.Load() {
			return Reply{NotSent: "no connection to the PSP"}, false
		}
		return Reply{Lost: c.lostReason(ctx, err)}, false
	}
	defer res.Body.Close()
	tracing.Current(ctx).Status(res.StatusCode)
	raw, err := io.ReadAll(io.LimitReader(res.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return Reply{Lost: c.lostReason(ctx, err)}, false
	case len(raw) > MaxAnswer:
		return Reply{Lost: fmt.Sprintf("answer longer than %d bytes", MaxAnswer)}, false
	}
	r = Reply{Status: res.StatusCode, Header: res.Header, Body: raw}
	// A server error that was kept says how the PSP was. It can send it now.
	return r, r.Status < http.StatusInternalServerError || r.Replayed()
}

// sentOnce keeps the transport from sending the request again by itself on another connection: we would not know of
// that attempt. The transport cannot repeat a body that it has begun to read, if GetBody is nil. It does repeat a
// request without a body, so sentOnce refuses one. The body has a length, because a proxy may answer 411 to one in
// chunks (ADR 0053).
func sentOnce(req *http.Request) bool {
	req.GetBody = nil
	return req.ContentLength > 0
}

// lostReason is lostReason, also where the demo has ended a request because its time was over.
func (c *Client) lostReason(ctx context.Context, err error) string {
	if deadline, _ := ctx.Deadline(); c.limits.Held > 0 && deadline.Sub(c.breakers.now()) < c.limits.Held {
		err = context.DeadlineExceeded
	}
	return lostReason(err)
}

// lostReason says why there is no answer, without details of the network.
func lostReason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return gateway.NoAnswer
	}
	return gateway.ConnectionLost
}
