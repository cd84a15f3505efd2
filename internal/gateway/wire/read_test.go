package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
	"payonce/test/wait"
)

// most is how many bytes a read of these tests may have.
const most = 1 << 10

// What came before the end may be complete: it is not believed.
func TestReadThatIsCutFails(t *testing.T) {
	t.Parallel()
	const head = "HTTP/1.1 200 OK\r\n"
	for name, serve := range map[string]func(c *net.TCPConn){
		"closed at once":           func(*net.TCPConn) {},
		"closed after the request": func(c *net.TCPConn) { readRequest(c) },
		"reset after the request":  func(c *net.TCPConn) { readRequest(c); reset(c) },
		"closed in the headers":    func(c *net.TCPConn) { readRequest(c); write(c, head+"Content-Ty") },
		"closed in the body": func(c *net.TCPConn) {
			readRequest(c)
			write(c, head+"Content-Length: 100\r\n\r\n"+said)
		},
		"reset in the body": func(c *net.TCPConn) {
			readRequest(c)
			write(c, head+"Content-Length: 100\r\n\r\n"+said)
			reset(c)
		},
		"closed before the last chunk": func(c *net.TCPConn) {
			readRequest(c)
			write(c, fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", head, len(said), said))
		},
		"not HTTP": func(c *net.TCPConn) { readRequest(c); write(c, "SSH-2.0-OpenSSH\r\n\r\n"); hold(c) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newClient(t, listen(t, serve).url).read(most)
			failed(t, err, "connection lost")
		})
	}
}

// A reader that ignores the end of its body cannot hide that it was cut.
func TestReadThatIsCutFailsWhateverItsReaderSays(t *testing.T) {
	t.Parallel()
	l := listen(t, func(c *net.TCPConn) {
		readRequest(c)
		write(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"+said)
	})
	c := newClient(t, l.url)
	ignore := func(r io.Reader) error { _, _ = io.ReadAll(r); return nil }
	failed(t, c.Read(t.Context(), account, c.get, most, ignore), "connection lost")
}

func TestReadThatIsLateFails(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(c *net.TCPConn){
		"nothing is answered": func(c *net.TCPConn) { readRequest(c); hold(c) },
		"the body stops": func(c *net.TCPConn) {
			readRequest(c)
			write(c, strings.TrimSuffix(response(200, said), "}"))
			hold(c)
		},
		"the body drips": func(c *net.TCPConn) {
			readRequest(c)
			drip(c, response(200, said+strings.Repeat(" ", 10000)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newClient(t, listen(t, serve).url, total(soon)).read(1 << 20)
			failed(t, err, "no answer in time")
		})
	}
}

func TestReadThatItsCallerEndsFails(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	l := listen(t, func(c *net.TCPConn) { readRequest(c); close(asked); hold(c) })
	c := newClient(t, l.url)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.readOf(ctx, account, most)
		done <- err
	}()
	wait.For(t, "the request", asked)
	cancel()
	failed(t, wait.For(t, "the end", done), "ended by the caller")
}

func TestReadMayHaveItsLimitAndNoMore(t *testing.T) {
	t.Parallel()
	fits := strings.Repeat("x", most)
	if body, err := newClient(t, answering(t, 200, fits).URL).read(most); err != nil || body != fits {
		t.Fatalf("%d bytes, error %v", len(body), err)
	}
	_, err := newClient(t, answering(t, 200, fits+"x").URL).read(most)
	if !errors.Is(err, wire.TooLongError(most)) {
		t.Fatalf("error %v", err)
	}
	failed(t, err, "answer longer than 1024 bytes")
	l := listen(t, func(c *net.TCPConn) {
		readRequest(c)
		write(c, "HTTP/1.1 200 OK\r\n\r\n"+said)
		endless(c, " ")
	})
	_, err = newClient(t, l.url).read(most)
	failed(t, err, "answer longer than 1024 bytes")
	if n := l.arrivals.Load(); n != 1 {
		t.Fatalf("the PSP was asked %d times, want 1", n)
	}
}

func TestReadOfAnotherStatusIsNotRead(t *testing.T) {
	t.Parallel()
	for _, status := range []int{201, 202, 204, 206, 300, 302, 304, 400, 404, 429, 451, 500, 503, 999} {
		body, err := newClient(t, answering(t, status, said).URL).read(most)
		if !errors.Is(err, wire.StatusError(status)) || body != "" {
			t.Errorf("body %q, error %v, want that of %d", body, err, status)
		}
	}
}

func stall(d time.Duration) func(*gateway.Limits) {
	return func(l *gateway.Limits) { l.Stall = d }
}

const (
	streamHead  = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
	streamSized = "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
	line        = "canary-line\n"
)
