package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// Every client and server of these tests ends with its test: a connection that the client forgot fails the run.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// patience is a limit that no test reaches.
	patience = time.Minute
	// soon is the deadline of a request that is meant to reach it.
	soon = 150 * time.Millisecond
	// account is the account of all requests but those that say otherwise.
	account = "canary-account"
	// said is what the PSP of these tests answers. No dialect is needed to read it.
	said = `{"id":"canary-answer"}`
)

// testLimits are the defaults, with times that no test meets by accident, however busy its machine is.
func testLimits() gateway.Limits {
	l := gateway.DefaultLimits()
	l.Dial, l.Total, l.Stall = patience, patience, patience
	l.BreakerFailures = 1000
	return l
}

type client struct {
	*wire.Client
	t   *testing.T
	url string
}

func newClient(t *testing.T, url string, edits ...func(*gateway.Limits)) *client {
	t.Helper()
	l := testLimits()
	for _, edit := range edits {
		edit(&l)
	}
	c := &client{t: t, url: url}
	var err error
	if c.Client, err = wire.New("PSP_URL", url, l, time.Now); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func total(d time.Duration) func(*gateway.Limits) {
	return func(l *gateway.Limits) { l.Total = d }
}

// post sends one request that moves money.
func (c *client) post() wire.Reply { return c.postOf(c.t.Context(), account) }

// postOf sends one as a dialect does: with a key, by which the transport would take it for replayable.
func (c *client) postOf(ctx context.Context, account string) wire.Reply {
	return c.checked(c.Send(ctx, account, func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+"/v1/canary",
			bytes.NewReader([]byte("canary-body")))
		if err == nil {
			req.Header.Set("Idempotency-Key", "canary-key-0123456789")
			req.Header.Set("Test-Account", account)
		}
		return req, err
	}))
}

// get builds a request that has no effect.
func (c *client) get(ctx context.Context) (*http.Request, error) {
	return http.NewRequestWithContext(ctx, http.MethodGet, c.Base+"/v1/canary?key=canary", http.NoBody)
}

// read returns the answer to a request that has no effect, of at most so many bytes.
func (c *client) read(most int64) (body string, err error) {
	return c.readOf(c.t.Context(), account, most)
}

func (c *client) readOf(ctx context.Context, account string, most int64) (body string, err error) {
	err = c.Read(ctx, account, c.get, most, func(r io.Reader) error {
		raw, err := io.ReadAll(r)
		body = string(raw)
		return err
	})
	c.checkedError(err)
	return body, err
}

// checked checks that a reply says one thing, and that its reason holds nothing that a log must not.
func (c *client) checked(r wire.Reply) wire.Reply {
	c.t.Helper()
	known := 0
	for _, is := range []bool{r.NotSent != "", r.Lost != "", r.Status != 0} {
		if is {
			known++
		}
	}
	if known != 1 || r.Status == 0 && (r.Body != nil || r.Header != nil) {
		c.t.Errorf("the reply is not one thing: %+v", r)
	}
	c.checkedReason(r.NotSent + r.Lost)
	return r
}

func (c *client) checkedError(err error) {
	c.t.Helper()
	if err != nil {
		c.checkedReason(err.Error())
	}
}

func (c *client) checkedReason(reason string) {
	c.t.Helper()
	host := strings.TrimPrefix(c.url, "http://")
	for _, private := range []string{"canary", host, "127.0.0.1", "http:", "/v1"} {
		if strings.Contains(reason, private) {
			c.t.Errorf("the reason %q holds %q", reason, private)
		}
	}
}

// notSent checks that the PSP has certainly not seen the request.
func notSent(t *testing.T, r wire.Reply, reason string) {
	t.Helper()
	if r.NotSent != reason {
		t.Fatalf("reply %+v, want not sent: %s", r, reason)
	}
}

// lost checks that nothing is known.
func lost(t *testing.T, r wire.Reply, reason string) {
	t.Helper()
	if r.Lost != reason {
		t.Fatalf("reply %+v, want lost: %s", r, reason)
	}
}

func answered(t *testing.T, r wire.Reply, status int) {
	t.Helper()
	if r.Status != status || string(r.Body) != said {
		t.Fatalf("reply %+v, want an answer with %d", r, status)
	}
}

func failed(t *testing.T, err error, reason string) {
	t.Helper()
	if err == nil || err.Error() != reason {
		t.Fatalf("error %v, want: %s", err, reason)
	}
}

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
