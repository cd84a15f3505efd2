package gateway

import (
	"net"
	"net/http"
	"time"
)

// newTransport carries requests to the PSP. The bench replaces this file, to measure without the way there (lab/bench).
func newTransport(l Limits) http.RoundTripper {
	return &http.Transport{
		DialContext: (&net.Dialer{Timeout: l.Dial}).DialContext,
		// As many idle connections as requests in flight: fewer, and every burst dials anew.
		MaxIdleConns:        l.InFlight,
		MaxIdleConnsPerHost: l.InFlight,
		// Well below what servers keep a connection for. One that the server has just closed would turn a payment
		// unknown for nothing.
		IdleConnTimeout:     20 * time.Second,
		TLSHandshakeTimeout: l.Dial,
		DisableCompression:  true,
		// The default is 10 MB.
		MaxResponseHeaderBytes: maxAnswer,
	}
}
