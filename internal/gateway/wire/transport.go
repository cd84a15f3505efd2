package wire

import (
	"net"
	"net/http"
	"time"

	"payonce/internal/gateway"
)

// newTransport is the transport for requests to the PSP. The bench replaces this file, to measure without the network
// (lab/bench).
func newTransport(l gateway.Limits) http.RoundTripper {
	return &http.Transport{
		Proxy:       http.ProxyFromEnvironment, // HTTPS_PROXY, NO_PROXY
		DialContext: (&net.Dialer{Timeout: l.Dial}).DialContext,
		// As many idle connections as requests in flight. With fewer, each burst would open new connections.
		MaxIdleConns:        l.InFlight,
		MaxIdleConnsPerHost: l.InFlight,
		// Much shorter than servers keep a connection. If a request is sent on a connection that the server has just
		// closed, the payment becomes unknown without need.
		IdleConnTimeout:     20 * time.Second,
		TLSHandshakeTimeout: l.Dial,
		DisableCompression:  true,
		// The default is 10 MB.
		MaxResponseHeaderBytes: MaxAnswer,
		// HTTP/2 where a PSP offers it over TLS. All requests share one connection, so a connection that has died
		// unseen would lose each of them: a ping finds it before a request's time is over.
		ForceAttemptHTTP2: true,
		HTTP2:             &http.HTTP2Config{SendPingTimeout: l.Total / 2, PingTimeout: l.Dial},
	}
}
