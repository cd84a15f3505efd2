package psp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
)

// Settings say how the stub is served.
type Settings struct {
	Address     string `json:"address"`              // host and port; port 0 takes a free one
	DelayMicros int64  `json:"delayMicros,omitzero"` // that each charge takes
	Limit       int    `json:"limit,omitzero"`       // charges that the ledger holds; DefaultLimit by default
}

// Command serves with the Settings that are on stdin as JSON, until ctx ends. When it takes requests, it writes
// {"address":"host:port"} as a line to stdout.
func Command(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	var s Settings
	if err := json.UnmarshalRead(stdin, &s, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintf(stdout, "{\"address\":%q}\n", l.Addr())
	return Serve(ctx, l, time.Duration(s.DelayMicros)*time.Microsecond, s.Limit)
}

// Serve serves an empty ledger until ctx ends; a clean end returns nil. Each charge takes delay. A limit of 0 is
// DefaultLimit.
func Serve(ctx context.Context, l net.Listener, delay time.Duration, limit int) error {
	if limit == 0 {
		limit = DefaultLimit
	}
	stub := &server{ledger: newLedger(limit), delay: delay}
	over := &http.Server{
		Handler:           stub.routes(),
		ReadHeaderTimeout: 5 * time.Second,
		// longer than any run: a connection that ends between two payments makes one of them unknown
		IdleTimeout: time.Hour,
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { stopped <- over.Close() })
	err := over.Serve(l)
	if stop() { // ctx has not ended: it stopped by itself
		return fmt.Errorf("serve: %w", err)
	}
	if err := <-stopped; err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}
