package wire

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"payonce/internal/gateway"
)

// This file stands in for transport.go when the matrix builds the API with stops (go build -overlay). Before a request that moves money
// goes out, and after all that is checked before it, it asks the matrix whether to go on: the wire cannot see that moment. The transport
// itself is that of the binary that people run.

func newTransport(l gateway.Limits) http.RoundTripper {
	return stopping{&http.Transport{
		DialContext:            (&net.Dialer{Timeout: l.Dial}).DialContext,
		MaxIdleConns:           l.InFlight,
		MaxIdleConnsPerHost:    l.InFlight,
		IdleConnTimeout:        20 * time.Second,
		TLSHandshakeTimeout:    l.Dial,
		DisableCompression:     true,
		MaxResponseHeaderBytes: MaxAnswer,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: l.Total / 2, PingTimeout: l.Dial},
	}}
}

type stopping struct{ onward http.RoundTripper }

func (s stopping) RoundTrip(r *http.Request) (*http.Response, error) {
	if path := os.Getenv("PAYONCE_MATRIX_STOPS"); path != "" && r.Method == http.MethodPost {
		await(path, stopOf(r.URL.Path))
	}
	return s.onward.RoundTrip(r)
}

// stopOf names the stop. At Stripe, an intent is made and confirmed by two requests.
func stopOf(path string) string {
	switch {
	case strings.HasSuffix(path, "/payment_intents"):
		return "create"
	case strings.HasSuffix(path, "/confirm"):
		return "confirm"
	case strings.HasSuffix(path, "/cancel"):
		return "cancel"
	}
	return "send"
}

// await returns when the matrix closes the connection.
func await(path, stop string) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, stop+"\n"); err == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}
