package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
	"payonce/test/heldport"
	"payonce/test/wait"
)

func TestNoListenerProvesThatNothingWasSent(t *testing.T) {
	t.Parallel()
	notSent(t, newClient(t, nobodyListens(t)).post(), "no connection to the PSP")
}

// nobodyListens is the URL of a port on which nobody listens during the test. A port that was only closed could be
// given to somebody else.
func nobodyListens(t *testing.T) string { return "http://" + heldport.Address(t) }

// From the moment that there was a connection, nothing short of an answer proves anything: not even a connection that
// was closed before a byte of the request was read.
func TestConnectionThatEndsIsALostRequest(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(c *net.TCPConn){
		"closed at once":            func(*net.TCPConn) {},
		"closed before it was read": func(c *net.TCPConn) { peek(c) },
		"reset before it was read":  func(c *net.TCPConn) { peek(c); reset(c) },
		"closed during the request": func(c *net.TCPConn) { _, _ = io.ReadFull(c, make([]byte, 10)) },
		"reset during the request":  func(c *net.TCPConn) { _, _ = io.ReadFull(c, make([]byte, 10)); reset(c) },
		"closed after the request":  func(c *net.TCPConn) { readRequest(c) },
		"reset after the request":   func(c *net.TCPConn) { readRequest(c); reset(c) },
		"closed in the status line": func(c *net.TCPConn) { readRequest(c); write(c, "HTTP/1.1 20") },
		"closed in the headers": func(c *net.TCPConn) {
			readRequest(c)
			write(c, "HTTP/1.1 201 Created\r\nContent-Ty")
		},
		"closed before the body": func(c *net.TCPConn) {
			readRequest(c)
			write(c, strings.TrimSuffix(response(201, said), said))
		},
		"closed in the body": func(c *net.TCPConn) {
			readRequest(c)
			write(c, strings.TrimSuffix(response(201, said), `answer"}`))
		},
		"reset in the body": func(c *net.TCPConn) {
			readRequest(c)
			write(c, strings.TrimSuffix(response(201, said), `}`))
			reset(c)
		},
		"closed in a chunk":          func(c *net.TCPConn) { readRequest(c); write(c, chunkedHead+"fff\r\n"+said) },
		"closed before the last one": func(c *net.TCPConn) { readRequest(c); write(c, chunkedHead+"2\r\n{}\r\n") },
		"an answer that is not HTTP": func(c *net.TCPConn) {
			readRequest(c)
			write(c, "SSH-2.0-OpenSSH\r\n\r\n")
			hold(c)
		},
		"headers without an end": func(c *net.TCPConn) {
			readRequest(c)
			write(c, "HTTP/1.1 201 Created\r\n")
			endless(c, "X-More: 0123456789\r\n")
		},
		"a status line without an end": func(c *net.TCPConn) {
			readRequest(c)
			endless(c,
				"HTTP/1.1 201 Created and more ")
		},
		"early hints without an end": func(c *net.TCPConn) {
			readRequest(c)
			endless(c,
				"HTTP/1.1 103 Early Hints\r\n\r\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t, serve)
			lost(t, newClient(t, l.url).post(), "connection lost")
			if n := l.arrivals.Load(); n != 1 {
				t.Fatalf("%d connections, want 1: the request was sent again", n)
			}
		})
	}
}

const chunkedHead = "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"

func TestAnswerThatIsLateIsALostRequest(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(ctx context.Context, c *net.TCPConn){
		"nothing is read":     func(ctx context.Context, _ *net.TCPConn) { <-ctx.Done() },
		"nothing is answered": func(_ context.Context, c *net.TCPConn) { readRequest(c); hold(c) },
		"the headers stop": func(_ context.Context, c *net.TCPConn) {
			readRequest(c)
			write(c, "HTTP/1.1 201 Created\r\nContent-")
			hold(c)
		},
		"the body does not come": func(_ context.Context, c *net.TCPConn) {
			readRequest(c)
			write(c, strings.TrimSuffix(response(201, said), said))
			hold(c)
		},
		"the body stops": func(_ context.Context, c *net.TCPConn) {
			readRequest(c)
			write(c, strings.TrimSuffix(response(201, said), `}`))
			hold(c)
		},
		"the body drips": func(_ context.Context, c *net.TCPConn) {
			readRequest(c)
			drip(c, response(201, said+strings.Repeat(" ", 10000)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t, func(c *net.TCPConn) { serve(t.Context(), c) })
			lost(t, newClient(t, l.url, total(soon)).post(), "no answer in time")
			if n := l.arrivals.Load(); n != 1 {
				t.Fatalf("%d connections, want 1", n)
			}
		})
	}
}

func TestCallersDeadlineCountsToo(t *testing.T) {
	t.Parallel()
	l := listen(t, func(c *net.TCPConn) { readRequest(c); hold(c) })
	c := newClient(t, l.url)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	lost(t, c.postOf(ctx, account), "no answer in time")
}

func TestRedirectIsNeverFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{300, 301, 302, 303, 304, 305, 307, 308, 399} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			var elsewhere atomic.Int32
			other := serving(t, func(w http.ResponseWriter, _ *http.Request) {
				elsewhere.Add(1)
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, said)
			})
			var here atomic.Int32
			s := serving(t, func(w http.ResponseWriter, _ *http.Request) {
				here.Add(1)
				w.Header().Set("Location", other.URL+"/v1/canary")
				w.WriteHeader(status)
			})
			if r := newClient(t, s.URL).post(); r.Status != status {
				t.Fatalf("reply %+v", r)
			}
			if here.Load() != 1 || elsewhere.Load() != 0 {
				t.Fatalf("%d requests here and %d elsewhere", here.Load(), elsewhere.Load())
			}
		})
	}
}

// An idle connection that the PSP closes on our next request is where Go's transport would send the POST once more by
// itself, since it carries an Idempotency-Key.
func TestTransportNeverSendsAgain(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	l := listen(t, func(c *net.TCPConn) {
		for readRequest(c) {
			if requests.Add(1)%2 == 0 {
				return // the second on this connection: read, perhaps executed, never answered
			}
			write(c, response(201, said))
		}
	})
	c := newClient(t, l.url)
	answered(t, c.post(), 201)
	lost(t, c.post(), "connection lost")
	if n := requests.Load(); n != 2 || l.arrivals.Load() != 1 {
		t.Fatalf("%d requests on %d connections, want 2 on 1", n, l.arrivals.Load())
	}
}

// The transport would send a request without a body again (ADR 0053), and a body without a length in chunks, to which a
// proxy may answer 411.
func TestRequestWithoutABodyOfAKnownLengthIsNotSent(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	s := serving(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	c := newClient(t, s.URL)
	for name, body := range map[string]io.Reader{
		"none": nil, "no body": http.NoBody, "empty": strings.NewReader(""),
		"empty and read once": io.NopCloser(strings.NewReader("")),
		"without a length":    io.NopCloser(strings.NewReader("canary-body")),
	} {
		notSent(t, c.postBody(body), "request could not be built")
		if n := requests.Load(); n != 0 {
			t.Errorf("%s: sent %d times", name, n)
		}
	}
}

// postBody sends a request with a key.
func (c *client) postBody(body io.Reader) wire.Reply {
	return c.checked(c.Send(c.t.Context(), account, func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+"/v1/canary", body)
		if err == nil {
			req.Header.Set("Idempotency-Key", "canary-key-0123456789")
		}
		return req, err
	}))
}

// peek waits until something can be read, and does not read it.
func peek(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		return !errors.Is(err, syscall.EAGAIN)
	})
}

func write(c net.Conn, s string) { _, _ = io.WriteString(c, s) }

// endless writes until the other side has had enough, which must be soon.
func endless(c net.Conn, s string) {
	block := strings.Repeat(s, 1000)
	for written := 0; written < 32<<20; written += len(block) {
		if _, err := io.WriteString(c, block); err != nil {
			return
		}
	}
}

// drip writes a byte at a time.
func drip(c net.Conn, s string) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := range len(s) {
		<-tick.C
		if _, err := io.WriteString(c, s[i:i+1]); err != nil {
			return
		}
	}
}

// Each status is an answer, with its headers. What it means is the dialect's.
func TestEachCompleteAnswerIsReturned(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 201, 202, 299, 300, 307, 400, 402, 404, 409, 422, 429, 499, 500, 503, 599, 999} {
		s := serving(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Test-Header", "its value")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, said)
		})
		r := newClient(t, s.URL).post()
		answered(t, r, status)
		if r.Header.Get("Test-Header") != "its value" {
			t.Errorf("headers %v", r.Header)
		}
	}
}

func TestAnswerMayHave64KiBAndNoMore(t *testing.T) {
	t.Parallel()
	fits := said + strings.Repeat(" ", 64<<10-len(said))
	for _, chunked := range []bool{false, true} {
		serve := func(body string) string {
			s := serving(t, func(w http.ResponseWriter, _ *http.Request) {
				if !chunked {
					w.Header().Set("Content-Length", fmt.Sprint(len(body)))
				}
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, body)
			})
			return s.URL
		}
		if r := newClient(t, serve(fits)).post(); r.Status != http.StatusCreated || string(r.Body) != fits {
			t.Fatalf("status %d, %d bytes", r.Status, len(r.Body))
		}
		lost(t, newClient(t, serve(fits+" ")).post(), "answer longer than 65536 bytes")
	}
}

func TestHeadersWithoutAnEndAreCutOffEarly(t *testing.T) {
	t.Parallel()
	const block = "X-More: 0123456789\r\n"
	written := make(chan int, 1)
	l := listen(t, func(c *net.TCPConn) {
		readRequest(c)
		_ = c.SetWriteBuffer(4 << 10)
		n, _ := io.WriteString(c, "HTTP/1.1 201 Created\r\n"+strings.Repeat(block, 256<<10))
		written <- n
	})
	lost(t, newClient(t, l.url).post(), "connection lost")
	// What the two sockets hold in their buffers counts as written, too.
	if n := wait.For(t, "the end of the headers", written); n >= len(block)*256<<10 {
		t.Fatalf("the client took all %d bytes of headers", n)
	}
}

func TestClientRefusesSettingsThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "psp", "psp:80", "ftp://psp", "//psp", "http://", "http://%zz", "http:/v1", "http://psp/v1",
		"http://psp?key=canary", "http://psp#canary",
		"http://canary@psp", "http://user:canary@psp", "http://user:canary@psp:port",
	} {
		_, err := wire.New("ITS_URL", url, testLimits(), nil)
		switch {
		case err == nil:
			t.Errorf("the URL %q is taken", url)
		case strings.Contains(err.Error(), "canary"):
			t.Errorf("the URL %q is repeated: %v", url, err)
		case !strings.HasPrefix(err.Error(), "ITS_URL "):
			t.Errorf("the setting is not named: %v", err)
		}
	}
	for url, base := range map[string]string{
		"http://psp": "http://psp", "https://psp/": "https://psp", "http://[::1]:8082": "http://[::1]:8082",
		"http://127.0.0.1:8082": "http://127.0.0.1:8082",
	} {
		c, err := wire.New("ITS_URL", url, testLimits(), nil)
		if err != nil || c.Base != base || c.Total() != patience {
			t.Errorf("the URL %q: %v", url, err)
		}
	}
	for name, edit := range map[string]func(*gateway.Limits){
		"dial":     func(l *gateway.Limits) { l.Dial = 0 },
		"total":    func(l *gateway.Limits) { l.Total = 0 },
		"queue":    func(l *gateway.Limits) { l.Queue = 0 },
		"stall":    func(l *gateway.Limits) { l.Stall = 0 },
		"inFlight": func(l *gateway.Limits) { l.InFlight = 0 },
		"failures": func(l *gateway.Limits) { l.BreakerFailures = 0 },
		"open":     func(l *gateway.Limits) { l.BreakerOpen = 0 },
	} {
		l := testLimits()
		edit(&l)
		if _, err := wire.New("ITS_URL", "http://psp", l, nil); err == nil {
			t.Errorf("a limit without %s is taken", name)
		}
	}
}
