package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// traceSink takes traces as a collector does, and throws them away. It belongs to this process, so its CPU is not
// counted as the API's. It returns the settings of an API that sends this share of its traces there. If the share is 0,
// it returns none.
func traceSink(share float64) (settings []string, end func(), err error) {
	if share == 0 {
		return nil, func() {}, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed by end
	if err != nil {
		return nil, nil, fmt.Errorf("listen for traces: %w", err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/x-protobuf")
		})}
	go func() { _ = server.Serve(l) }()
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + l.Addr().String(), fmt.Sprintf("TRACE_RATIO=%v", share)},
		func() { _ = server.Close() }, nil
}
