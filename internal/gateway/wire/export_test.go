package wire

import "net/http"

// SetTransport replaces the network, to measure without it.
func (c *Client) SetTransport(t http.RoundTripper) { c.http.Transport = t }
