package wire

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
)

// SetTransport replaces the network, to measure without it.
func (c *Client) SetTransport(t http.RoundTripper) { c.transport = t }

// Trust takes the certificates of a test's server.
func (c *Client) Trust(roots *x509.CertPool) {
	c.transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}
