package wire

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"payonce/internal/gateway"
)

// This file stands in for transport.go when the bench builds the API (go build -overlay): a PSP in the same process, which takes no time and
// charges everything. For the token pm_after_1000ms, it takes that long. Not a byte of the rest differs from the binary that people run.

func newTransport(gateway.Limits) http.RoundTripper {
	// Ids must not repeat over restarts on one database.
	return &inProcess{prefix: "ch_" + strconv.FormatInt(time.Now().UnixNano(), 36) + "_"}
}

type inProcess struct {
	prefix string
	n      atomic.Int64
}

// RoundTrip answers a charge with what was asked, as one that succeeded.
func (p *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost {
		return nil, errors.New("the PSP in process takes charges only")
	}
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	asked, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if len(asked) < 2 {
		return nil, errors.New("no body")
	}
	if err := pause(r, asked); err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(asked)+256)
	b = append(b, `{"object":"charge","status":"succeeded","createdAt":"2026-11-20T12:00:00Z","id":"`...)
	b = append(b, p.prefix...)
	b = strconv.AppendInt(b, p.n.Add(1), 36)
	b = append(b, `","account":"`...)
	b = append(b, r.Header.Get("PSP-Account")...)
	b = append(b, `","idempotencyKey":"`...)
	b = append(b, r.Header.Get("Idempotency-Key")...)
	b = append(b, `",`...)
	b = append(b, asked[1:]...)
	return &http.Response{
		StatusCode: http.StatusCreated, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(b)), ContentLength: int64(len(b)),
	}, nil
}

// pause takes as long as the token says.
func pause(r *http.Request, asked []byte) error {
	_, after, slow := bytes.Cut(asked, []byte(`"pm_after_`))
	if !slow {
		return nil
	}
	text, _, _ := bytes.Cut(after, []byte(`"`))
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return err
	}
	select {
	case <-time.After(d):
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}
