package wire_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// listener is a server that speaks no HTTP unless its script does.
type listener struct {
	url      string
	arrivals atomic.Int32 // connections
}

// listen gives each connection to serve, and closes it afterwards.
func listen(t *testing.T, serve func(c *net.TCPConn)) *listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &listener{url: "http://" + l.Addr().String()}
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		open = map[net.Conn]bool{}
		over bool
	)
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			ended := over
			mu.Unlock()
			if ended {
				_ = c.Close()
				return
			}
			s.arrivals.Add(1)
			all.Go(func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		over = true
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return s
}

// readRequest takes one whole request off a connection.
func readRequest(c net.Conn) bool {
	_, err := requestOf(bufio.NewReader(c))
	return err == nil
}

func requestOf(r *bufio.Reader) (*http.Request, error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, req.Body)
	return req, err
}

// hold blocks until the other side closes the connection.
func hold(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// reset makes the close that follows a reset.
func reset(c *net.TCPConn) { _ = c.SetLinger(0) }

func response(status int, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d Whatever\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status,
		len(body), body)
}

// answering serves the same answer to every request.
func answering(t *testing.T, status int, body string) *httptest.Server {
	t.Helper()
	return serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func serving(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return
		}
		h(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// await waits for an event.
func await[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
	}
	panic("unreachable")
}

func eventually(t *testing.T, what string, ask func() bool) {
	t.Helper()
	over := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ask() {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("%s did not happen", what)
		}
	}
}
