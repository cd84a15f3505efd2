package contract

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
)

// exchange is one request and its answer, both read to their end.
type exchange struct {
	method string
	url    *url.URL
	sent   http.Header
	body   []byte // what was sent; complete if the server took the request

	status   int
	received http.Header
	answer   []byte
}

// transport lets exchanges through unchanged, and complains about them.
type transport struct {
	document *Document
	base     http.RoundTripper
	complain func(e exchange, complaint string)
}

// RoundTrip sends the request and checks the exchange. A request that got no answer, or half of one, is not checked:
// there is nothing that the document says about those.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	sent, recording := record(request)
	response, err := t.base.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(answer))

	e := exchange{
		method: request.Method, url: request.URL, sent: request.Header, body: recording.bytes(),
		status: response.StatusCode, received: response.Header, answer: answer,
	}
	for _, complaint := range t.document.check(e) {
		t.complain(e, complaint)
	}
	return response, nil
}

// record returns a request that keeps what is read of its body. The body is not read beforehand: a test may send one
// that is slow or endless.
func record(request *http.Request) (*http.Request, *recording) {
	kept := &recording{}
	if request.Body == nil || request.Body == http.NoBody {
		return request, kept
	}
	sent := request.Clone(request.Context())
	sent.Body = kept.of(request.Body)
	if request.GetBody != nil {
		// http.Transport begins again when a kept-alive connection turns out to be closed.
		sent.GetBody = func() (io.ReadCloser, error) {
			body, err := request.GetBody()
			if err != nil {
				return nil, err
			}
			return kept.of(body), nil
		}
	}
	return sent, kept
}

// recording holds a body as far as it has been sent. The transport may still be sending when the answer is here
// already, so there is a lock.
type recording struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (r *recording) of(body io.ReadCloser) io.ReadCloser {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buffer.Reset()
	return struct {
		io.Reader
		io.Closer
	}{io.TeeReader(body, r), body}
}

// Write implements io.Writer.
func (r *recording) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buffer.Write(p)
}

func (r *recording) bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.buffer.Bytes())
}
